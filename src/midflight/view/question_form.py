"""A question's JSON Schema: the ways to answer it, what it is about, values and answers in words.

Each front door lays it out in its own way: lines in a terminal, buttons in a chat, words by voice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, structs

from midflight.errors import DOTS
from midflight.tools.secret import MARK
from midflight.view.data import Way
from midflight.view.shown_values import exactly, name_exactly, value_exactly


class Pick(Struct, frozen=True):
    """An answer that can be picked: the value to send, its name, and the asker's words for it."""

    value: Any
    name: str
    words: str = ""


def picks(schema: Any, labels: Mapping[str, Any] | None = None) -> list[Pick]:
    """The answers that can be picked, if there are only so many, or some of them."""
    named = labels_of(schema) if labels is None else labels
    return [pick for part in alternatives(schema) for pick in _picks(part, named)]


def alternatives(schema: Any) -> list[Any]:
    """The schemas of which an answer fits one, in their order; itself where there is no choice."""
    return _alternatives(schema, schema)


def _alternatives(schema: Any, whole: Any) -> list[Any]:
    match schema:
        case {"oneOf": list(several)} | {"anyOf": list(several)}:
            return [part for each in several for part in _alternatives(each, whole)]
        case {"$ref": str(ref)} if whole is not None and ref.startswith("#/"):
            return _alternatives(_referred(ref, whole), None)  # it may lead in a circle from there
        case _:
            return [schema]


def _referred(ref: str, whole: Any) -> Any:
    """Return the part of a schema to which it refers itself."""
    for key in ref[2:].split("/"):
        name = key.replace("~1", "/").replace("~0", "~")
        if isinstance(whole, list) and name.isdecimal() and int(name) < len(whole):
            whole = whole[int(name)]
        else:
            whole = whole.get(name) if isinstance(whole, dict) else None
    return whole


def labels_of(schema: Any) -> Mapping[str, Any]:
    """Return the labels that the asker gave to answers; empty if there are none."""
    labels = schema.get("x-labels") if isinstance(schema, dict) else None
    return labels if isinstance(labels, dict) else {}


def _picks(schema: Any, labels: Mapping[str, Any]) -> list[Pick]:
    match schema:
        case {"const": value}:
            return [_pick(value, schema.get("title") or labels.get(str(value)))]
        case {"enum": list(values)}:
            return [_pick(value, labels.get(str(value))) for value in values]
        case {"type": "boolean"}:
            return [Pick(True, "Yes"), Pick(False, "No")]
        case _:
            return []


def _pick(value: Any, words: Any) -> Pick:
    name = value.capitalize() if isinstance(value, str) else written(value)
    return Pick(value, name, str(words or ""))


# ── the ways to answer ───────────────────────────────────────────────────────────────────────

EDIT: Final = Way(
    "Edit", "Change, then do it", form="edit", asks="Your answer", send="Approve as edited"
)
RESPOND: Final = Way(
    "Respond",
    "Say what instead",
    form="respond",
    asks="What to do instead",
    send="Send response",
)
ANSWER: Final = Way("Answer", form="answer", asks="Your answer", send="Answer")
FORMS: Final = {"edit": EDIT, "respond": RESPOND}
TONES: Final[dict[Any, Literal["good", "bad"]]] = {"approve": "good", "reject": "bad"}
ORDER: Final = {"approve": 0, "edit": 1, "reject": 3, "respond": 4, "answer": 4}
PICKED: Final = 2  # the place of other answers in that order


def ways(schema: Any) -> tuple[Way, ...]:
    """Return the ways to answer a question, in the order in which they are offered."""
    labels = labels_of(schema)
    found = [
        structs.replace(way, part=number)
        for number, part in enumerate(alternatives(schema))
        for way in _ways(part, labels)
    ]
    return tuple(sorted(found, key=lambda way: ORDER.get(way.form or str(way.value), PICKED)))


def _ways(part: Any, labels: Mapping[str, Any]) -> list[Way]:
    if found := _picks(part, labels):
        return [_picked(pick) for pick in found]
    match part:
        case {"properties": dict(names)} if len(names) == 1 and set(names) <= FORMS.keys():
            return [FORMS[name] for name in names]
        case _:
            return [ANSWER]


def _picked(pick: Pick) -> Way:
    """An approval is known by its own word, any other answer by the asker's words for it."""
    if isinstance(pick.value, str) and pick.value in TONES:
        return Way(pick.name, pick.words, pick.value, tone=TONES[pick.value])
    return Way(pick.words or pick.name, value=pick.value)


def read_back(schema: Any, payload: Any) -> str:
    """Return an answer in words, as it is shown once it was given."""
    for way in ways(schema):
        if not way.form and way.value == payload and type(way.value) is type(payload):
            return way.label
    match payload:
        case {"respond": said} | {"edit": said} if len(payload) == 1:
            return f"{next(iter(payload)).capitalize()}: {value_exactly(_dotted(said))}"
        case _:
            return value_exactly(_dotted(payload))


# ── its facts ────────────────────────────────────────────────────────────────────────────────


def about(schema: Any) -> list[str]:
    """Return lines that tell what a question is about: its tool, if any, and each of its facts."""
    return [f"{name}: {value}" if name else value for name, value in all_facts(schema)]


def all_facts(schema: Any) -> list[tuple[str, str]]:
    """Return the same as names and values, whole and with nothing in them hidden."""
    if not isinstance(schema, dict):
        return []
    details, tool, names = (schema.get(f"x-{name}") for name in ("details", "tool", "names"))
    told = isinstance(details, dict) and "tool" in details
    called = [("tool", exactly(tool))] if isinstance(tool, str) and tool and not told else []
    return [*called, *facts(details, names if isinstance(names, list) else ())]


def facts(details: Any, names: Sequence[Any] = ()) -> list[tuple[str, str]]:
    """Return the facts of a question as names and values; a call's arguments by their ``names``."""
    match details:
        case None:
            return []
        case {"args": list(args), "kwargs": dict(kwargs)} if len(details) == 2:
            places = (f"argument {number + 1}" for number in range(len(args)))
            known = [*names, *list(places)[len(names) :]]
            by_place = (_fact(name, value) for name, value in zip(known, args, strict=False))
            return [*by_place, *facts(kwargs)]
        case dict():
            return [_fact(name, value) for name, value in details.items()]
        case _:
            return [("", value_exactly(_dotted(details)))]


def _fact(name: object, value: Any) -> tuple[str, str]:
    return name_exactly(str(name)), value_exactly(_dotted(value))


def _dotted(value: Any) -> Any:
    """The value as it is shown: a secret, of which a journal has only the name, as dots."""
    if isinstance(value, dict):
        if set(value) == {MARK}:
            return DOTS
        return {key: _dotted(part) for key, part in value.items()}
    return [_dotted(part) for part in value] if isinstance(value, list) else value


def written(value: Any) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
