"""``Run``: the calls that an agent function may make, and the errors they may raise in it.

An agent is a plain ``async def`` that gets a ``Run``. It keeps its own loop; everything that takes
time or touches the world goes through ``await run.step(...)``, which is where the run can be
paused, redirected, cancelled and, after a crash, continued.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import (
    Any,
    Final,
    Generic,
    Literal,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeAlias,
    get_args,
    overload,
)
from uuid import UUID

from msgspec import Struct
from typing_extensions import TypeVar

from midflight.conversation import TRIAGE_AFTER_S, Message, Spoken, Triage
from midflight.errors import InvalidRequest
from midflight.guards import Guard
from midflight.kernel.decide import ASIDE
from midflight.kernel.limits import validate
from midflight.kernel.record import Limits

EVICT_AFTER_S: Final = 60.0  # a held run keeps its function in memory this long
REPEATS: Final = 20  # turns of a circle before a run is told; a loop that polls may take a few
TRIAGE_AFTER_MAX_S: Final = 5.0  # a message is answered for in seconds

P = ParamSpec("P")
T = TypeVar("T", default=Any)
T_co = TypeVar("T_co", default=Any, covariant=True)
Mode: TypeAlias = Literal["immediate", "boundary"]
OnDisconnect: TypeAlias = Literal["continue", "pause", "cancel"]
"""What may happen to a run when the client that reads it leaves."""


class Signal(BaseException):
    """Raised by the calls of ``Run`` when something happens to the run. Let it pass.

    It is no ``Exception``, so ``except Exception`` does not catch it, and it is sticky: whatever an
    agent does with it, the next call raises it again.
    """


class Stopped(Signal):
    """The run was cancelled or killed, or another driver has it. Nothing more can be done here."""


class Evicted(Signal):
    """The run rests, and its function is taken out of memory.

    When the run goes on it is called again, and steps that were done return their records.
    """


class Redirected(Signal):
    """A person has changed the course; ``run.brief`` is the new one.

    The only signal that may be caught: the function then goes on by itself. If it is not caught the
    function is called again, and steps that are asked for as before return their records.

    ``in_doubt``: the call that it comes out of had begun an effect, and nobody knows whether that
    happened. ``cut`` says in words how a person has stopped it, if that is so.
    """

    def __init__(self, brief: str) -> None:
        self.brief = brief
        self.in_doubt = False
        self.cut = ""
        super().__init__(f"redirected: {brief}")


class Answer(Struct, frozen=True):
    """A person's answer, and their name. ``payload`` is None when nobody answered in time."""

    payload: Any
    by: str = ""

    @property
    def given(self) -> bool:
        """True if somebody answered."""
        return bool(self.by)


class Approval(Struct, frozen=True):
    """A person's decision on whether something may be done."""

    decision: str  # "approve" | "reject" | "edit" | "respond"; empty when nobody answered
    by: str = ""
    edit: Any = None
    respond: str = ""

    @property
    def approved(self) -> bool:
        """True if it may be done, perhaps edited."""
        return self.decision in {"approve", "edit"}


class Step(Struct, frozen=True):
    """The name of a step together with its key, in place of the name alone.

    A step is known again by its name and arguments, counted. ``key`` stands in place of those
    where they may differ from one call of the agent function to the next.
    """

    name: str
    key: str = ""


class Child(Protocol[T_co]):
    """A background run."""

    @property
    def id(self) -> str:
        """Its run id."""

    @property
    def outcome(self) -> str:
        """The outcome: done, failed, cancelled or killed; empty while it lives.

        It is as of the end of the last step, so that a replay sees the same.
        """

    async def result(self) -> T_co:
        """Wait for its end and return what its function returned; ``StepFailed`` if it failed."""


class Run(Protocol):
    """The run, as its agent function sees it."""

    @property
    def id(self) -> str:
        """The run's id, which is the name of its journal."""

    @property
    def brief(self) -> str:
        """The work that the run is to do. It changes only where ``Redirected`` is raised."""

    @property
    def profile(self) -> str:
        """The way of working that a redirect has asked for by name; empty before one has.

        What a name means is the agent's: a prompt, a model, a set of tools.
        """

    @property
    def input(self) -> Any:
        """The plain data it was started with."""

    @property
    def restored(self) -> Any:
        """The last snapshot, or None: ``state = run.restored or initial``."""

    @property
    def workdir(self) -> Path:
        """A folder of its own that survives a crash."""

    @overload
    async def step(
        self,
        name: str | Step,
        function: Callable[P, Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T: ...

    @overload
    async def step(
        self, name: str | Step, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def step(
        self, name: str | Step, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Do one thing, once; after a crash or a pause its record is returned instead.

        The step is known again by its name and arguments, counted, or by the key of a ``Step``.
        """

    async def plan(self, *steps: str) -> None:
        """Say which steps are to come, in the words a person reads."""

    async def ask(
        self,
        message: str,
        *,
        schema: dict[str, Any] | None = None,
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> Answer:
        """Ask the people who watch, and wait, however long it takes."""

    async def approve(
        self,
        message: str,
        *,
        details: Any = None,
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> Approval:
        """Ask whether something may be done; ``details`` is what a person may edit."""

    async def hand_over(self, message: str, *, to: Sequence[str] = ()) -> Answer:
        """Give the run to a person, and wait until they hand it back with what they have to say.

        Nothing of it moves meanwhile. ``to`` names who may take it: people, or a role.
        """

    async def cancel(self, why: str, *, by: str = "") -> NoReturn:
        """Cancel this run from inside: abort, undo, save. ``by`` is the person who wants it so."""

    async def inbox(self) -> list[Message]:
        """Messages that nobody has read yet; from here on they are read.

        An agent that converses gets those that were chosen for the work it is doing. A background
        run that has ended reports here too, in the role ``background``.
        """

    async def earlier(self) -> list[Spoken]:
        """Return the last messages of the thread before this run began; the same at replay.

        The briefs of earlier runs are among them, as messages of the people who started those.
        Messages that were still to be read or done then are left out.
        """

    async def say(self, text: str) -> None:
        """Say something in the thread, once."""

    async def distrust(self, source: str) -> None:
        """Note that the run reads words of ``source``, who may not direct it.

        What the run says in its thread from here on is marked, and so is what is saved from it:
        later runs that read it know that it was made from words of strangers. People get a notice.
        The second call of a run changes nothing. ``notices`` does not hold it.
        """

    @overload
    async def spawn(
        self,
        agent: Agent[T],
        brief: str,
        *,
        input: Any = None,
        limits: Limits | None = None,
        key: str = "",
    ) -> Child[T]: ...

    @overload
    async def spawn(
        self,
        agent: str,
        brief: str,
        *,
        input: Any = None,
        limits: Limits | None = None,
        key: str = "",
    ) -> Child: ...

    async def spawn(
        self,
        agent: Agent | str,
        brief: str,
        *,
        input: Any = None,  # noqa: A002 - what people call it
        limits: Limits | None = None,
        key: str = "",
    ) -> Child:
        """Begin a background run. It goes on by itself; a cancel of this run covers it."""

    async def guard(self, guard: Guard) -> None:
        """Note how something outside looks now, which the run relies on.

        If it looks different when the run comes back, people are asked before anything is done.
        """

    def notices(self) -> list[str]:
        """Return the notices so far, such as that a cap is near, for a model to read.

        They are as of the end of the last step, so that a replay reads the same.
        """

    async def snapshot(self, state: Any) -> None:
        """Keep ``state``, which the function finds as ``run.restored`` when it is called again.

        What was recorded before is not replayed any more.
        """

    def now(self) -> float:
        """Seconds since the epoch, the same at replay."""

    def random(self) -> random.Random:
        """A source of chance that gives the same numbers at replay."""

    def uuid(self) -> UUID:
        """A new id, the same at replay."""


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
        raise InvalidRequest(f"{name} {given!r} is none of {', '.join(words)}.")


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
        raise InvalidRequest("triage= is for agents that converse: say converses=True too.")
    if not 0 <= triage_after <= TRIAGE_AFTER_MAX_S:
        raise InvalidRequest(f"triage_after= is between 0 and {TRIAGE_AFTER_MAX_S:g} seconds.")

    def declare(function: AgentFunction) -> Agent:
        if not callable(function):
            raise InvalidRequest(f"@agent stands above an async def, not above {function!r:.60}.")
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
