"""A question's JSON Schema as buttons, a menu or a small form, and a press or form as an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from midflight.errors import InvalidRequest
from midflight.interfaces.chat.channel import Field
from midflight.view.question_form import Pick, about, alternatives, labels_of, picks, written

FIELDS_MAX: Final = 5  # the forms of chats take no more
WHOLE: Final = "answer"  # the one field of a form that takes the answer as it is
PLAIN: Final = frozenset({"string", "integer", "number", "boolean"})
BLOCK_MAX: Final = 1_500  # characters, so that the question fits into one message with it
FENCE: Final = "```"
MARK_UP: Final = re.compile(r"[\\*_~`|\[\]<]|@(?=everyone|here)")
LINE_MARK: Final = re.compile(r"^(\s*)([>#-])", re.MULTILINE)
YES_NO: Final = {"yes": True, "no": False}


class Way(Struct, frozen=True):
    """One way to answer: a value at once, or what a form gives, put ``under`` a name."""

    label: str
    value: Any = None
    fields: tuple[Field, ...] = ()
    schema: Any = None
    under: str = ""

    @property
    def needs_form(self) -> bool:
        """True if this way to answer needs a form, and not only a press."""
        return bool(self.fields)

    def answer(self, given: Mapping[str, str]) -> Any:
        """Return the payload; raise ``InvalidRequest`` for a value that its field does not take."""
        if not self.fields:
            return self.value
        if self.fields[0].name == WHOLE:
            inner = _parsed(self.fields[0].label, given.get(WHOLE, ""), self.schema)
        else:
            parts = self.schema.get("properties", {})
            inner = {
                field.name: _parsed(field.label, given[field.name], parts.get(field.name))
                for field in self.fields
                if field.required or given.get(field.name, "").strip()
            }
        return {self.under: inner} if self.under else inner


def ways(schema: Any) -> list[Way]:
    """Return all ways to answer, in the order of the schema."""
    labels = labels_of(schema)
    details = schema.get("x-details") if isinstance(schema, dict) else None
    found: list[Way] = []
    for part in alternatives(schema):
        at_once = [Way(pick.words or _short(pick), pick.value) for pick in picks(part, labels)]
        found += at_once or [_form(part, details)]
    return found


def _short(pick: Pick) -> str:
    """Return the name of a choice, or its text as it was written."""
    return pick.value if isinstance(pick.value, str) else pick.name


def _form(schema: Any, details: Any) -> Way:
    match schema:
        case {"type": "object", "required": [str(name)], "properties": dict(parts)} if list(
            parts
        ) == [name] and name in {"edit", "respond"}:
            value = written(details) if name == "edit" and details is not None else ""
            field = _whole(parts[name], value)
            return Way(name.capitalize(), fields=(field,), schema=parts[name], under=name)
        case {"type": "object", "properties": dict(parts)} if _fits(parts):
            required = schema.get("required", [])
            fields = tuple(_field(name, part, name in required) for name, part in parts.items())
            return Way("Answer", fields=fields, schema=schema)
        case _:
            return Way("Answer", fields=(_whole(schema, ""),), schema=schema)


def _fits(parts: Mapping[str, Any]) -> bool:
    plain = all("enum" in part or part.get("type") in PLAIN for part in parts.values())
    return 0 < len(parts) <= FIELDS_MAX and plain


def _field(name: str, part: Mapping[str, Any], required: bool) -> Field:
    options = tuple(str(value) for value in part.get("enum", ()))
    if part.get("type") == "boolean":
        options = tuple(YES_NO)
    value = written(part["default"]) if "default" in part else ""
    label, hint = str(part.get("title") or name), str(part.get("description", ""))
    return Field(name, label, value=value, hint=hint, required=required, options=options)


def _whole(schema: Any, value: str) -> Field:
    is_text = _takes_text(schema)
    return Field(WHOLE, "Answer", value=value, hint="" if is_text else "as JSON", long=True)


def _takes_text(schema: Any) -> bool:
    return not isinstance(schema, dict) or schema.get("type") == "string" or schema == {}


def _parsed(label: str, text: str, schema: Any) -> Any:
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
            f"{label}: {text[:80]!r} cannot be read: {error}. The question is still open."
        ) from None


def in_block(schema: Any) -> tuple[str, str]:
    """Return the facts of a question: as a block of a message, or as the text of a file.

    In a block nothing steers the chat: no mark-up, no link, no mention. Text that holds the mark
    which would end the block, or is too long for a message, goes as a file. A line that begins a
    fact stands at the margin, and the further lines of its value do not.
    """
    facts = "\n".join(fact.replace("\n", "\n  ") for fact in about(schema))
    if not facts:
        return "", ""
    if "``" in facts or facts.endswith("`") or len(facts) > BLOCK_MAX:
        return "", facts
    return f"{FENCE}\n{facts}\n{FENCE}", ""


def escaped(text: str) -> str:
    """Return text of others for the words of a message: none of it is mark-up or a mention."""
    return LINE_MARK.sub(r"\1\\\2", MARK_UP.sub(r"\\\g<0>", text))
