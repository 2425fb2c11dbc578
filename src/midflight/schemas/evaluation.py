"""Evaluate a schema from a stranger within a fixed amount of work; its patterns in a process.

The work is counted, not timed: the same value and schema always give the same verdict, also when
a run is replayed on a busy machine. That involves no I/O. A regular expression can take for ever,
though, and ``re`` neither yields nor can be stopped: schemas with patterns are evaluated with them
in a process of their own, which can be ended.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec
from anyio.lowlevel import RunVar
from msgspec import Struct

from midflight.errors import InvalidRequest
from midflight.schemas.schema_rules import LAST, known_part

if TYPE_CHECKING:
    from jsonschema import ValidationError


WORK_MAX: Final = 20_000  # keywords applied, of about 0.01 ms each: what may be done on the loop
WORK_ASIDE_MAX: Final = 400_000  # in a thread, which lets others go on
ELEMENTS_A_UNIT: Final = 4  # which a keyword looks at, whatever is looked for in them
COMPARED_A_UNIT: Final = 500  # elements, with each other
CHARACTERS_A_UNIT: Final = 200  # of what an error repeats, and of what is compared

OF_EACH: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "items",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords that look at every element, also where they ask nothing of it."""

_left: ContextVar[list[int]] = ContextVar("midflight_schema_work_left")


class TooMuchWork(InvalidRequest):
    """The value cannot be checked by this schema within the work that was allowed."""

    def __init__(self) -> None:
        super().__init__(
            "checking this by its schema takes more work than is allowed. Nothing was changed."
        )


def first_misfit(
    value: Any, schema: Any, *, patterns: bool = False, work: int = WORK_MAX
) -> ValidationError | None:
    """Return the first thing to put right for the value to fit; None if it fits.

    Patterns are skipped unless ``patterns`` is set: one of them can take for ever, so they are
    only matched in a process that can be ended (see ``misfit_apart``).
    """
    from jsonschema.exceptions import best_match
    from referencing import Registry

    nothing_is_fetched: Any = Registry()
    kind = _counting()
    token = _left.set([work])
    try:
        # layer server-expressions-keep
        check = kind(known_part(schema, patterns=patterns), registry=nothing_is_fetched)
        found: ValidationError | None = best_match(check.iter_errors(value))
        return found
    finally:
        _left.reset(token)


@lru_cache(maxsize=1)
def _counting() -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    rules = dict(Draft202012Validator.VALIDATORS) | {"uniqueItems": _unique, "not": _not}
    counted = {key: _counted(key, rule) for key, rule in rules.items()}
    return extend(Draft202012Validator, counted)  # type: ignore[no-untyped-call]


def _counted(keyword: str, rule: Callable[..., Any]) -> Callable[..., Iterator[ValidationError]]:
    def apply(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _spend(_cost(keyword, wanted, instance))
        for error in rule(validator, wanted, instance, schema) or ():
            _spend(len(error.message) // CHARACTERS_A_UNIT)
            yield error

    return apply


def _spend(work: int) -> None:
    left = _left.get()
    left[0] -= work  # layer work-counted
    if left[0] < 0:
        raise TooMuchWork


def _cost(keyword: str, wanted: Any, instance: Any) -> int:
    """Return what a keyword costs beside the keywords below it."""
    if keyword in {"const", "enum"}:
        return 1 + len(msgspec.json.encode(wanted)) // CHARACTERS_A_UNIT * 4
    if keyword == "uniqueItems":
        return 1 + len(instance) // 8 if isinstance(instance, list) else 1
    if keyword in OF_EACH and isinstance(instance, list | dict):
        number = len(instance)
        compared = number * number // COMPARED_A_UNIT if keyword in LAST else 0
        return 1 + number // ELEMENTS_A_UNIT + compared
    if isinstance(wanted, list | dict):
        return 1 + len(wanted) // 8
    return 1


def _not(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Say of ``NOTHING`` what the library says of ``false``."""
    from jsonschema import ValidationError

    if wanted == {}:
        yield ValidationError(f"False schema does not allow {instance!r}")
    else:
        yield from _usual_not()(validator, wanted, instance, schema)


@lru_cache(maxsize=1)
def _usual_not() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator.VALIDATORS["not"]


def _unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Compare by what each item is as JSON: in a line, where the library takes the square."""
    from jsonschema import ValidationError

    if not wanted or not isinstance(instance, list):
        return
    size = len(msgspec.json.encode(instance))
    _spend(size // CHARACTERS_A_UNIT)
    seen = {msgspec.json.encode(_plain_number(item), order="deterministic") for item in instance}
    if len(seen) != len(instance):
        yield ValidationError(f"{instance!r:.200} has non-unique elements")


def _plain_number(item: Any) -> Any:
    """1.0 and 1 are the same number in JSON Schema."""
    if isinstance(item, float) and item.is_integer():
        return int(item)
    if isinstance(item, list):
        return [_plain_number(each) for each in item]
    if isinstance(item, dict):
        return {name: _plain_number(each) for name, each in item.items()}
    return item


# ── patterns: a process of their own ─────────────────────────────────────────────────────────

DEADLINE_S: Final = 5.0  # the process needs 0.2 s to start; more, where the machine is busy
AT_ONCE: Final = 2

_turns: RunVar[anyio.Semaphore] = RunVar("midflight_schema_checks")


class Misfit(Struct, frozen=True):
    """The place at which a value does not fit, and the reason."""

    where: str
    why: str


async def misfit_apart(value: object, schema: object) -> Misfit | None:
    """Return what does not fit; InvalidRequest if that cannot be found out in time."""
    command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()"]
    asked = msgspec.json.encode([value, schema])
    async with _turn():
        with anyio.move_on_after(DEADLINE_S):
            done = await anyio.run_process(
                command, input=asked, stdout=PIPE, stderr=DEVNULL, check=False
            )
            if done.returncode == 0:
                return msgspec.json.decode(done.stdout, type=Misfit | None)
    raise InvalidRequest(
        f"the answer could not be checked within {DEADLINE_S:g} s: the patterns in the schema of "
        "the question take too long with it. Try a shorter answer, or have the patterns changed in "
        "the agent. The question is still open."
    )


def _turn() -> anyio.Semaphore:
    try:
        return _turns.get()
    except LookupError:
        _turns.set(anyio.Semaphore(AT_ONCE))
        return _turns.get()


def main() -> None:
    """Be that process: read ``[value, schema]`` as JSON, and write what does not fit."""
    value, schema = msgspec.json.decode(sys.stdin.buffer.read())
    try:
        found = first_misfit(value, schema, patterns=True)
    except (TooMuchWork, RecursionError):
        sys.exit(1)
    misfit = Misfit(found.json_path, found.message[:2_000]) if found is not None else None
    sys.stdout.buffer.write(msgspec.json.encode(misfit))
