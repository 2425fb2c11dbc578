"""The declaration of a tool: its effect on the world, and how to check, undo and repeat it.

A step takes any function; one that is not declared counts as ``once``, the careful choice. Tools
are found again after a crash by their registered name, never by a stored import path.
"""

from __future__ import annotations

import functools
import inspect
import math
import string
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Literal, TypeAlias, TypedDict, Unpack, overload

from msgspec import Struct
from typing_extensions import ParamSpec, TypeVar

from midflight.errors import InvalidTool
from midflight.kernel.phases import Effect
from midflight.kernel.record import Usage
from midflight.plain import HALVES
from midflight.tools.names import alike, name_of, unwrapped

TIMEOUT_S: Final = 600.0
KEY_TTL_S: Final = 24 * 3600.0  # how long a provider usually honours an idempotency key
STALL_S: Final = 60.0
STOPS_S: Final = 30.0  # to end in after it was told to: then a tool is left behind
SETTLES_S: Final = 60.0  # a provider, and what stands before it, has given a request up by then
BACKOFF_S: Final = 0.5  # before the second try, and twice as long before each one after it
RUNS: Final = ("async", "thread", "process")

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


class EffectRecord(Struct, frozen=True):
    """The attempt that an undo or a check is for, as it is given to them.

    ``left`` is the fingerprint of what the effect left behind, where the tool says so.
    """

    key: str
    args: list[Any]
    kwargs: dict[str, Any]
    result: Any = None
    left: str = ""


class Tool(Struct, Generic[P, T], frozen=True, kw_only=True):
    """A function with what must be known to interrupt it safely.

    ``description`` and ``schema`` are what a model is told where the function itself does not say.
    """

    name: str
    function: Callable[P, T]
    effect: Effect = Effect.ONCE
    noun: str = ""
    label: str | Callable[..., str] = ""
    undo: Callable[[EffectRecord], Any] | None = None
    check: Callable[[EffectRecord], Any] | None = None
    leaves: Callable[[EffectRecord], Any] | None = None
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

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function itself, outside any run."""
        return self.function(*args, **kwargs)


REGISTRY: Final[dict[str, Tool]] = {}


EffectName: TypeAlias = Literal["read", "write", "once", "model"]
RunsIn: TypeAlias = Literal["async", "thread", "process"]


class Options(TypedDict, total=False):
    """The options of ``@tool``, which explains them."""

    effect: EffectName | Effect
    name: str
    noun: str
    label: str | Callable[..., str]
    undo: Callable[[EffectRecord], Any] | None
    check: Callable[[EffectRecord], Any] | None
    leaves: Callable[[EffectRecord], Any] | None
    irreversible: bool
    approval: bool | str
    approve_within: float | None
    hold: float
    release_always: bool
    runs: RunsIn
    timeout: float
    retry: int
    backoff: float
    fresh: float | None
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


@overload
def tool(function: Callable[P, T], /) -> Tool[P, T]: ...


@overload
def tool(**options: Unpack[Options]) -> Callable[[Callable[P, T]], Tool[P, T]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[Options]) -> Any:
    """Declare a tool: ``@tool`` or ``@tool(effect="read", …)`` above a function.

    ``effect``: ``read`` (no side effect), ``write`` (repeatable under the same key), ``once``, or
    ``model``: a read that costs, and is on record before it begins. ``reserves`` is called with the
    arguments and says what a call may spend; until it ends that counts as spent.
    ``noun`` is what people call such effects, and ``label`` one of them: a template such as
    ``"mail to {to}"`` over the names of the arguments, or a function of the same arguments. Without
    it the noun and the first argument that is a text stand for it. Secrets are shown as dots.
    ``undo`` and ``check`` are called with an ``EffectRecord``; so is ``leaves``, right after the
    effect and again before its undo: if what it returns has changed, others were there and nothing
    is touched. ``irreversible`` asks for approval unless ``approval=False``;
    ``approval="the rule"`` shows the rule, and asks again when it has changed; what nobody approves
    within ``approve_within`` seconds is not done. ``hold`` waits that many seconds first,
    while a cancel still wins. ``release_always`` undoes it at every end: locks, sessions. ``runs``
    is ``"async"``, ``"thread"`` or ``"process"``. A parameter called ``idempotency_key`` gets the
    attempt's key, which the provider honours for ``key_ttl`` seconds.

    What an attempt has sent may still arrive after it was aborted, has failed or died. A ``check``
    that says *not done* is believed ``settles_within`` seconds after that, and asked again then.
    Say 0 where nothing leaves the machine, or the provider acts before it accepts. A tool that is
    told to end has ``stops_within`` seconds for that; then it is left behind, and its outcome is
    unknown.

    What failed is tried again ``retry`` times, after ``backoff`` seconds and then twice as many
    each time. An error with ``retryable = False`` is not; one with ``retry_after`` is, no earlier.
    A ``read`` older than ``fresh`` seconds is repeated when the function is entered again.
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
    _check_options(function, given)
    given["effect"] = Effect(given.get("effect", Effect.ONCE))
    given["relies_on"] = tuple(given.get("relies_on", ()))
    given["runs"] = given.get("runs") or runs_of(function)
    given.setdefault("approval", given.get("irreversible", False))
    given.setdefault("untrusted", given.get("outside", False))
    wants_key = "idempotency_key" in inspect.signature(function).parameters
    made = Tool(function=function, wants_key=wants_key, **given)
    _validate(made)
    return made


def _check_options(function: object, given: dict[str, Any]) -> None:
    """Raise for options of a wrong name or type, before a tool is made with them."""
    unknown = sorted(given.keys() - Options.__annotations__.keys())
    functions = ("undo", "check", "leaves", "reserves")
    texts = ("name", "noun", "runs", "description")
    numbers = (
        "hold", "timeout", "retry", "backoff", "fresh", "key_ttl", "stall", "approve_within",
        "settles_within", "stops_within",
    )  # fmt: skip
    problems = [
        *(f"@tool has no option {name}=" for name in unknown),
        *(["@tool has to stand above a function"] if not callable(function) else []),
        *(f"{name}= has to be a function" for name in functions if not _is(given, name, Callable)),
        *(f"{name}= has to be a number" for name in numbers if not _is_number(given, name)),
        *(
            f"{name}= has to be text that can be stored"
            for name in texts
            if not _is_text(given, name)
        ),
    ]
    problems += [
        f"{name}= has to be True or False"
        for name in ("outside", "untrusted")
        if not isinstance(given.get(name, False), bool)
    ]
    label = given.get("label", "")
    if not (isinstance(label, str) or callable(label)):
        problems.append("label= has to be a template or a function")
    if given.get("effect", Effect.ONCE) not in list(Effect):
        problems.append(f"effect= has to be one of {', '.join(Effect)}")
    if problems:
        raise InvalidTool(str(given["name"]), problems[0])


def _is(given: dict[str, Any], name: str, kind: Any) -> bool:
    value = given.get(name)
    return value is None or (isinstance(value, kind) and not isinstance(value, bool))


def _is_number(given: dict[str, Any], name: str) -> bool:
    """Return whether an option is a finite number: a journal holds no NaN or Infinity."""
    return _is(given, name, int | float) and math.isfinite(given.get(name) or 0)


def _is_text(given: dict[str, Any], name: str) -> bool:
    text = given.get(name, "")
    return isinstance(text, str) and HALVES.search(text) is None and "\0" not in text


def runs_of(function: Callable[..., Any]) -> str:
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
        raise InvalidTool(made.name, "another tool has this name; give one of them name=")
    REGISTRY[made.name] = made
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


def as_tool(function: Callable[..., Any]) -> Tool:
    """Return a declared tool as it is; any other function as ``once``."""
    return function if isinstance(function, Tool) else _undeclared(function)


@functools.lru_cache(maxsize=1024)
def _undeclared(function: Callable[..., Any]) -> Tool:
    return Tool(name=name_of(function), function=function, runs=runs_of(function))


def is_reusable(declared: Tool) -> bool:
    """Return whether its records outlive a redirect: it is registered, or has no closure."""
    inner = declared.function
    return declared.name in REGISTRY or (
        inspect.isfunction(inner) and inner.__closure__ is None and "<" not in inner.__qualname__
    )


def _who(function: Callable[..., Any]) -> tuple[str, Any]:
    return name_of(function), getattr(unwrapped(function), "__self__", None)


def _validate(declared: Tool) -> None:
    problems = {
        "retry= on a `once` tool needs check=, or a retry could do it twice": (
            declared.retry > 0 and declared.effect is Effect.ONCE and declared.check is None
        ),
        f"runs= has to be one of {', '.join(RUNS)}": declared.runs not in RUNS,
        "timeout= must be more than zero": declared.timeout <= 0,
        "hold= must not be negative": declared.hold < 0,
        "hold= is not for a read, which changes nothing": declared.hold > 0
        and declared.effect is Effect.READ,
        "retry= must not be negative": declared.retry < 0,
        "undo= is not for a read, which changes nothing": declared.effect is Effect.READ
        and declared.undo is not None,
        "irreversible= and undo= exclude each other": declared.irreversible
        and declared.undo is not None,
        "fresh= is for reads only": declared.fresh is not None
        and declared.effect is not Effect.READ,
        "fresh=, key_ttl=, stall= and backoff= must not be negative": min(
            declared.fresh or 0, declared.key_ttl, declared.stall, declared.backoff
        )
        < 0,
        "settles_within= and stops_within= must not be negative, and must end": not all(
            0 <= seconds < math.inf for seconds in (declared.settles_within, declared.stops_within)
        ),
        "approve_within= must be more than zero, and needs approval=": declared.approve_within
        is not None
        and not (declared.approval and declared.approve_within > 0),
        "leaves= needs undo=": declared.leaves is not None and declared.undo is None,
        "release_always= needs undo=": declared.release_always and declared.undo is None,
    }
    for problem, there in problems.items():
        if there:
            raise InvalidTool(declared.name, problem)
    if isinstance(declared.label, str) and (unknown := _unknown_fields(declared)):
        raise InvalidTool(declared.name, unknown)


def _unknown_fields(declared: Tool) -> str:
    """Say what is wrong with a label's template, if anything is."""
    assert isinstance(declared.label, str)
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(declared.label)]
    except ValueError as error:
        return f"label= is no template: {error}"
    parameters = inspect.signature(declared.function).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    names = (field.partition(".")[0].partition("[")[0] for field in fields if field is not None)
    unknown = [name for name in names if name not in parameters and not takes_any]
    return f"label= names {unknown[0]!r}, which is no argument of it" if unknown else ""
