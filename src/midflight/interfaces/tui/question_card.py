"""A question as a card: what is asked, what it is about, and a form made from its schema."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from midflight.errors import InvalidRequest
from midflight.interfaces.terminal import looks
from midflight.interfaces.terminal.answer_form import plain, takes_words, wanted, words_of
from midflight.interfaces.terminal.safe_text import visible
from midflight.interfaces.tui.bar_widget import Bar
from midflight.view.amounts import clock
from midflight.view.data import Asked, Way
from midflight.view.question_form import about, ways


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
