"""What a tool says about itself: what it does to the world, how to check, undo and repeat it.

A step takes any function; one that is not declared counts as ``once``, the careful choice. Tools
are found again after a crash by their registered name, never by a stored import path.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, Never, TypedDict, Unpack

from msgspec import Struct

from midflight.errors import InvalidTool
from midflight.kernel.phases import Effect
from midflight.kernel.record import Usage

TIMEOUT_S: Final = 600.0
KEY_TTL_S: Final = 24 * 3600.0  # how long a provider usually honours an idempotency key
STALL_S: Final = 60.0
BACKOFF_S: Final = 0.5  # before the second try, and twice as long before each one after it
RUNS: Final = ("async", "thread", "process")


class NotDone(Exception):
    """Raised by a tool that knows that nothing happened: the step may be tried again."""


class ToolRefused(NotDone):
    """Raised by our own tools: what was asked for cannot be, and nothing has been done."""


class ToolFailed(Exception):
    """Raised by our own tools: it came to nothing on the way, and the words say how."""


class ChangedSince(Exception):
    """Raised by an undo that finds its object changed by others: it is left alone."""


class Done(Struct, frozen=True):
    """A check's answer: it did happen, with this result."""

    result: Any = None


class Unclear(Struct, frozen=True):
    """A check's answer: nobody can tell. The person is asked."""

    why: str = ""


class Performed(Struct, frozen=True):
    """What an undo or a check is told about the attempt it is for.

    ``left`` is the fingerprint of what the effect left behind, where the tool says so.
    """

    key: str
    args: list[Any]
    kwargs: dict[str, Any]
    result: Any = None
    left: str = ""


class Tool(Struct, frozen=True, kw_only=True):
    """A function with what must be known to interrupt it safely.

    ``description`` and ``schema`` are what a model is told where the function itself does not say.
    """

    name: str
    function: Callable[..., Any]
    effect: Effect = Effect.ONCE
    noun: str = ""
    undo: Callable[[Performed], Any] | None = None
    check: Callable[[Performed], Any] | None = None
    leaves: Callable[[Performed], Any] | None = None
    irreversible: bool = False
    approval: bool | str = False
    approve_within: float | None = None
    hold: float = 0.0
    release_always: bool = False
    runs: str = "async"
    timeout: float = TIMEOUT_S
    retry: int = 0
    backoff: float = BACKOFF_S
    fresh: float | None = None
    relies_on: tuple[str, ...] = ()
    key_ttl: float = KEY_TTL_S
    stall: float = STALL_S
    reserves: Callable[..., Usage] | None = None
    wants_key: bool = False
    description: str = ""
    schema: dict[str, Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A declared tool is still the function it was."""
        return self.function(*args, **kwargs)


REGISTRY: Final[dict[str, Tool]] = {}


class Options(TypedDict, total=False):
    """What ``@tool`` takes; see there."""

    effect: str | Effect
    name: str
    noun: str
    undo: Callable[[Performed], Any] | None
    check: Callable[[Performed], Any] | None
    leaves: Callable[[Performed], Any] | None
    irreversible: bool
    approval: bool | str
    approve_within: float | None
    hold: float
    release_always: bool
    runs: str
    timeout: float
    retry: int
    backoff: float
    fresh: float | None
    relies_on: Sequence[str]
    key_ttl: float
    stall: float
    reserves: Callable[..., Usage] | None
    description: str
    schema: dict[str, Any] | None


def tool(*function: Never, **options: Unpack[Options]) -> Callable[[Callable[..., Any]], Tool]:
    """Declare a tool.

    ``effect``: ``read`` (no side effect), ``write`` (repeatable under the same key), ``once``, or
    ``model``: a read that costs, and is on record before it begins. ``reserves`` is called with the
    arguments and says what a call may spend; until it ends that counts as spent.
    ``undo`` and ``check`` are called with a ``Performed``; so is ``leaves``, right after the effect
    and again before its undo: if what it returns has changed, others were there and nothing is
    touched. ``irreversible`` asks for approval unless ``approval=False``; ``approval="the rule"``
    shows the rule, and asks again when it has changed; what nobody approves within
    ``approve_within`` seconds is not done. ``hold`` waits that many seconds first,
    while a cancel still wins. ``release_always`` undoes it at every end: locks, sessions. ``runs``
    is ``"async"``, ``"thread"`` or ``"process"``. A parameter called ``idempotency_key`` gets the
    attempt's key, which the provider honours for ``key_ttl`` seconds.

    What failed is tried again ``retry`` times, after ``backoff`` seconds and then twice as many
    each time. An error with ``retryable = False`` is not; one with ``retry_after`` is, no earlier.
    A ``read`` older than ``fresh`` seconds is repeated when the function is entered again.
    ``relies_on`` names guards that are checked just before. After ``stall`` seconds without a word
    the step is shown as stalled.
    """
    if function:
        raise InvalidTool(f"{function[0]!r:.60}", "@tool needs its brackets: write @tool(effect=…)")
    return lambda function: register(declared(function, **options))


def declared(function: Callable[..., Any], **options: Unpack[Options]) -> Tool:
    """A tool that is not registered: for a function made on the spot, which has no undo to find."""
    given: dict[str, Any] = {**options}
    given["name"] = given.get("name") or _name(function)
    _check_options(function, given)
    given["effect"] = Effect(given.get("effect", Effect.ONCE))
    given["relies_on"] = tuple(given.get("relies_on", ()))
    given["runs"] = given.get("runs") or _runs(function)
    given.setdefault("approval", given.get("irreversible", False))
    wants_key = "idempotency_key" in inspect.signature(function).parameters
    made = Tool(function=function, wants_key=wants_key, **given)
    _validate(made)
    return made


def _check_options(function: object, given: dict[str, Any]) -> None:
    """A slip of the pen, named before anything is made of it."""
    unknown = sorted(given.keys() - Options.__annotations__.keys())
    functions = ("undo", "check", "leaves", "reserves")
    numbers = ("hold", "timeout", "retry", "backoff", "fresh", "key_ttl", "stall", "approve_within")
    problems = [
        *(f"there is no {name}=" for name in unknown),
        *(["it stands above a function"] if not callable(function) else []),
        *(f"{name}= is a function" for name in functions if not _is(given, name, Callable)),
        *(f"{name}= is a number" for name in numbers if not _is(given, name, int | float)),
    ]
    if given.get("effect", Effect.ONCE) not in list(Effect):
        problems.append(f"effect= is one of {', '.join(Effect)}")
    if problems:
        raise InvalidTool(str(given["name"]), problems[0])


def _is(given: dict[str, Any], name: str, kind: Any) -> bool:
    value = given.get(name)
    return value is None or (isinstance(value, kind) and not isinstance(value, bool))


def _runs(function: Callable[..., Any]) -> str:
    return "async" if inspect.iscoroutinefunction(function) else "thread"


def register(made: Tool) -> Tool:
    """Make a tool findable by its name. The same function may be made again, as on a reload.

    The same method of something else is not the same: its undo would reach into another folder.
    """
    before = REGISTRY.get(made.name)
    if before is not None and _who(before.function) != _who(made.function):
        raise InvalidTool(made.name, "another tool has this name; give one of them name=")
    REGISTRY[made.name] = made
    return made


def as_tool(function: Callable[..., Any]) -> Tool:
    """A declared tool as it is; any other function as ``once``."""
    if isinstance(function, Tool):
        return function
    return _undeclared(function)


@functools.lru_cache(maxsize=1024)
def _undeclared(function: Callable[..., Any]) -> Tool:
    return Tool(name=_name(function), function=function, runs=_runs(function))


def is_reusable(declared: Tool) -> bool:
    """Whether the function can have no memory of the call: then its record outlives a redirect."""
    inner = declared.function
    return declared.name in REGISTRY or (
        inspect.isfunction(inner) and inner.__closure__ is None and "<" not in inner.__qualname__
    )


def _name(function: Callable[..., Any]) -> str:
    inner = function.func if isinstance(function, functools.partial) else function
    return f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', repr(inner))}"


def _who(function: Callable[..., Any]) -> tuple[str, Any]:
    inner = function.func if isinstance(function, functools.partial) else function
    return _name(function), getattr(inner, "__self__", None)


def _validate(declared: Tool) -> None:
    problems = {
        "retry= on a `once` tool needs check=, or a retry could do it twice": (
            declared.retry > 0 and declared.effect is Effect.ONCE and declared.check is None
        ),
        f"runs= is one of {', '.join(RUNS)}": declared.runs not in RUNS,
        "timeout= must be more than zero": declared.timeout <= 0,
        "hold= must not be negative": declared.hold < 0,
        "a read changes nothing, so there is nothing to hold back": declared.hold > 0
        and declared.effect is Effect.READ,
        "retry= must not be negative": declared.retry < 0,
        "a read has nothing to undo": declared.effect is Effect.READ and declared.undo is not None,
        "what is irreversible has no undo": declared.irreversible and declared.undo is not None,
        "fresh= is for reads only": declared.fresh is not None
        and declared.effect is not Effect.READ,
        "fresh=, key_ttl=, stall= and backoff= must not be negative": min(
            declared.fresh or 0, declared.key_ttl, declared.stall, declared.backoff
        )
        < 0,
        "approve_within= must be more than zero, and needs approval=": declared.approve_within
        is not None
        and not (declared.approval and declared.approve_within > 0),
        "leaves= is for undo=, which is missing": declared.leaves is not None
        and declared.undo is None,
        "release_always= needs undo=": declared.release_always and declared.undo is None,
    }
    for problem, there in problems.items():
        if there:
            raise InvalidTool(declared.name, problem)
