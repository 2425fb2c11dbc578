"""JSON Schemas of questions and tools: checked when asked, applied when answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from midflight.errors import InvalidRequest

if TYPE_CHECKING:
    from jsonschema import ValidationError

SIZE_MAX: Final = 64 * 1024


class ToolSpec(Struct, frozen=True):
    """A tool as the model is told of it; ``schema`` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


def check_schema(schema: Any) -> None:
    """Refuse a schema that cannot be used, before anybody is asked."""
    from jsonschema import Draft202012Validator, SchemaError

    size = len(msgspec.json.encode(schema))
    if size > SIZE_MAX:
        raise InvalidRequest(
            f"the schema of a question has {size:,} bytes and may have {SIZE_MAX:,}. Nothing asked."
        )
    for ref in _refs(schema):
        if not ref.startswith("#"):
            raise InvalidRequest(
                f"the schema of a question refers to {ref!r}; only references within it, "
                "beginning with #, are followed. Nothing was asked."
            )
    try:
        Draft202012Validator.check_schema(schema)
        _resolve(schema)
    except SchemaError as error:
        where = error.json_path
        raise InvalidRequest(
            f"the schema of a question is not valid at {where}: {error.message}. Nothing was asked."
        ) from None


def check_answer(payload: Any, schema: Any) -> None:
    """Refuse an answer that is not what was asked for."""
    if schema is None:
        return
    try:
        error = misfit(payload, schema)
    except RecursionError:
        raise InvalidRequest(
            "the schema of the question leads in a circle, so no answer can be checked. "
            "The question is still open."
        ) from None
    if error is not None:
        raise InvalidRequest(
            f"the answer does not fit the question at {error.json_path}: {error.message}. "
            "The question is still open."
        )


def misfit(value: Any, schema: Any) -> ValidationError | None:
    """The first thing to put right for the value to fit; None if it fits."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    found: ValidationError | None = best_match(Draft202012Validator(schema).iter_errors(value))
    return found


def _resolve(schema: Any) -> None:
    """Follow every reference once; a schema with parts that have names of their own is trusted."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    root: Any = DRAFT202012.create_resource(schema)
    resolver = Registry().with_resource("", root).resolver()
    if b'"$id"' not in msgspec.json.encode(schema):
        for ref in _refs(schema):
            try:
                resolver.lookup(ref)
            except Unresolvable:
                raise InvalidRequest(
                    f"the schema of a question refers to {ref!r}, which it does not have. "
                    "Nothing was asked."
                ) from None


def _refs(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, part in schema.items():
            if key in {"$ref", "$dynamicRef"} and isinstance(part, str):
                yield part
            else:
                yield from _refs(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _refs(part)


def plain_data(what: str, value: Any) -> bytes:
    """A value as JSON; InvalidRequest where it is none."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"{what} is not plain data: {error}. Nothing was changed.") from None
