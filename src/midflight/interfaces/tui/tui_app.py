"""The app: the steps of a run, its thread beside them, the bar below. Esc pauses or resumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final

import anyio
from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.containers import Horizontal, VerticalScroll
from textual.events import Resize
from textual.filter import LineFilter
from textual.widgets import Input, OptionList, Static

from midflight.errors import MidflightError
from midflight.interfaces.terminal.safe_text import STEERING
from midflight.interfaces.tui import panes
from midflight.interfaces.tui.bar_widget import Bar, Card, Layer, Slotted
from midflight.interfaces.tui.key_presses import Pressing
from midflight.interfaces.tui.panes import WRITE, Drawing
from midflight.interfaces.tui.run_screen import RunScreen
from midflight.interfaces.tui.theme import DARK, LIGHT, STYLE
from midflight.journal.record import Actor
from midflight.stores.protocol import Query

if TYPE_CHECKING:
    from midflight.control.any_control import AnyControl


DRAW_S: Final = 0.1
RUNS_S: Final = 2.0
LOOK_S: Final = 0.3  # between two looks at the runs at least, however often the one in front moves
LEAVE_S: Final = 3.0  # between the two Ctrl+C
WIDE: Final = 110
HELP: Final = (
    "Esc pause or resume · ^R redirect · ^X cancel · Enter send · Alt+Enter send and switch now · "
    "Tab next · F2 runs · F3 light or dark · ^C twice leave · / lists what else can be written"
)
ALT_ENTER: Final = "\x1b\r"


class Extra(Enum):
    """Keys that Textual's table lacks."""

    ALT_ENTER = "alt+enter"


def know_alt_enter() -> None:
    """Teach it to Textual; otherwise the Alt is lost, and Alt+Enter is a plain Enter."""
    try:
        from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
    except ImportError:  # moved: a plain Enter sends, which loses nothing
        return
    table: Any = ANSI_SEQUENCES_KEYS
    table.setdefault(ALT_ENTER, (Extra.ALT_ENTER,))


TAKEN_OUT = dict.fromkeys(STEERING)


class Harmless(LineFilter):
    """Takes the characters that a terminal would obey out of every line; styles are added later.

    Such a character has no width, so a line stays as long as it was laid out. Widgets make
    their text ``visible`` first; the filter is for text where that was forgotten.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """See Textual."""
        return [
            Segment(text.translate(TAKEN_OUT), style, control) for text, style, control in segments
        ]


class MidflightApp(RunScreen):
    """Shows one run and its thread, and turns a person's keys into verbs."""

    TITLE = "midflight"
    CSS = STYLE
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "escape", "Pause or resume", priority=True),
        Binding("ctrl+r", "slot(2)", "Redirect", priority=True),
        Binding("ctrl+x", "slot(3)", "Cancel", priority=True),
        Binding("alt+enter", "switch", "Send and switch now", priority=True),
        Binding("ctrl+c", "leave", "Leave", priority=True),
        Binding("ctrl+q", "leave", "Leave", priority=True),
        Binding("f1", "keys", "Keys", priority=True),
        Binding("f2", "runs", "Runs", priority=True),
        Binding("f3", "colours", "Light or dark", priority=True),
    ]

    def __init__(
        self, control: AnyControl, *, run: str = "", named: Mapping[str, Actor] | None = None
    ) -> None:
        know_alt_enter()
        super().__init__(control)
        self.pressing = Pressing(self, dict(named or {}))
        self.drawing = Drawing(self)
        self.redraw = self.drawing.anew
        self._begin_with = run
        self._leaving_since = -LEAVE_S

    def compose(self) -> ComposeResult:
        """See Textual."""
        yield Static(id="head")
        with Horizontal(id="middle"):
            yield OptionList(id="rail")
            with VerticalScroll(id="steps", can_focus=True):
                yield Static(id="steps-text")
            with VerticalScroll(id="talk", can_focus=True):
                yield Static(id="talk-text")
        yield Card()
        yield Layer()
        with Horizontal(id="say"):
            yield Static(">")
            yield Input(id="composer", placeholder=WRITE)
        yield Bar(id="bar")

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return our own names of colours, for the time before a theme is chosen."""
        return dict(DARK.variables)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Add the filter that keeps text of others from steering the terminal."""
        return [*super().get_line_filters(), Harmless()]  # layer app-draws-steers-nothing

    async def on_mount(self) -> None:
        """See Textual."""
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = DARK.name
        self.query_one("#composer", Input).focus()
        self.run_worker(self._look_around(), exclusive=False)
        self.set_interval(DRAW_S, self._draw)
        if self._begin_with:
            self.open_run(self._begin_with)

    async def _draw(self) -> None:
        if await self.drawing.draw():
            self.pressing.look(self.there)

    def on_resize(self, event: Resize) -> None:
        """Give the thread less room on a narrow screen."""
        self.screen.set_class(event.size.width < WIDE, "narrow")

    # ── what is shown ────────────────────────────────────────────────────────────────────────

    async def _look_around(self) -> None:
        """Keep the list of runs and the difference to the store's clock up to date.

        Both are read every few seconds, and when the run in front changes its phase: the list must
        not contradict it.
        """
        while True:
            self.moved = anyio.Event()
            try:
                self.rows = await self.control.runs(Query(limit=60))
                self.looked = True
                self.ahead = await self.control.store.now() - anyio.current_time()
            except MidflightError as error:
                self.say(str(error))
            if self.session is None:
                live, earlier = panes.runs_of(self.rows)
                if live or earlier:
                    self.open_run((live or earlier)[0].journal)
            self.drawing.draw_rail()
            await anyio.sleep(LOOK_S)
            with anyio.move_on_after(RUNS_S):
                await self.moved.wait()

    # ── what is pressed ──────────────────────────────────────────────────────────────────────

    def action_escape(self) -> None:
        """Close the layer or leave the list of runs, else pause or resume. Typed text stays."""
        if self.layer.is_open:
            self.layer.close()
            self.pressing.drop()
        elif self.query_one("#rail").has_focus:
            self.query_one("#composer", Input).focus()
        else:
            self.action_slot(1)

    def action_slot(self, number: int) -> None:
        """Press one of the three slots by its key; after the end of the run a key does nothing."""
        if self.session is not None and not self.session.book.state.alive:
            self.say("It had already finished. Tab leads to what can be done now.")
        else:
            self.press(number)

    def press(self, number: int) -> None:
        """Press one of the three slots."""
        if self.session is not None and len(self.slots) >= number:
            self.pressing.press(self.slots[number - 1], number)

    def on_slotted_pressed(self, event: Slotted.Pressed) -> None:
        """Press the slot that was chosen by Tab and Enter, or by the mouse."""
        self.press(event.number)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Send the text of the composer, on Enter."""
        self.beside(self.pressing.say(event.input, switch=False))

    def action_switch(self) -> None:
        """Send the text of the composer and have it done now, on Alt+Enter."""
        self.beside(self.pressing.say(self.query_one("#composer", Input), switch=True))

    def on_card_answered(self, event: Card.Answered) -> None:
        """Send the answer that a person gave on the card."""
        self.beside(self.pressing.answer(event.question, event.payload))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open the run that was chosen in the list."""
        if event.option_list.id == "rail" and event.option_id:  # a heading has no id
            self.open_run(event.option_id)
            self.query_one("#composer", Input).focus()

    def action_runs(self) -> None:
        """Show the list of runs, or hide it."""
        rail = self.query_one("#rail", OptionList)
        rail.toggle_class("shown")
        self.screen.set_class(rail.has_class("shown"), "railed")
        (rail if rail.has_class("shown") else self.query_one("#composer", Input)).focus()

    def action_colours(self) -> None:
        """Change between light and dark."""
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name
        self.drawing.anew()

    def action_keys(self) -> None:
        """Say which keys there are."""
        self.say(HELP)

    def action_leave(self) -> None:
        """Leave at the second press; the first one says so."""
        now = anyio.current_time()
        if now - self._leaving_since < LEAVE_S:
            self.exit()
            return
        self._leaving_since = now
        self.say("Ctrl+C again leaves; the run goes on.", self.tones["warn"])
