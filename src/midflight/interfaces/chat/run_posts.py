"""The status, the questions and the end of a run as posts, by pure functions.

The words are those of ``view``; a question's facts are shown so that nothing in them steers a chat.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from midflight.control.todos import TodoOffer
from midflight.errors import InvalidRequest
from midflight.interfaces.chat.channel import Action, Button, Field, Menu, Post, mark, shown
from midflight.journal.phases import ENDS, Phase
from midflight.journal.status import Receipt
from midflight.view.data import Asked, RunSheet, Slot, Way
from midflight.view.question_form import alternatives, written
from midflight.view.shown_values import clock, elapsed, is_near, nearest, short, spending

SYMBOLS: Final = {
    Phase.QUEUED: "◌",
    Phase.RUNNING: "▶",
    Phase.PAUSING: "◐",
    Phase.PAUSED: "⏸",
    Phase.WAITING: "❓",
    Phase.CANCELLING: "↩",
    Phase.CANCELLED: "⏹",
    Phase.DONE: "✔",
    Phase.FAILED: "✖",
    Phase.KILLED: "⛔",
}
LOOKS: Final = {"undriven": "∅", "human": "⏸"} | {str(p): sign for p, sign in SYMBOLS.items()}
"""The looks of a bar -> the sign before its word."""
LABEL_MAX: Final = 80
BRIEF_MAX: Final = 80
FACTS_FILE: Final = "what-is-asked.txt"
BUTTONS_IN_A_ROW: Final = 4  # more choices than this are a menu
TODOS_SHOWN: Final = 5


class Standing(Struct, frozen=True):
    """A run as a chat shows it: its sheet, where it is, and the time."""

    sheet: RunSheet
    place: str
    now: float


# ── the status message ───────────────────────────────────────────────────────────────────────────


def status(standing: Standing, todos: Sequence[TodoOffer]) -> Post:
    """Return the live status message: phase, time, steps, spending, todos and controls."""
    sheet = standing.sheet
    parts = [_head(sheet), meters(standing)]
    parts += [_todo_list(todos)] if todos else []
    slots = sheet.bar.slots if sheet.phase not in ENDS else ()
    parts += [f"-# {_said(slot)}" for slot in slots if len(_said(slot)) > LABEL_MAX]
    return Post("\n".join(parts), buttons=tuple(_control(sheet, slot) for slot in slots))


def _head(sheet: RunSheet) -> str:
    """Return the sign and the word of the state, the brief, and a few words about the state."""
    bar = sheet.bar
    head = f"{LOOKS[bar.looks]} **{bar.word}** {short(sheet.brief, BRIEF_MAX)}".rstrip()
    if sheet.phase in {Phase.CANCELLED, Phase.KILLED} and sheet.ended_by:
        head += f" (by {shown(sheet.ended_by)})"
    told = sheet.phase in {Phase.DONE, Phase.CANCELLED, Phase.KILLED}  # by the thread or receipt
    about = bar.detail if sheet.undriven_since is not None or not told else ""
    return f"{head} — {short(about)}" if about else head


def meters(standing: Standing) -> str:
    """Return the line of figures: time, step, spending, the nearest cap."""
    sheet, now = standing.sheet, standing.now
    place = standing.place if sheet.phase not in ENDS else _steps(sheet.done)
    warned = spending(sheet, now) + " ⚠" * is_near(nearest(sheet, now))
    return f"`{'  '.join(filter(None, [clock(elapsed(sheet, now)), place, warned]))}`"


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


def _todo_list(todos: Sequence[TodoOffer]) -> str:
    lines = [
        f"{number}. {short(todo.text, 90)}" for number, todo in enumerate(todos[:TODOS_SHOWN], 1)
    ]
    more = len(todos) - TODOS_SHOWN
    return "\n".join(["**To do**", *lines, *([f"and {more} more"] if more > 0 else [])])


PRESSED_AS: Final = {"answer": "review", "raise limits": "caps", "hand back": "hand_back"}
"""The verb of a slot -> the press that stands for it in a chat, where they differ."""


def _control(sheet: RunSheet, slot: Slot) -> Button:
    now = "now" if slot.verb == "cancel" and sheet.phase is Phase.CANCELLING else ""
    verb = PRESSED_AS.get(slot.verb, slot.verb)
    style = {"cancel": "bad", "resume": "good"}.get(slot.verb, "plain")
    action = Action(verb, mark(sheet.run), sheet.position, now)
    return Button(label(_said(slot)), action, style, slot.enabled)


def _said(slot: Slot) -> str:
    return f"{slot.label} · {slot.consequence}"


def label(text: str) -> str:
    """Return as much of a text as a button takes."""
    return text if len(text) <= LABEL_MAX else f"{text[: LABEL_MAX - 1]}…"


# ── questions ────────────────────────────────────────────────────────────────────────────────────


INSTEAD: Final = {"raise limits": ("Raise cap", "caps"), "hand back": ("Hand back", "hand_back")}
"""Verbs that settle a question which takes no answer -> label and press."""


def card(run: str, asked: Asked, key: str = "") -> Post:
    """Return a question with its facts, and its answers as buttons or as a menu."""
    facts, file = in_block(asked.facts)
    until = f"-# expires <t:{int(asked.expires_at)}:R>" if asked.expires_at else ""
    named = f"-# for {', '.join(map(shown, asked.answerers))}" if asked.answerers else ""
    beside = f"-# It is about what {FACTS_FILE} holds: read that before you answer." * bool(file)
    asks = f"❓ **{escaped(asked.message)}**"
    text = "\n".join(filter(None, [asks, facts, beside, until, named]))
    post = Post(text, key, texts=((FACTS_FILE, file),) if file else ())
    if asked.verb in INSTEAD:
        words, verb = INSTEAD[asked.verb]
        button = Button(words, Action(verb, mark(run), asked.question), "good")
        return msgspec.structs.replace(post, buttons=(button,))
    return _answers(post, run, asked)


def _answers(post: Post, run: str, asked: Asked) -> Post:
    offered = list(enumerate(asked.ways))
    picked = [(number, way) for number, way in offered if not way.form]
    menu = None
    if len(offered) > BUTTONS_IN_A_ROW and len(picked) > 1:
        options = tuple((words_of(way), str(number)) for number, way in picked)
        menu = Menu("Choose", Action("answer", mark(run), asked.question), options)
        offered = [(number, way) for number, way in offered if way.form]
    buttons = []
    for number, way in offered:
        verb = "fill" if way.form else "answer"
        action = Action(verb, mark(run), asked.question, str(number))
        buttons.append(Button(label(words_of(way)), action, way.tone or "plain"))
    text = "\n".join([post.text, *_in_full(asked.ways)])
    return msgspec.structs.replace(post, text=text, buttons=tuple(buttons), menu=menu)


def words_of(way: Way) -> str:
    """Return what a button says about a way to answer: its name, and its consequence if any."""
    return " · ".join(filter(None, [way.label, way.consequence]))


def _in_full(offered: Iterable[Way]) -> list[str]:
    """Return the answers that a button would cut; they stand above it, whole."""
    return [f"- {escaped(words_of(way))}" for way in offered if len(words_of(way)) > LABEL_MAX]


def settled(asked: Asked, how: str) -> Post:
    """Return the card of a question that is not open any more."""
    return Post(f"❓ {escaped(asked.message)}\n**{how}**")


# ── its facts ────────────────────────────────────────────────────────────────────────────────────

BLOCK_MAX: Final = 1_500  # characters, so that the question fits into one message with it
FENCE: Final = "```"
MARK_UP: Final = re.compile(r"[\\*_~`|\[\]<]|@(?=everyone|here)")
LINE_MARK: Final = re.compile(r"^(\s*)([>#-])", re.MULTILINE)


def in_block(found: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return the facts of a question: as a block of a message, or as the text of a file.

    In a block nothing steers the chat: no mark-up, no link, no mention. Text that holds the mark
    which would end the block, or is too long for a message, goes as a file. A line that begins a
    fact stands at the margin, and the further lines of its value do not.
    """
    lines = [f"{name}: {value}" if name else value for name, value in found]
    facts = "\n".join(line.replace("\n", "\n  ") for line in lines)
    if not facts:
        return "", ""
    if "``" in facts or facts.endswith("`") or len(facts) > BLOCK_MAX:  # layer arguments-would-end
        return "", facts
    return f"{FENCE}\n{facts}\n{FENCE}", ""


def escaped(text: str) -> str:
    """Return text of others for the words of a message: none of it is mark-up or a mention."""
    return LINE_MARK.sub(r"\1\\\2", MARK_UP.sub(r"\\\g<0>", text))


# ── forms for answers ────────────────────────────────────────────────────────────────────────────

FIELDS_MAX: Final = 5  # the forms of chats take no more
WHOLE: Final = "answer"  # the one field of a form that takes the answer as it is
PLAIN: Final = frozenset({"string", "integer", "number", "boolean"})
YES_NO: Final = {"yes": True, "no": False}


def fields_of(schema: Any, way: Way) -> tuple[Field, ...]:
    """Return the fields of the form that a way to answer needs."""
    inner = _inner(schema, way)
    match inner:
        case {"type": "object", "properties": dict(parts)} if way.form == WHOLE and _fits(parts):
            required = inner.get("required", [])
            return tuple(_field(name, part, name in required) for name, part in parts.items())
    details = schema.get("x-details") if isinstance(schema, dict) else None
    value = written(details) if way.form == "edit" and details is not None else ""
    hint = "" if _takes_text(inner) else "as JSON"
    return (Field(WHOLE, way.asks, value=value, hint=hint, long=True),)


def payload_of(schema: Any, way: Way, given: Mapping[str, str]) -> Any:
    """Return the answer; raise ``InvalidRequest`` for a value that its field does not take."""
    if not way.form:
        return way.value
    inner, fields = _inner(schema, way), fields_of(schema, way)
    if fields[0].name == WHOLE:
        value = _parsed(fields[0].label, given.get(WHOLE, ""), inner)
        return value if way.form == WHOLE else {way.form: value}
    parts = inner.get("properties", {})
    return {
        field.name: _parsed(field.label, given.get(field.name, ""), parts.get(field.name))
        for field in fields
        if field.required or given.get(field.name, "").strip()
    }


def _inner(schema: Any, way: Way) -> Any:
    """Return the schema of what is typed into a form."""
    part = alternatives(schema)[way.part]
    return part if way.form == WHOLE else part["properties"][way.form]


def _fits(parts: Mapping[str, Any]) -> bool:
    plain = all("enum" in part or part.get("type") in PLAIN for part in parts.values())
    return 0 < len(parts) <= FIELDS_MAX and plain and WHOLE not in parts


def _field(name: str, part: Mapping[str, Any], required: bool) -> Field:
    options = tuple(str(value) for value in part.get("enum", ()))
    if part.get("type") == "boolean":
        options = tuple(YES_NO)
    value = written(part["default"]) if "default" in part else ""
    title, hint = str(part.get("title") or name), str(part.get("description", ""))
    return Field(name, title, value=value, hint=hint, required=required, options=options)


def _takes_text(schema: Any) -> bool:
    return not isinstance(schema, dict) or schema.get("type") == "string" or schema == {}


def _parsed(name: str, text: str, schema: Any) -> Any:
    if isinstance(schema, dict) and "enum" in schema:
        return next((value for value in schema["enum"] if str(value) == text), text)
    if isinstance(schema, dict) and schema.get("type") == "boolean":
        return YES_NO.get(text.strip().casefold(), text)
    if _takes_text(schema):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(
            f"{name}: {text[:80]!r} is not valid JSON, which this field takes: {error}. Nothing "
            "was answered; the question is still open."
        ) from None


# ── ends ─────────────────────────────────────────────────────────────────────────────────────────


def ended(sheet: RunSheet, key: str) -> Post | None:
    """Return how a run ended, and its receipt; None if it is done, which needs no post."""
    if sheet.phase is Phase.DONE:
        return None
    return Post("\n".join([_head(sheet), *receipt(sheet.receipt)]), key)


def receipt(found: Receipt) -> list[str]:
    """Return the lines of a receipt, one for each effect."""
    return [f"- {line.text}" for line in found.lines] or ["-# It had changed nothing."]
