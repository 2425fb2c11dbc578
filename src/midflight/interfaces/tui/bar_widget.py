"""The bar, with three slots in an order that never changes, and the layer above it that asks.

A question is a card: what is asked, what it is about, and a form made from its schema.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from textwrap import wrap
from typing import Any, ClassVar, Final

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from midflight.errors import InvalidRequest
from midflight.interfaces.terminal import looks
from midflight.interfaces.terminal.answer_form import plain, takes_words, wanted, words_of
from midflight.interfaces.terminal.safe_text import visible
from midflight.interfaces.tui.theme import Tones
from midflight.journal.state import RunState
from midflight.view import RunSheet
from midflight.view.control_bar import slots
from midflight.view.data import Asked, Slot, Way
from midflight.view.question_form import about, ways
from midflight.view.shown_values import clock

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
                self._after(taken)  # layer line-refused-stays-open

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


class Card(Vertical):
    """Shows one question. ``Answered`` carries what is to be sent; the server checks it again."""

    class Answered(Message):
        """A person has answered."""

        def __init__(self, question: int, payload: Any) -> None:
            super().__init__()
            self.question, self.payload = question, payload

    def __init__(self) -> None:
        super().__init__(id="card")
        self.asked: Asked | None = None
        self._schema: Any = None
        self._offered: list[Way] = []  # picks, and the edit of a call that waits for approval
        self._fields: dict[str, Any] = {}
        self._sent: list[str] = []  # the lines of the answer that was sent last

    def compose(self) -> ComposeResult:
        """See Textual."""
        yield Static(id="card-title")
        yield VerticalScroll(Static(id="card-about"), id="card-details")
        yield OptionList(id="card-choices", markup=False)
        yield Vertical(id="card-fields")
        yield Input(id="card-line", placeholder="or answer in words")

    async def show(self, asked: Asked | None, now: float, quiet: str) -> None:
        """Put a question on the card, or take the card away."""
        if self.asked is not None and (asked is None or asked.question != self.asked.question):
            self._give_back()
        self.set_class(asked is not None, "shown")
        if asked is not None and (self.asked is None or self.asked.question != asked.question):
            await self._build(asked, quiet)
        self.asked = asked
        if asked is not None:
            left = "" if asked.expires_at is None else _left(asked.expires_at - now)
            title = Text()
            title.append(f"? {looks.indented(asked.message, 2)}", "bold")
            title.append(left, quiet)
            self.query_one("#card-title", Static).update(title)

    def _give_back(self) -> None:
        """Show the text that was typed for a question that has closed, or it would be lost."""
        lines = [line.value for line in self.query(Input).results(Input) if line.value.strip()]
        if lines and lines != self._sent:
            words = f"That question is not open any more. You had written: {'; '.join(lines)}"
            self.screen.query_one(Bar).notice(words)
        self._sent = []

    async def _build(self, asked: Asked, quiet: str) -> None:
        self._schema = msgspec.json.decode(asked.schema)
        schema = self._schema if isinstance(self._schema, dict) else {}
        self._offered = [way for way in ways(schema) if way.form in {"", "edit"}]
        options = self.query_one("#card-choices", OptionList)
        options.clear_options()
        options.add_options([Option(visible(words_of(way))) for way in self._offered])
        options.display = bool(self._offered)
        await self._build_fields(schema)
        line = self.query_one("#card-line", Input)
        line.value = ""
        line.display = takes_words(schema) and not self._fields
        line.placeholder = "or answer in words" if self._offered else _hint(schema)
        shown = facts_shown(schema)
        self.query_one("#card-about", Static).update(Text(shown, quiet))
        details = self.query_one("#card-details", VerticalScroll)
        details.display = bool(shown)
        details.scroll_home(animate=False)

    async def _build_fields(self, schema: dict[str, Any]) -> None:
        is_form = schema.get("type") == "object" and not self._offered
        self._fields = dict(schema.get("properties", {})) if is_form else {}
        holder = self.query_one("#card-fields", Vertical)
        await holder.remove_children()
        for name, part in self._fields.items():
            line = Input(placeholder=_hint(part), name=name, classes="field-line")
            label = Static(visible(name), markup=False)
            await holder.mount(Horizontal(label, line, classes="field"))
        holder.display = bool(self._fields)

    def take_focus(self) -> None:
        """Focus the part of the card that takes the answer."""
        if self._offered:
            options = self.query_one("#card-choices", OptionList)
            options.highlighted = options.highlighted or 0
            options.focus()
        elif self._fields:
            self.query(".field-line").first(Input).focus()
        else:
            self.query_one("#card-line", Input).focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Send the answer that was picked, or open it for an edit first."""
        event.stop()
        way = self._offered[event.option_index]
        if not way.form:
            self._answer(way.value)
            return
        details = self._schema.get("x-details")
        line = self.query_one("#card-line", Input)
        line.display = True
        line.value = msgspec.json.encode({"edit": details}).decode()
        line.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take a line of the card, on Enter; text that is not an answer stays to be put right."""
        event.stop()
        try:
            self._submit(event)
        except InvalidRequest as error:
            self.screen.query_one(Bar).notice(str(error))

    def _submit(self, event: Input.Submitted) -> None:
        if not self._fields:
            if event.value.strip():
                self._answer(plain(event.value, self._schema))
            return
        lines = list(self.query(".field-line").results(Input))
        later = lines[lines.index(event.input) + 1 :]
        if later:
            later[0].focus()
            return
        given = {line.name or "": line.value for line in lines if line.value}
        self._answer({name: plain(text, self._fields[name]) for name, text in given.items()})

    def _answer(self, payload: Any) -> None:
        if self.asked is not None:
            self._sent = [line.value for line in self.query(Input).results(Input) if line.value]
            self.post_message(self.Answered(self.asked.question, payload))


def facts_shown(schema: Any) -> str:
    """Return all that a question is about, a fact a line, as the card shows it and scrolls it."""
    return "\n".join(looks.indented(fact, 2) for fact in about(schema))


def _hint(schema: Any) -> str:
    return visible("; ".join(wanted(schema)))


def _left(seconds: float) -> str:
    return f"   {clock(seconds)} left" if seconds > 0 else "   expired"
