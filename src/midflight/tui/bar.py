"""The bar: the state of the run, and three slots in an order that never changes."""

from __future__ import annotations

from textwrap import wrap
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Static

from midflight.kernel.state import RunState
from midflight.terminal import looks
from midflight.terminal.visible import visible
from midflight.tui.pictures import Tones
from midflight.view import RunSheet
from midflight.view.control_bar import Slot, slots

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
    ) -> tuple[Slot, Slot, Slot]:
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
