"""The options of ``@tool``, and the checks of each by itself.

Where options belong together they are a group: ``approval=Approval(…)``, ``retry=Retry(…)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, TypedDict

from msgspec import Struct

from midflight.errors import InvalidTool
from midflight.journal.phases import Effect
from midflight.journal.record import Usage
from midflight.plain import HALVES

FIRST_RETRY_S: Final = 0.5  # before the second try, and twice as long before each one after it
RUNS: Final = ("async", "thread", "process")

EffectName: TypeAlias = Literal["read", "write", "once", "model"]
RunsIn: TypeAlias = Literal["async", "thread", "process"]


class EffectRecord(Struct, frozen=True):
    """The attempt that an undo or a check is for, as it is given to them.

    ``left`` is the fingerprint of what the effect left behind, where the tool says so.
    """

    key: str
    args: list[Any]
    kwargs: dict[str, Any]
    result: Any = None
    left: str = ""


class Approval(Struct, frozen=True):
    """A person is asked before the effect.

    ``rule`` is shown to them; they are asked again when it has changed. An effect that nobody
    approves ``within`` so many seconds is not done.
    """

    rule: str = ""
    within: float | None = None


class Retry(Struct, frozen=True):
    """An attempt that failed is repeated so many ``times``.

    The first repetition comes ``first_after`` so many seconds; the wait doubles each time.
    """

    times: int
    first_after: float = FIRST_RETRY_S


NO_RETRY: Final = Retry(0)

ApprovalOption: TypeAlias = bool | str | Approval


class Options(TypedDict, total=False):
    """The options of ``@tool``, which explains them."""

    effect: EffectName | Effect
    name: str
    label: str
    describe: str | Callable[..., str]
    undo: Callable[[EffectRecord], Any] | None
    check: Callable[[EffectRecord], Any] | None
    fingerprint: Callable[[EffectRecord], Any] | None
    irreversible: bool
    approval: ApprovalOption
    undo_window: float
    always_undo: bool
    runs: RunsIn
    timeout: float
    retry: int | Retry
    max_age: float | None
    relies_on: Sequence[str]
    outside: bool
    untrusted: bool
    key_ttl: float
    settles_within: float
    stops_within: float
    stall: float
    reserves: Callable[..., Usage] | None
    description: str
    schema: dict[str, Any] | None


def check_options(function: object, given: dict[str, Any]) -> None:
    """Raise ``InvalidTool`` for options of a wrong name or type."""
    problems = [
        *(f"@tool has no option {name}=" for name in sorted(given.keys() - _KNOWN)),
        *(["@tool has to stand above a function"] if not callable(function) else []),
        *(
            f"{name}= has to be {wanted}"
            for names, wanted, fits in _KINDS
            for name in names
            if name in given and not fits(given[name])
        ),
    ]
    if problems:
        raise InvalidTool(str(given["name"]), problems[0])


def _is_function(value: object) -> bool:
    return value is None or callable(value)


def _is_number(value: object) -> bool:
    """Return whether an option is a finite number or None: a journal holds no NaN."""
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and HALVES.search(value) is None and "\0" not in value


def _is_approval(value: object) -> bool:
    return isinstance(value, bool | str | Approval) and _is_number(getattr(value, "within", None))


def _is_retry(value: object) -> bool:
    if isinstance(value, Retry):
        given = (value.times, value.first_after)
        return None not in given and all(map(_is_number, given))
    return isinstance(value, int) and not isinstance(value, bool)


_KNOWN: Final = Options.__annotations__.keys()
_KINDS: Final[tuple[tuple[tuple[str, ...], str, Callable[[Any], bool]], ...]] = (
    (("undo", "check", "fingerprint", "reserves"), "a function", _is_function),
    (("undo_window", "timeout", "max_age", "key_ttl"), "a number", _is_number),
    (("stall", "settles_within", "stops_within"), "a number", _is_number),
    (("name", "label", "runs", "description"), "text that can be stored", _is_text),
    (
        ("outside", "untrusted", "irreversible", "always_undo"),
        "True or False",
        lambda value: isinstance(value, bool),
    ),
    (("approval",), "True, False, a rule or an Approval(within=a number)", _is_approval),
    (("retry",), "a number or a Retry of two numbers", _is_retry),
    (
        ("describe",),
        "a template or a function",
        lambda value: isinstance(value, str) or callable(value),
    ),
    (("effect",), f"one of {', '.join(Effect)}", lambda value: value in list(Effect)),
)
"""The names of options, the kind of value that they take in words, and the check of it."""


def as_approval(given: ApprovalOption) -> Approval | None:
    """Return the group that an ``approval=`` stands for; None if nobody is asked."""
    if isinstance(given, Approval):
        return given
    if isinstance(given, str):
        return Approval(given) if given else None
    return Approval() if given else None


def as_retry(given: int | Retry) -> Retry:
    """Return the group that a ``retry=`` stands for."""
    return given if isinstance(given, Retry) else Retry(given)
