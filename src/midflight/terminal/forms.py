"""A question's JSON Schema, as far as a terminal can make a form of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from midflight.errors import InvalidRequest

BEGINNINGS: Final = frozenset('{["')
"""Nobody begins a word with these."""


class Choice(Struct, frozen=True):
    """An answer that can be picked: what is sent, and what a person reads."""

    value: Any
    label: str


def choices(schema: Any) -> list[Choice]:
    """The answers that can be picked, if there are only so many, or some of them."""
    if not isinstance(schema, dict):
        return []
    labels = schema.get("x-labels") or {}
    found: list[Choice] = []
    if "const" in schema:
        found = [_choice(schema["const"], schema.get("title"), labels)]
    elif "enum" in schema:
        found = [_choice(value, None, labels) for value in schema["enum"]]
    elif schema.get("type") == "boolean":
        found = [Choice(True, "Yes"), Choice(False, "No")]
    else:
        for part in [*schema.get("oneOf", []), *schema.get("anyOf", [])]:
            inner = {**part, "x-labels": labels} if isinstance(part, dict) else part
            if isinstance(inner, dict) and ("const" in inner or "enum" in inner):
                found += choices(inner)
    return found


def _choice(value: Any, title: Any, labels: Mapping[str, Any]) -> Choice:
    words = title or labels.get(str(value))
    name = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    name = name.capitalize() if isinstance(value, str) else name
    return Choice(value, f"{name} - {words}" if words else name)


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
    for choice in choices(schema):
        if isinstance(choice.value, str) and choice.value.casefold() == folded:
            return choice.value
    if isinstance(schema, dict) and schema.get("type") == "boolean" and folded in {"yes", "no"}:
        return folded == "yes"
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
            f"the answer begins as JSON and is none: {error}. Nothing was answered."
        ) from None
    words = {"respond": text}
    quoted = isinstance(value, str) and not _fits(value, schema) and _fits(words, schema)
    return words if quoted else value


def _wants_text(text: str, schema: Any) -> bool:
    """Whether text is what is asked for, and nothing that JSON would have to say."""
    only_text = not (_fits({}, schema) or _fits([], schema))
    return only_text and _fits(text, schema)


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
    lines = [f"{choice.label}   ({_word(choice.value)})" for choice in choices(schema)]
    for part in [*schema.get("oneOf", []), *schema.get("anyOf", [])]:
        names = list(part.get("properties", {})) if isinstance(part, dict) else []
        if names:
            lines.append(f"or {{{', '.join(_pair(name) for name in names)}}}")
    if not lines and schema.get("type") == "object":
        lines = [f"{name}: {_kind(part)}" for name, part in schema.get("properties", {}).items()]
    return [*facts(schema.get("x-details")), *(lines or [_kind(schema)])]


def facts(details: Any) -> list[str]:
    """What a question is about, one fact a line; arguments of a call by their names."""
    if isinstance(details, dict) and set(details) == {"args", "kwargs"}:
        return [*map(_word, details["args"]), *facts(details["kwargs"])]
    if isinstance(details, dict):
        return [f"{name}: {_word(value)}" for name, value in details.items()]
    return [] if details is None else [_word(details)]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _pair(name: str) -> str:
    return f'"{name}": …'


def _kind(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "anything"
    if "enum" in schema:
        return " | ".join(_word(value) for value in schema["enum"])
    bounds = [
        f"{word} {schema[name]}"
        for name, word in (("minimum", "at least"), ("maximum", "at most"))
        if name in schema
    ]
    kind = schema.get("type", "anything")
    return ", ".join([str(kind), *bounds])
