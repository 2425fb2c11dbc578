"""The bar, with three slots in an order that never changes, and the layer above it that asks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from textwrap import wrap
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input, Static

from midflight.interfaces.terminal import looks
from midflight.interfaces.terminal.safe_text import visible
from midflight.interfaces.tui.theme import Tones
from midflight.journal.state import RunState
from midflight.view import RunSheet
from midflight.view.control_bar import slots
from midflight.view.data import Slot

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


KEYS: Final = ("Esc", "^R", "^X")


class Slotted(Static, can_focus=True):
    """One slot of the bar; the key that presses it stands on it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "press", "Press"),
        ("space", "press", "Press"),
    ]

    class Pressed(Message):
        """Somebody has pressed it."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, number: int) -> None:
        super().__init__(id=f"slot{number}")
        self.number = number
        self.slot = Slot("", "", "", enabled=False)

    def put(self, slot: Slot, tones: Tones, *, by_key: bool) -> None:
        """Show a slot. After the end of the run no key presses it: a late one costs nothing."""
        self.slot = slot
        told = visible(slot.consequence)
        self.tooltip = Text(told)
        width = max(12, self.size.width)
        out = Text()
        ink = "bold" if slot.enabled else tones["quiet"]
        out.append(slot.label, ink)
        out.append(f"  {KEYS[self.number - 1] if by_key else 'Tab, Enter'}\n", tones["quiet"])
        lines = wrap(told, width, max_lines=2, placeholder="…")
        out.append("\n".join(lines), tones["quiet"])
        self.update(out)

    def action_press(self) -> None:
        """Press the slot, by the keyboard."""
        self.post_message(self.Pressed(self.number))

    def on_focus(self) -> None:
        """Show the whole consequence, which may be longer than the slot has room for."""
        self.screen.query_one(Bar).notice(f"{self.slot.label}: {self.slot.consequence}")

    def on_click(self) -> None:
        """Press the slot, by the mouse."""
        self.action_press()


class Bar(Vertical):
    """Status, slots, and one line for what has just happened."""

    def compose(self) -> ComposeResult:
        """See Textual."""
        yield Static(id="status")
        with Horizontal(id="slots"):
            for number in (1, 2, 3):
                yield Slotted(number)
        yield Static(id="notice")

    def show(
        self, sheet: RunSheet, state: RunState, now: float, tones: Tones, *, there: bool
    ) -> tuple[Slot, ...]:
        """Draw the bar as the run stands now; return the three slots."""
        found = slots(sheet, now, connected=there)
        for number, slot in enumerate(found, 1):
            self.query_one(f"#slot{number}", Slotted).put(slot, tones, by_key=state.alive)
        self.query_one("#status", Static).update(self._status(sheet, state, now, tones, there))
        return found

    def _status(
        self, sheet: RunSheet, state: RunState, now: float, tones: Tones, there: bool
    ) -> Text:
        sign, _, tone = looks.of_sheet(sheet)
        word, rest = looks.headline(sheet)
        if not there:
            sign, word, rest, tone = "…", "Reconnecting", "The agent keeps running", "warn"
        meter = looks.meter(sheet, state, now)
        width = max(20, self.size.width - 2)
        left = Text()
        left.append(f"{sign} {word}", f"bold {tones[tone]}")
        room = max(0, width - len(left) - len(meter) - 4)
        left.append(f"  {looks.one_line(rest, room)}" if room > 4 else "", tones["ink"])
        left.append(" " * max(2, width - len(left) - len(meter)))
        left.append(meter, tones["warn"] if looks.is_near_cap(sheet, now) else tones["quiet"])
        return left

    def notice(self, words: str, style: Any = "") -> None:
        """Show one line about what has just happened."""
        self.query_one("#notice", Static).update(Text(looks.one_line(words, 400), style))
