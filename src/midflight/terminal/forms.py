"""A question's JSON Schema, as far as a terminal can make a form of it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from midflight.errors import InvalidRequest
from midflight.sheets.answers import alternatives, facts, picks, written

BEGINNINGS: Final = frozenset('{["')
"""Nobody begins a word with these."""


class Choice(Struct, frozen=True):
    """An answer that can be picked: what is sent, and what a person reads."""

    value: Any
    label: str


def choices(schema: Any) -> list[Choice]:
    """The answers that can be picked, if there are only so many, or some of them."""
    return [
        Choice(pick.value, f"{pick.name} - {pick.words}" if pick.words else pick.name)
        for pick in picks(schema)
    ]


def takes_words(schema: Any) -> bool:
    """Whether an answer in free words fits, or one that has to be typed."""
    if not isinstance(schema, dict):
        return True
    if "enum" in schema or "const" in schema or schema.get("type") == "boolean":
        return False
    parts = [*schema.get("oneOf", []), *schema.get("anyOf", [])]
    return any(takes_words(part) for part in parts) if parts else True


def plain(text: str, schema: Any) -> Any:
    """What somebody has typed, as the plain data that the question wants.

    Text stays text where text is wanted, even if it looks like a number. Words where only an object
    with ``respond`` takes words become that object. What begins as JSON is JSON, or refused: half
    of an answer must not become the answer.
    """
    if text.lstrip()[:1] in BEGINNINGS and not _wants_text(text, schema):
        return _json(text, schema)
    if _fits(text, schema):
        return text
    folded = text.strip().casefold()
    for pick in picks(schema):
        if folded == pick.name.casefold():
            return pick.value
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = text
    words = {"respond": text}
    return words if not _fits(value, schema) and _fits(words, schema) else value


def _json(text: str, schema: Any) -> Any:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidRequest(
            f"the answer begins as JSON and is none: {error}.{_as_words(text, schema)} "
            "Nothing was answered."
        ) from None
    words = {"respond": text}
    quoted = isinstance(value, str) and not _fits(value, schema) and _fits(words, schema)
    return words if quoted else value


def _as_words(text: str, schema: Any) -> str:
    """How the same is sent as words, if the question takes words."""
    parts = [part for part in alternatives(schema) if isinstance(part, dict)]
    responds = any("respond" in part.get("properties", {}) for part in parts)
    for value in (text, {"respond": text}) if responds else (text,):
        if _fits(value, schema):
            return f" As words it is: {msgspec.json.encode(value).decode()}."
    return ""


def _wants_text(text: str, schema: Any) -> bool:
    """Whether text is what is asked for, and nothing that JSON would have to say."""
    if _takes_only_text(schema):
        return True  # one that does not fit is too long, or the like
    return _fits(text, schema) and not (_fits({}, schema) or _fits([], schema))


def _takes_only_text(schema: Any) -> bool:
    parts = [part for part in alternatives(schema) if part != {"type": "null"}]
    return all(isinstance(part, dict) and part.get("type") == "string" for part in parts)


def _fits(value: Any, schema: Any) -> bool:
    from midflight.schemas import misfit

    if schema is None:
        return True
    try:
        return misfit(value, schema) is None
    except RecursionError:
        return False


def wanted(schema: Any) -> list[str]:
    """What would fit, in lines that a person can follow."""
    if not isinstance(schema, dict):
        return ["any answer"]
    lines = [_to_type(choice) for choice in choices(schema)]
    for part in [*schema.get("oneOf", []), *schema.get("anyOf", [])]:
        names = list(part.get("properties", {})) if isinstance(part, dict) else []
        if names:
            lines.append(f"or {{{', '.join(_pair(name) for name in names)}}}")
    if not lines and schema.get("type") == "object":
        lines = [f"{name}: {_kind(part)}" for name, part in schema.get("properties", {}).items()]
    return [*facts(schema.get("x-details")), *(lines or [_kind(schema)])]


def _to_type(choice: Choice) -> str:
    """What it is called, and what is typed for it if that is something else."""
    value = written(choice.value)
    return value if value == choice.label else f"{choice.label}   ({value})"


def _pair(name: str) -> str:
    return f'"{name}": …'


def _kind(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "anything"
    if "enum" in schema:
        return " | ".join(written(value) for value in schema["enum"])
    bounds = [
        f"{word} {schema[name]}"
        for name, word in (("minimum", "at least"), ("maximum", "at most"))
        if name in schema
    ]
    kind = schema.get("type", "anything")
    return ", ".join([str(kind), *bounds])
