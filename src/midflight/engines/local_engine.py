"""The contract of an engine, and the default engine, which drives runs in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from signal import Signals
from typing import Protocol, Self

from midflight.agents import Agent
from midflight.engines.driver_pool import DRAIN_S, Crew, Post, known_agents
from midflight.engines.shutdown import leaving_on
from midflight.engines.sweep import SWEEP_S, Sweep
from midflight.engines.watchdog import BLOCKED_S
from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.stores.protocol import Store
from midflight.tasks import owned_tasks


class Engine(Protocol):
    """Finds a driver for a run, and another one if that driver dies."""

    async def ensure(self, run: str) -> None:
        """Have a run driven to which something was appended, and which may have no driver.

        This is idempotent, and quick.
        """

    def agent(self, name: str) -> Agent | None:
        """Return the agent of this name, if it is known here, so that it can be started by name."""


class NoEngine:
    """The engine of commands, which record requests and never drive a run."""

    async def ensure(self, run: str) -> None:
        """Do nothing: a process that drives runs finds this one by its sweep."""

    def agent(self, name: str) -> Agent | None:
        """Return None: no agent is known here."""
        return None


class LocalEngine:
    """Drives in tasks of this process. Made by ``LocalEngine.open``."""

    def __init__(self, post: Post) -> None:
        self.agents = post.agents
        self.name = f"local-{post.ids()}"
        self._crew: Crew

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: Store,
        agents: Iterable[Agent],
        *,
        workdir: str | Path = ".midflight",
        clock: Clock = wall_clock,
        ids: Ids = new_id,
        sweep_s: float = SWEEP_S,
        drain_s: float = DRAIN_S,
        signals: Collection[Signals] = (),
        blocked_s: float = BLOCKED_S,
    ) -> AsyncIterator[Self]:
        """Drive runs of these agents for as long as the block runs.

        At its end runs are held with cause ``drain``, what is in flight has ``drain_s`` to end, and
        the next start goes on. ``signals`` end the block: see ``leaving_on``. A tool that keeps the
        event loop for ``blocked_s`` seconds is named in the log and to its run.
        """
        post = Post(store, known_agents(agents), Path(workdir), clock, ids)
        engine = cls(post)
        async with (
            leaving_on(signals, drain_s) as block,
            Crew.open(
                engine.name, post, engine.ensure, drain_s, block, blocked_s=blocked_s
            ) as crew,
        ):
            engine._crew = crew
            sweep = Sweep(
                store, post.agents, engine.ensure, ids=ids, every_s=sweep_s, then=crew.tend
            )
            async with owned_tasks(sweep.keep_on):
                yield engine

    async def ensure(self, run: str) -> None:
        """See ``Engine.ensure``."""
        self._crew.take_up(run)

    def agent(self, name: str) -> Agent | None:
        """See ``Engine.agent``."""
        return self.agents.get(name)
