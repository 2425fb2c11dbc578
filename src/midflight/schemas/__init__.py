"""JSON Schemas of questions and tools: checked when asked, applied when answered.

A schema can come from a stranger. ``schema_rules`` says what it may contain, ``evaluation`` bounds
the work that it causes, and matches its patterns in a process that can be ended.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import msgspec
from msgspec import Struct

from midflight.errors import InvalidRequest
from midflight.plain import NotPlain, check
from midflight.schemas.evaluation import WORK_ASIDE_MAX as WORK_ASIDE_MAX
from midflight.schemas.evaluation import WORK_MAX as WORK_MAX
from midflight.schemas.evaluation import TooMuchWork as TooMuchWork
from midflight.schemas.evaluation import first_misfit, misfit_apart
from midflight.schemas.schema_rules import BadSchema, check_rules, has_patterns

if TYPE_CHECKING:
    from jsonschema import ValidationError


class ToolSpec(Struct, frozen=True):
    """A tool as the model is told of it; ``schema`` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


def check_schema(
    schema: Any, what: str = "the schema of a question", unchanged: str = "Nothing was asked."
) -> None:
    """Refuse a schema that cannot be used, before anybody is asked; ``what`` names it."""
    from jsonschema import Draft202012Validator, FormatChecker, SchemaError

    plain_data(what, schema, unchanged)
    try:
        check_rules(schema)
        Draft202012Validator.check_schema(schema, format_checker=FormatChecker(formats=()))
    except BadSchema as error:
        why = str(error)
    except SchemaError as error:
        why = f"is not valid at {error.json_path}: {error.message[:500]}"
    except RecursionError:
        why = "is nested too deeply to be checked"
    else:
        return
    raise InvalidRequest(f"{what} {why}. {unchanged}")


async def check_answer(payload: Any, schema: Any) -> None:
    """Refuse an answer that is not what was asked for."""
    if schema is None:
        return
    try:
        error = await _misfit_aside(payload, schema)
    except (RecursionError, TooMuchWork):
        raise InvalidRequest(
            "the answer could not be checked: the schema of the question refers to itself without "
            "end, or takes too much work for an answer like this one. Try a shorter answer, or "
            "have the schema changed in the agent. The question is still open."
        ) from None
    where, why = (error.json_path, error.message) if error is not None else ("", "")
    if error is None and has_patterns(schema):
        found = await misfit_apart(payload, schema)
        where, why = (found.where, found.why) if found is not None else ("", "")
    if where:
        raise InvalidRequest(
            f"the answer does not fit the question at {where}: {why}. The question is still open."
        )


async def _misfit_aside(value: Any, schema: Any) -> ValidationError | None:
    """Look at once, and go on in a thread where that was not enough."""
    try:
        return first_misfit(value, schema)
    except TooMuchWork:
        return await anyio.to_thread.run_sync(
            partial(first_misfit, value, schema, work=WORK_ASIDE_MAX)
        )


def misfit(value: Any, schema: Any, *, work: int = WORK_MAX) -> ValidationError | None:
    """Return the first thing to put right for the value to fit; None if it fits.

    Patterns are not looked at. Raises TooMuchWork if more than ``work`` would be needed.
    """
    return first_misfit(value, schema, work=work)


def check_switch(name: str, value: Any) -> None:
    """Refuse a value that is neither True nor False for the argument of this name."""
    if not isinstance(value, bool):
        raise InvalidRequest(f"{name}= is True or False, not {value!r:.80}. Nothing was changed.")


def plain_data(what: str, value: Any, unchanged: str = "Nothing was changed.") -> bytes:
    """Return a value as JSON that gives it back as it was; InvalidRequest if that cannot be."""
    try:
        check(value, what)
    except NotPlain as error:
        raise InvalidRequest(f"{error}. {unchanged}") from None
    return msgspec.json.encode(value)
