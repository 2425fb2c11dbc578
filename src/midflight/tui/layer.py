"""What opens above the composer, one at a time: a line to write or a yes to give. Esc closes it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Static

from midflight.terminal.visible import visible

Done = Callable[[str], Coroutine[Any, Any, None]]


class Layer(Vertical):
    """Asks for a line, or only for Enter. What was typed stays typed until it is sent."""

    def __init__(self) -> None:
        super().__init__(id="layer")
        self._done: Done | None = None
        self.kind = ""

    def compose(self) -> ComposeResult:
        """See Textual."""
        yield Static(id="layer-title", markup=False)
        yield Input(id="layer-line", select_on_focus=True)
        yield Static(id="layer-hint", markup=False)

    @property
    def is_open(self) -> bool:
        """Whether it is shown."""
        return self.has_class("shown")

    def open(
        self, kind: str, title: str, hint: str, done: Done, *, prefill: str | None = None
    ) -> None:
        """Show it; ``prefill`` None asks for Enter alone."""
        self.kind, self._done = kind, done
        self.query_one("#layer-title", Static).update(visible(title))
        self.query_one("#layer-hint", Static).update(visible(hint))
        line = self.query_one("#layer-line", Input)
        line.value = prefill or ""
        line.styles.opacity = 1.0 if prefill is not None else 0.0
        line.styles.height = 1
        self.add_class("shown")
        self.screen.add_class("layered")
        line.focus()

    def close(self) -> None:
        """Hide it; nothing is sent."""
        self._done, self.kind = None, ""
        self.remove_class("shown")
        self.screen.remove_class("layered")
        self.screen.query_one("#composer", Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        done, text = self._done, event.value
        self.close()
        if done is not None:
            self.app.run_worker(done(text), exclusive=False)
