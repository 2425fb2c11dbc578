"""``Run``: the calls that an agent function may make, and the errors they may raise in it.

An agent is a plain ``async def`` that gets a ``Run``. It keeps its own loop; everything that takes
time or touches the world goes through ``await run.step(...)``, which is where the run can be
paused, redirected, cancelled and, after a crash, continued.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, NoReturn, ParamSpec, Protocol, TypeAlias, overload
from uuid import UUID

from msgspec import Struct
from typing_extensions import TypeVar

from midflight.conversation import Message, Spoken
from midflight.guards import Guard
from midflight.journal.record import Limits

P = ParamSpec("P")
T = TypeVar("T", default=Any)
T_co = TypeVar("T_co", default=Any, covariant=True)


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


Decision: TypeAlias = Literal["approve", "reject", "edit", "respond", ""]
"""A decision of a person; empty when nobody answered in time."""

ChildOutcome: TypeAlias = Literal["done", "failed", "cancelled", "killed", "purged", ""]
"""The outcome of a background run; empty while it lives."""


class Answer(Struct, Generic[T], frozen=True):
    """A person's answer, and their name. ``payload`` is None when nobody answered."""

    payload: T | None
    by: str = ""

    @property
    def given(self) -> bool:
        """True if somebody answered."""
        return bool(self.by)


class ApprovalAnswer(Struct, frozen=True):
    """A person's decision on whether something may be done."""

    decision: Decision
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
    def outcome(self) -> ChildOutcome:
        """The outcome; empty while it lives.

        It is as of the end of the last step, so that a replay sees the same.
        """

    async def result(self) -> T_co:
        """Wait for its end and return what its function returned; ``StepFailed`` if it failed."""


class Spawnable(Protocol[T_co]):
    """An agent, as ``Run.spawn`` takes it: what ``@agent`` makes."""

    @property
    def name(self) -> str:
        """The name by which runs are started."""

    @property
    def function(self) -> Callable[[Run], Coroutine[Any, Any, T_co]]:
        """The agent function."""


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

    @overload
    async def ask(
        self,
        message: str,
        *,
        schema: type[T],
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> Answer[T]: ...

    @overload
    async def ask(
        self,
        message: str,
        *,
        schema: dict[str, Any] | None = None,
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> Answer: ...

    async def ask(
        self,
        message: str,
        *,
        schema: type | dict[str, Any] | None = None,
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> Answer:
        """Ask the people who watch, and wait, however long it takes.

        ``schema`` is what an answer has to be: a type, such as ``int`` or a class of fields, or a
        JSON Schema. Of a type the payload is a value.
        """

    async def approve(
        self,
        message: str,
        *,
        details: Any = None,
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> ApprovalAnswer:
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
        agent: Spawnable[T],
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
        agent: Spawnable[Any] | str,
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
