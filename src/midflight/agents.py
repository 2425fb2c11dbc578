"""``@agent``: declares an agent, which is a function that takes a ``Run``, under a name.

The module cannot be called ``agent``: it would hide the decorator ``midflight.agent``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Generic, Literal, TypeAlias, get_args, overload

from msgspec import Struct
from typing_extensions import TypeVar

from midflight.conversation import TRIAGE_AFTER_S, Triage
from midflight.errors import InvalidRequest
from midflight.journal.limits import validate
from midflight.journal.record import Limits
from midflight.journal.requests import ASIDE
from midflight.run import Run

EVICT_AFTER_S: Final = 60.0  # a held run keeps its function in memory this long
REPEATS: Final = 20  # turns of a circle before a run is told; a loop that polls may take a few
TRIAGE_AFTER_MAX_S: Final = 5.0  # a message is answered for in seconds
TRIAGE_ALONE: Final = (
    "triage= needs converses=True, because triage decides what is done about messages. Set "
    "converses=True, or leave triage= out."
)

T = TypeVar("T", default=Any)
Mode: TypeAlias = Literal["immediate", "boundary"]
OnDisconnect: TypeAlias = Literal["continue", "pause", "cancel"]
"""The choices of ``on_disconnect``: the fate of a run when the client that reads it leaves."""
AgentFunction: TypeAlias = Callable[[Run], Coroutine[Any, Any, T]]

MODES: Final = get_args(Mode)
ON_DISCONNECT: Final = get_args(OnDisconnect)


class Agent(Struct, Generic[T], frozen=True):
    """An agent function under the name by which runs are started."""

    name: str
    function: AgentFunction[T]
    mode: Mode = "immediate"
    limits: Limits = Limits()
    evict_after: float | None = EVICT_AFTER_S
    converses: bool = False
    triage: Triage | None = None
    aside: AgentFunction | None = None
    triage_after: float = TRIAGE_AFTER_S
    helpers: tuple[Agent, ...] = ()
    on_disconnect: OnDisconnect = "continue"

    def answering_asides(self) -> Agent | None:
        """The agent whose runs answer side questions, if there is one."""
        if self.aside is None:
            return None
        return Agent(
            f"{self.name}{ASIDE}",
            self.aside,
            mode=self.mode,
            limits=self.limits,
            evict_after=self.evict_after,
        )


def _check_word(name: str, given: str, words: Sequence[str]) -> None:
    if given not in words:
        raise InvalidRequest(f"{name}= must be one of {', '.join(words)}, not {given!r}.")


@overload
def agent(function: AgentFunction[T], /) -> Agent[T]: ...


@overload
def agent(
    name: str = "",
    *,
    mode: Mode = "immediate",
    limits: Limits | None = None,
    evict: bool = True,
    converses: bool = False,
    triage: Triage | None = None,
    aside: AgentFunction | None = None,
    triage_after: float = TRIAGE_AFTER_S,
    helpers: Sequence[Agent] = (),
    on_disconnect: OnDisconnect = "continue",
) -> Callable[[AgentFunction[T]], Agent[T]]: ...


def agent(
    name: str | AgentFunction = "",
    *,
    mode: Mode = "immediate",
    limits: Limits | None = None,
    evict: bool = True,
    converses: bool = False,
    triage: Triage | None = None,
    aside: AgentFunction | None = None,
    triage_after: float = TRIAGE_AFTER_S,
    helpers: Sequence[Agent] = (),
    on_disconnect: OnDisconnect = "continue",
) -> Any:
    """Declare an agent: ``@agent`` above an ``async def`` that takes a ``Run``.

    It is called as its function is, or by a name that is given: ``@agent("analyst")``.

    ``mode`` says when a stop is heard: ``"immediate"``, also in the middle of a step, or
    ``"boundary"``, between steps. ``evict=False`` keeps a paused function in memory.

    ``limits`` are the caps of its runs. One is there unless another is named: a run that makes the
    same call with the same result over and over is told so, and then held (``repeats=0``: never).

    An agent that ``converses`` answers in its thread: a message while it works is looked at within
    seconds by ``triage`` (by plain words, if there is none), and one after its end begins its next
    run. ``triage_after`` is how long a triage waits for more messages. ``aside`` answers side
    questions, in a run of its own beside the work. ``helpers`` are agents that it spawns by name:
    a process that can drive it can drive them.

    ``on_disconnect`` is what happens to a run when the person who began it over AG-UI leaves while
    it works: ``"continue"``, ``"pause"`` or ``"cancel"``.
    """
    if limits is not None:
        validate(limits)
    _check_word("mode", mode, MODES)
    _check_word("on_disconnect", on_disconnect, ON_DISCONNECT)
    if triage is not None and not converses:
        raise InvalidRequest(TRIAGE_ALONE)
    if not 0 <= triage_after <= TRIAGE_AFTER_MAX_S:
        raise InvalidRequest(f"triage_after= must be between 0 and {TRIAGE_AFTER_MAX_S:g} seconds.")

    def declare(function: AgentFunction) -> Agent:
        if not callable(function):
            raise InvalidRequest(f"@agent decorates an async function, not {function!r:.60}.")
        called = name if isinstance(name, str) and name else function.__name__
        return Agent(
            called,
            function,
            mode=mode,
            limits=(limits or Limits()).over(Limits(repeats=REPEATS)),
            evict_after=EVICT_AFTER_S if evict else None,
            converses=converses,
            triage=triage,
            aside=aside,
            triage_after=triage_after,
            helpers=tuple(helpers),
            on_disconnect=on_disconnect,
        )

    return declare(name) if callable(name) else declare
