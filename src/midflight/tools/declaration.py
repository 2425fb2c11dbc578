"""The declaration of a tool: its effect on the world, and how to check, undo and repeat it.

A step takes any function; one that is not declared counts as ``once``, the careful choice. Tools
are found again after a crash by their registered name, never by a stored import path.
"""

from __future__ import annotations

import functools
import inspect
import math
import string
import sys
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any, Final, Generic, Unpack, overload

from msgspec import Struct
from msgspec.structs import force_setattr
from typing_extensions import ParamSpec, TypeVar

from midflight.errors import InvalidTool
from midflight.journal.phases import Effect
from midflight.journal.record import Usage
from midflight.tools.options import (
    NO_RETRY,
    RUNS,
    Approval,
    EffectRecord,
    Options,
    Retry,
    RunsIn,
    as_approval,
    as_retry,
    check_options,
)

MAIN: Final = "__main__"
TIMEOUT_S: Final = 600.0
KEY_TTL_S: Final = 24 * 3600.0  # how long a provider usually honours an idempotency key
STALL_S: Final = 60.0
STOPS_S: Final = 30.0  # to end in after it was told to: then a tool is left behind
SETTLES_S: Final = 60.0  # a provider, and what stands before it, has given a request up by then

P = ParamSpec("P", default=...)
T = TypeVar("T", default=Any)


class NotDone(Exception):
    """Raised by a tool that knows that nothing happened: the step may be tried again."""


class ToolRefused(NotDone):
    """Raised by our own tools: the call cannot be carried out, and nothing has been done."""


class ToolFailed(Exception):
    """Raised by our own tools: the call failed on the way, and the message says how."""


class ChangedSince(Exception):
    """Raised by an undo that finds its object changed by others: it is left alone."""


class Done(Struct, frozen=True):
    """A check's answer: it did happen, with this result."""

    result: Any = None


class Unclear(Struct, frozen=True):
    """A check's answer: nobody can tell. The person is asked."""

    why: str = ""


class Tool(Struct, Generic[P, T], frozen=True, kw_only=True):
    """A function with what must be known to interrupt it safely.

    ``description`` and ``schema`` are what a model is told where the function itself does not say.
    """

    name: str
    function: Callable[P, T]
    effect: Effect = Effect.ONCE
    label: str = ""
    describe: str | Callable[..., str] = ""
    undo: Callable[[EffectRecord], Any] | None = None
    check: Callable[[EffectRecord], Any] | None = None
    fingerprint: Callable[[EffectRecord], Any] | None = None
    irreversible: bool = False
    approval: Approval | None = None
    undo_window: float = 0.0
    always_undo: bool = False
    runs: RunsIn = "async"
    timeout: float = TIMEOUT_S
    retry: Retry = NO_RETRY
    max_age: float | None = None
    relies_on: tuple[str, ...] = ()
    outside: bool = False
    untrusted: bool = False
    key_ttl: float = KEY_TTL_S
    settles_within: float = SETTLES_S
    stops_within: float = STOPS_S
    stall: float = STALL_S
    reserves: Callable[..., Usage] | None = None
    wants_key: bool = False
    description: str = ""
    schema: dict[str, Any] | None = None
    reusable: bool = False
    """Whether its records outlive a redirect: it is registered, or its function has no closure."""
    plain: bool = False
    """Whether nothing but its call lies between the start of a step and its outcome."""

    def __post_init__(self) -> None:
        inner = self.function
        if inspect.isfunction(inner) and not inner.__closure__ and "<" not in inner.__qualname__:
            force_setattr(self, "reusable", True)
        before = self.approval or self.undo_window or self.relies_on or self.reserves
        after = self.fingerprint or self.irreversible or self.always_undo
        # layer must-not-happen-twice
        force_setattr(self, "plain", self.effect is Effect.WRITE and not (before or after))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function itself, outside any run."""
        return self.function(*args, **kwargs)


REGISTRY: Final[dict[str, Tool]] = {}


@overload
def tool(function: Callable[P, T], /) -> Tool[P, T]: ...


@overload
def tool(**options: Unpack[Options]) -> Callable[[Callable[P, T]], Tool[P, T]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[Options]) -> Any:
    """Declare a tool: ``@tool`` or ``@tool(effect="read", …)`` above a function.

    ``effect``: ``read`` (no side effect), ``write`` (repeatable under the same key), ``once``, or
    ``model``: a read that costs, and is on record before it begins. ``reserves`` is called with the
    arguments and says what a call may spend; until it ends that counts as spent.
    ``label`` is what people call such effects, and ``describe`` one of them: a template such as
    ``"mail to {to}"`` over the names of the arguments, or a function of the same arguments. Without
    it the label and the first argument that is a text stand for it. Secrets are shown as dots.
    ``undo`` and ``check`` are called with an ``EffectRecord``; so is ``fingerprint``, right after
    the effect and again before its undo: if what it returns has changed, others were there and
    nothing is touched. ``irreversible`` asks for approval unless ``approval=False``;
    ``approval="the rule"`` shows the rule, and asks again when it has changed;
    ``approval=Approval(within=600)`` gives people ten minutes. ``undo_window`` waits that many
    seconds before the effect begins, while a cancel still wins. ``always_undo`` undoes it at every
    end: locks, sessions. ``runs`` is ``"async"``, ``"thread"`` or ``"process"``. A parameter called
    ``idempotency_key`` gets the attempt's key, which the provider honours for ``key_ttl`` seconds.

    What an attempt has sent may still arrive after it was aborted, has failed or died. A ``check``
    that says *not done* is believed ``settles_within`` seconds after that, and asked again then.
    Say 0 where nothing leaves the machine, or the provider acts before it accepts. A tool that is
    told to end has ``stops_within`` seconds for that; then it is left behind, and its outcome is
    unknown.

    What failed is tried again ``retry`` times; ``retry=Retry(3, first_after=2.0)`` also says how
    long the first wait is, which doubles each time. An error with ``retryable = False`` is
    not; one with ``retry_after`` is, no earlier.
    A ``read`` older than ``max_age`` seconds is repeated when the function is entered again.
    ``relies_on`` names guards that are checked just before. After ``stall`` seconds without a word
    the step is shown as stalled.

    ``outside`` says that a call leaves this machine: its arguments reach others, even if it only
    reads. ``untrusted`` says that strangers may have written what it returns; unless given, that is
    so for a tool that is ``outside``. The assistant quotes such results to its model, and from then
    on asks a person before an effect and before a call that leaves the machine.
    """
    if function is not None:
        return register(declared(function, **options))
    return lambda function: register(declared(function, **options))


def declared(function: Callable[P, T], **options: Unpack[Options]) -> Tool[P, T]:
    """Return a tool that is not registered, for a function that is made at run time."""
    given: dict[str, Any] = {**options}
    given["name"] = given.get("name") or name_of(function)
    check_options(function, given)
    function = _hashable(function)
    given["effect"] = Effect(given.get("effect", Effect.ONCE))
    given["relies_on"] = tuple(given.get("relies_on", ()))
    given["runs"] = given.get("runs") or runs_of(function)
    given["approval"] = as_approval(given.get("approval", given.get("irreversible", False)))
    given["retry"] = as_retry(given.get("retry", 0))
    given.setdefault("untrusted", given.get("outside", False))
    wants_key = "idempotency_key" in inspect.signature(function).parameters
    made = Tool(function=function, wants_key=wants_key, **given)
    _validate(made)
    return made


def runs_of(function: Callable[..., Any]) -> RunsIn:
    """Return ``"async"`` for what can be seen to be async, and ``"thread"`` for everything else.

    A lambda that calls an async function cannot: it runs in a thread, and what it returns is
    awaited afterwards.
    """
    inner = unwrapped(function)
    seen = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)
    return "async" if seen else "thread"


def register(made: Tool[P, T]) -> Tool[P, T]:
    """Make a tool findable by its name. The same function may be made again, as on a reload.

    The same method of something else is not the same: its undo would reach into another folder.
    """
    before = REGISTRY.get(made.name)
    if before is not None and _who(before.function) != _who(made.function):
        raise InvalidTool(
            made.name, "another tool has this name: give one of the two a different name with name="
        )
    REGISTRY[made.name] = made
    force_setattr(made, "reusable", True)
    return made


def find_tool(name: str) -> Tool | None:
    """Return the registered tool that a journal means by this name, if it is known here.

    A tool that got its name from its function is found also where its file was loaded in another
    way: run as a program then, imported as part of a package now.
    """
    exact = REGISTRY.get(name)
    if exact is not None:
        return exact
    unnamed = [made.name for made in REGISTRY.values() if made.name == name_of(made.function)]
    return REGISTRY.get(alike(name, unnamed))


def undeclared(function: Callable[..., Any]) -> Tool:
    """Return a function that nobody has declared as a tool: its effect happens ``once``."""
    return _undeclared(_hashable(function))


def _hashable(function: Callable[P, T]) -> Callable[P, T]:
    """Return what can be the key of a cache: the instances of many dataclasses cannot."""
    try:
        hash(function)
    except TypeError:
        return functools.partial(function)
    return function


@functools.lru_cache(maxsize=1024)
def _undeclared(function: Callable[..., Any]) -> Tool:
    return Tool(name=name_of(function), function=function, runs=runs_of(function))


def _who(function: Callable[..., Any]) -> tuple[str, Any]:
    # layer two-workspaces-do-not-share-name
    return name_of(function), getattr(unwrapped(function), "__self__", None)


# ── the name of a function in journals ───────────────────────────────────────────────────────
#
# A file that is run as a program is loaded as ``__main__``, and under its own name by every other
# command. Its tools have one name all the same, or no other command would find their undos.


def name_of(function: Callable[..., Any]) -> str:
    """Return the name under which a function is known."""
    inner = unwrapped(function)
    module = getattr(inner, "__module__", "")
    qualname = getattr(inner, "__qualname__", repr(inner))
    return f"{_main_of(inner) if module == MAIN else module}.{qualname}"


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function in a ``functools.partial``; any other as it is."""
    return function.func if isinstance(function, functools.partial) else function


def alike(name: str, others: Iterable[str]) -> str:
    """Return the one of the other names that means the same function, or nothing.

    A file has a longer name where it is loaded as part of a package (``shop.agent`` for a program
    ``agent``). Journals of older versions have ``__main__``, which any module may have been. Where
    several would fit none is meant: the undo of another tool would do harm.
    """
    if name.startswith(f"{MAIN}."):
        same = name.removeprefix(f"{MAIN}.")
        fitting = [other for other in others if other.endswith(f".{same}")]
    else:
        fitting = [other for other in others if _is_tail(name, other) or _is_tail(other, name)]
    return fitting[0] if len(fitting) == 1 else ""


def _is_tail(name: str, longer: str) -> bool:
    return "." in name and longer.endswith(f".{name}")


def _main_of(inner: Callable[..., Any]) -> str:
    """Return the name that the main program has when it is imported.

    By the function's own globals: a profiler or debugger may be what was started.
    """
    program = getattr(inner, "__globals__", None) or vars(sys.modules[MAIN])
    spec = program.get("__spec__")
    if spec is not None and spec.name != MAIN:
        return str(spec.name)
    file = program.get("__file__")
    return PurePath(file).stem if file else MAIN


# ── checks ───────────────────────────────────────────────────────────────────────────────────


def _validate(declared: Tool) -> None:
    problems = {
        "retry= on a `once` tool needs check=, or a retry could do it twice": (
            declared.retry.times > 0 and declared.effect is Effect.ONCE and declared.check is None
        ),
        f"runs= has to be one of {', '.join(RUNS)}": declared.runs not in RUNS,
        "timeout= must be more than zero": declared.timeout <= 0,
        "undo_window= must not be negative": declared.undo_window < 0,
        "undo_window= is not for a read, which changes nothing": declared.undo_window > 0
        and declared.effect is Effect.READ,
        "retry= must not be negative": declared.retry.times < 0,
        "undo= is not for a read, which changes nothing": declared.effect is Effect.READ
        and declared.undo is not None,
        "irreversible= and undo= exclude each other": declared.irreversible
        and declared.undo is not None,
        "max_age= is for reads only": declared.max_age is not None
        and declared.effect is not Effect.READ,
        "max_age=, key_ttl=, stall= and Retry(first_after=…) must not be negative": min(
            declared.max_age or 0, declared.key_ttl, declared.stall, declared.retry.first_after
        )
        < 0,
        "settles_within= and stops_within= must be zero or more, and finite": not all(
            0 <= seconds < math.inf for seconds in (declared.settles_within, declared.stops_within)
        ),
        "Approval(within=…) must be more than zero": declared.approval is not None
        and declared.approval.within is not None
        and declared.approval.within <= 0,
        "fingerprint= needs undo=": declared.fingerprint is not None and declared.undo is None,
        "always_undo= needs undo=": declared.always_undo and declared.undo is None,
    }
    for problem, there in problems.items():
        if there:
            raise InvalidTool(declared.name, problem)
    if isinstance(declared.describe, str) and (unknown := _unknown_fields(declared)):
        raise InvalidTool(declared.name, unknown)


def _unknown_fields(declared: Tool) -> str:
    """Say what is wrong with the template of ``describe``, if anything is."""
    assert isinstance(declared.describe, str)
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(declared.describe)]
    except ValueError as error:
        return f"describe= is not a valid template: {error}"
    parameters = inspect.signature(declared.function).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    names = (field.partition(".")[0].partition("[")[0] for field in fields if field is not None)
    unknown = [name for name in names if name not in parameters and not takes_any]
    return (
        f"describe= names {unknown[0]!r}, which is not an argument of the function"
        if unknown
        else ""
    )
