"""What an agent function may do with its run, and what may happen to it there.

An agent is a plain ``async def`` that gets a ``Run``. It keeps its own loop; everything that takes
time or touches the world goes through ``await run.step(...)``, which is where the run can be
paused, redirected, cancelled and, after a crash, continued.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import UUID

from msgspec import Struct

from midflight.errors import InvalidRequest
from midflight.kernel.record import Limits

EVICT_AFTER_S: Final = 60.0  # a held run keeps its function in memory this long


class Signal(BaseException):
    """Comes out of ``Run`` calls when the run is told something. Not an ``Exception``: let it pass.

    It is sticky: whatever an agent does with it, the next call raises it again.
    """


class Stopped(Signal):
    """The run was cancelled or killed, or another driver has it. Nothing more can be done here."""


class Evicted(Signal):
    """The run rests; its function is let go and called again, with its records, when it moves."""


class Redirected(Signal):
    """The person has changed the course; ``run.brief`` is the new one.

    The only signal that may be caught: the function then goes on by itself. If it is not caught the
    function is called again, and steps that are asked for as before return their records.
    """

    def __init__(self, brief: str) -> None:
        self.brief = brief
        super().__init__(f"redirected: {brief}")


class Answer(Struct, frozen=True):
    """What a person answered, and who it was. ``payload`` is None when nobody did in time."""

    payload: Any
    by: str = ""

    @property
    def given(self) -> bool:
        """Whether somebody answered."""
        return bool(self.by)


class Run(Protocol):
    """The run, as its agent function sees it."""

    @property
    def id(self) -> str:
        """The run's id, which is the name of its journal."""

    @property
    def brief(self) -> str:
        """What the run is to do. Changes only where ``Redirected`` is raised."""

    @property
    def input(self) -> Any:
        """The plain data it was started with."""

    @property
    def restored(self) -> Any:
        """The last snapshot, or None: ``state = run.restored or initial``."""

    @property
    def workdir(self) -> Path:
        """A folder of its own that survives a crash."""

    async def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, key: str = "", **kwargs: Any
    ) -> Any:
        """Do one thing, once; after a crash or a pause its record is returned instead."""

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

    async def snapshot(self, state: Any) -> None:
        """Replay from here: what was recorded before is not needed any more."""

    def now(self) -> float:
        """Seconds since the epoch, the same at replay."""

    def random(self) -> random.Random:
        """Chance, the same at replay."""

    def uuid(self) -> UUID:
        """A new id, the same at replay."""


AgentFunction = Callable[[Run], Coroutine[Any, Any, Any]]


class Agent(Struct, frozen=True):
    """An agent function under the name by which runs are started."""

    name: str
    function: AgentFunction
    mode: str = "immediate"
    limits: Limits = Limits()
    evict_after: float | None = EVICT_AFTER_S


def agent(
    name: str = "",
    *,
    mode: str = "immediate",
    limits: Limits | None = None,
    evict: bool = True,
) -> Callable[[AgentFunction], Agent]:
    """Declare an agent: ``@agent()`` above an ``async def`` that takes a ``Run``.

    ``mode`` says when a stop is heard: ``"immediate"``, also in the middle of a step, or
    ``"boundary"``, between steps. ``evict=False`` keeps a paused function in memory.
    """
    if mode not in {"immediate", "boundary"}:
        raise InvalidRequest(f"mode {mode!r} is neither 'immediate' nor 'boundary'.")

    def declare(function: AgentFunction) -> Agent:
        called = name or function.__name__
        return Agent(called, function, mode, limits or Limits(), EVICT_AFTER_S if evict else None)

    return declare
