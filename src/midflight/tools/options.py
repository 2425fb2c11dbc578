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


_FUNCTIONS: Final = ("undo", "check", "fingerprint", "reserves")
_TEXTS: Final = ("name", "label", "runs", "description")
_NUMBERS: Final = (
    "undo_window", "timeout", "max_age", "key_ttl", "stall", "settles_within", "stops_within",
)  # fmt: skip
_FLAGS: Final = ("outside", "untrusted", "irreversible", "always_undo")


def check_options(function: object, given: dict[str, Any]) -> None:
    """Raise ``InvalidTool`` for options of a wrong name or type."""
    unknown = sorted(given.keys() - Options.__annotations__.keys())
    problems = [
        *(f"@tool has no option {name}=" for name in unknown),
        *(["@tool has to stand above a function"] if not callable(function) else []),
        *(f"{name}= has to be a function" for name in _FUNCTIONS if not _is_function(given, name)),
        *(f"{name}= has to be a number" for name in _NUMBERS if not is_number(given.get(name))),
        *(
            f"{name}= has to be text that can be stored"
            for name in _TEXTS
            if not _is_text(given, name)
        ),
        *(
            f"{name}= has to be True or False"
            for name in _FLAGS
            if not isinstance(given.get(name, False), bool)
        ),
        *_wrong_groups(given),
    ]
    describe = given.get("describe", "")
    if not (isinstance(describe, str) or callable(describe)):
        problems.append("describe= has to be a template or a function")
    if given.get("effect", Effect.ONCE) not in list(Effect):
        problems.append(f"effect= has to be one of {', '.join(Effect)}")
    if problems:
        raise InvalidTool(str(given["name"]), problems[0])


def _wrong_groups(given: dict[str, Any]) -> list[str]:
    approval, retry = given.get("approval", False), given.get("retry", 0)
    problems = []
    if not isinstance(approval, bool | str | Approval):
        problems.append("approval= has to be True, False, a rule or an Approval")
    if isinstance(approval, Approval) and not is_number(approval.within):
        problems.append("approval=Approval(within=…) has to be a number")
    if isinstance(retry, bool) or not isinstance(retry, int | Retry):
        problems.append("retry= has to be a number or a Retry")
    if isinstance(retry, Retry) and not (is_number(retry.times) and is_number(retry.first_after)):
        problems.append("retry=Retry(times=…, first_after=…) has to be two numbers")
    return problems


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


def is_number(value: object) -> bool:
    """Return whether an option is a finite number or left out: a journal holds no NaN."""
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_function(given: dict[str, Any], name: str) -> bool:
    return given.get(name) is None or callable(given[name])


def _is_text(given: dict[str, Any], name: str) -> bool:
    text = given.get(name, "")
    return isinstance(text, str) and HALVES.search(text) is None and "\0" not in text
