"""Forms for answers in a terminal, made from a question's JSON Schema."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Final

import msgspec

from midflight.errors import InvalidRequest
from midflight.view.data import Way
from midflight.view.question_form import Pick, about, alternatives, picks, ways, written

BEGINNINGS: Final = frozenset('{["')
"""Characters with which JSON begins, and no word does."""
CLOSE: Final = 0.75  # of difflib: approved, aprove and reject! are this close, later is not


def choices(schema: Any) -> list[Way]:
    """Return the answers that can be picked; a question may take others as well."""
    return [way for way in ways(schema) if not way.form]


def words_of(way: Way) -> str:
    """Return a way to answer as a person reads it: its name, and its consequence if any."""
    return " - ".join(filter(None, [way.label, way.consequence]))


def takes_words(schema: Any) -> bool:
    """Return whether an answer can be typed, and not only picked."""
    if not isinstance(schema, dict):
        return True
    if "enum" in schema or "const" in schema or schema.get("type") == "boolean":
        return False
    parts = [*schema.get("oneOf", []), *schema.get("anyOf", [])]
    return any(takes_words(part) for part in parts) if parts else True


def plain(text: str, schema: Any) -> Any:
    """Return the typed text as the plain data that the question wants.

    Text stays text where text is wanted, even if it looks like a number. Words become an object
    with ``respond`` where only such an object takes words. Text that begins as JSON has to be JSON,
    or is refused: half of an answer must not become the answer.
    """
    if text.lstrip()[:1] in BEGINNINGS and not _wants_text(text, schema):
        return _json(text, schema)
    found = picks(schema)
    if text in [pick.value for pick in found]:
        return text
    _check_no_slip(text, found, schema)
    if _fits(text, schema):
        return text
    folded = text.strip().casefold()
    for pick in found:
        if folded == pick.name.casefold():
            return pick.value
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = text
    words = {"respond": text}
    return words if not _fits(value, schema) and _fits(words, schema) else value


def _check_no_slip(text: str, found: list[Pick], schema: Any) -> None:
    """Refuse a single word that is nearly a choice: as free words it would mean another answer."""
    word = text.strip().casefold()
    names = [pick.name.casefold() for pick in found]
    if word in names or len(word.split()) != 1 or not word.rstrip(".!?").isalpha():
        return
    if close := get_close_matches(word, names, n=1, cutoff=CLOSE):
        meant = written(found[names.index(close[0])].value)
        raise InvalidRequest(
            f"{text.strip()!r} is not one of the choices: did you mean "
            f"{meant}?{_as_words(text, schema)} Nothing was answered."
        )


def _json(text: str, schema: Any) -> Any:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidRequest(
            "the answer begins like JSON but is not valid JSON: "
            f"{error}.{_as_words(text, schema)} Nothing was answered."
        ) from None
    words = {"respond": text}
    quoted = isinstance(value, str) and not _fits(value, schema) and _fits(words, schema)
    return words if quoted else value


def _as_words(text: str, schema: Any) -> str:
    """Return a sentence that shows the text sent as words, if the question takes words."""
    parts = [part for part in alternatives(schema) if isinstance(part, dict)]
    responds = any("respond" in part.get("properties", {}) for part in parts)
    for value in (text, {"respond": text}) if responds else (text,):
        if _fits(value, schema):
            return f" As words it is: {msgspec.json.encode(value).decode()}."
    return ""


def _wants_text(text: str, schema: Any) -> bool:
    """Return whether the question asks for text, and for nothing that is written as JSON."""
    if _takes_only_text(schema):
        return True  # text that does not fit is too long, or the like
    return _fits(text, schema) and not (_fits({}, schema) or _fits([], schema))


def _takes_only_text(schema: Any) -> bool:
    parts = [part for part in alternatives(schema) if part != {"type": "null"}]
    return all(isinstance(part, dict) and part.get("type") == "string" for part in parts)


def _fits(value: Any, schema: Any) -> bool:
    from midflight.schemas import TooMuchWork, misfit

    if schema is None:
        return True
    try:
        return misfit(value, schema) is None
    except (RecursionError, TooMuchWork):
        return False


def wanted(schema: Any) -> list[str]:
    """Return the answers that would fit, in lines that a person can follow."""
    if not isinstance(schema, dict):
        return ["any answer"]
    lines = [_to_type(choice) for choice in choices(schema)]
    for part in [*schema.get("oneOf", []), *schema.get("anyOf", [])]:
        names = list(part.get("properties", {})) if isinstance(part, dict) else []
        if names:
            lines.append(f"or {{{', '.join(_pair(name) for name in names)}}}")
    if not lines and schema.get("type") == "object":
        lines = [f"{name}: {_kind(part)}" for name, part in schema.get("properties", {}).items()]
    return [*about(schema), *(lines or [_kind(schema)])]


def _to_type(way: Way) -> str:
    """Return the words of a choice, with the text to type for it where that differs."""
    value, words = written(way.value), words_of(way)
    return value if value == words else f"{words}   ({value})"


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
