"""The layer above the composer, which asks for a line or for a yes. Esc closes it.

Typed text stays until it was taken: a line that is refused stays open, and a line that was closed
has its text again when it is opened the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Static

from midflight.terminal.visible import visible

Done = Callable[[str], Coroutine[Any, Any, bool]]
"""Sends the typed text, and returns whether it was taken."""
SENDING: Final = "Sending …"


class Layer(Vertical):
    """Asks for a line, or only for Enter."""

    def __init__(self) -> None:
        super().__init__(id="layer")
        self._done: Done | None = None
        self._hint = ""
        self._start = ""  # the text that the line began with
        self._place = ""  # the key under which its draft is kept
        self._drafts: dict[str, str] = {}
        self._sending = False
        self.kind = ""

    def compose(self) -> ComposeResult:
        """See Textual."""
        yield Static(id="layer-title", markup=False)
        yield Input(id="layer-line", select_on_focus=True)
        yield Static(id="layer-hint", markup=False)

    @property
    def is_open(self) -> bool:
        """True while the layer is shown."""
        return self.has_class("shown")

    def open(
        self,
        kind: str,
        title: str,
        hint: str,
        done: Done,
        *,
        prefill: str | None = None,
        about: str = "",
    ) -> None:
        """Show the layer; ``prefill`` None asks for Enter alone. A draft belongs to ``about``."""
        self._keep_draft()
        self.kind, self._done, self._hint = kind, done, hint
        self._place = f"{kind}:{about}" if prefill is not None else ""
        self._start = prefill or ""
        self.query_one("#layer-title", Static).update(visible(title))
        self._tell(hint)
        line = self._line
        line.value = self._drafts.get(self._place, self._start)
        line.styles.opacity = 1.0 if prefill is not None else 0.0
        line.styles.height = 1
        self.add_class("shown")
        self.screen.add_class("layered")
        line.focus()

    def close(self) -> None:
        """Hide the layer; nothing is sent, and typed text is kept."""
        self._keep_draft()
        self._done, self.kind, self._place = None, "", ""
        self.remove_class("shown")
        self.screen.remove_class("layered")
        self.screen.query_one("#composer", Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Send the line, or take Enter for a yes."""
        event.stop()
        done, text = self._done, event.value
        if done is None or self._sending:
            return
        if not self._place:  # a yes has no text to be lost
            self.close()
            self.app.run_worker(done(text), exclusive=False)
            return
        self._sending = True
        self._tell(SENDING)
        self.app.run_worker(self._send(done, text, self._place), exclusive=False)

    async def _send(self, done: Done, text: str, place: str) -> None:
        """Send the text of the line, and close the line if the text was taken."""
        taken = False
        try:
            taken = await done(text)
        finally:
            self._sending = False
            if taken:
                self._drafts.pop(place, None)
            if self._done is done:
                self._after(taken)

    def _after(self, taken: bool) -> None:
        if taken:
            self._start = self._line.value  # it is not a draft any more
            self.close()
        else:
            self._tell(self._hint)

    def _keep_draft(self) -> None:
        if not (self.is_open and self._place):
            return
        if self._line.value in {"", self._start}:
            self._drafts.pop(self._place, None)
        else:
            self._drafts[self._place] = self._line.value

    def _tell(self, hint: str) -> None:
        self.query_one("#layer-hint", Static).update(visible(hint))

    @property
    def _line(self) -> Input:
        return self.query_one("#layer-line", Input)
