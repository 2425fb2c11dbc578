"""The drivers of one process: each claims its run under the lease that all of them share.

Whoever is told to take a run up tries to claim it. If somebody else has it, and that one's lease
lives, nothing happens: so it does no harm to tell two processes, or one process twice.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from midflight.engines.giving_back import GivingBack
from midflight.errors import JournalNotFound, Refused
from midflight.executor.alarms import Alarms
from midflight.executor.drive import Driver, Ensure
from midflight.inputs import Clock, Ids
from midflight.kernel import events as e
from midflight.kernel.decide import scopes
from midflight.kernel.facts import claim
from midflight.kernel.front import is_spoken_to
from midflight.kernel.phases import Cause, Phase
from midflight.kernel.record import Event
from midflight.kernel.state import RunState
from midflight.kernel.thread import ThreadState
from midflight.run import Agent
from midflight.stores.base import Draft, Lease, Row, Store, Submit, View
from midflight.tasks import owned_tasks
from midflight.tools.supervised import outlived

DRAIN_S: Final = 10.0  # what steps in flight have to end before this process does
CUT_S: Final = 1.0  # what those that did not have to be ended and written down in
LEASE_S: Final = 1.5  # of a worker: its runs are free so long after its death, or after a stall
log: Final = logging.getLogger(__name__)


def known_agents(agents: Iterable[Agent]) -> dict[str, Agent]:
    """Those that were named, who helps them, and who answers on the side."""
    declared = [each for agent in agents for each in (agent, *agent.helpers)]
    beside = [aside for agent in declared if (aside := agent.answering_asides()) is not None]
    return {agent.name: agent for agent in [*declared, *beside]}


class Post(Struct, frozen=True):
    """Where drivers work and what with."""

    store: Store
    agents: Mapping[str, Agent]
    workdir: Path
    clock: Clock
    ids: Ids


class Crew:
    """Drives runs in tasks of this process. Made by ``Crew.open``."""

    def __init__(self, name: str, post: Post, ensure: Ensure) -> None:
        self.name = name
        self._post = post
        self._ensure = ensure  # for runs that a run begins: they may be driven elsewhere
        self._driving: dict[str, Driver | None] = {}
        self._left: dict[str, anyio.Event] = {}
        self._again: set[str] = set()  # to be driven once more when their driver has gone
        self._stumbled: set[str] = set()  # whose driver has failed: ours still, by their journal
        self._missed: set[str] = set()  # agents that we were asked for and do not have
        self._alarms = Alarms()
        self._memory = GivingBack()
        self._lease: Lease
        self._tasks: TaskGroup
        self.closing = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, name: str, post: Post, ensure: Ensure, drain_s: float, block: anyio.CancelScope
    ) -> AsyncIterator[Self]:
        """Hold a lease and drive while the block runs; ``block`` can be cancelled to end it."""
        crew = cls(name, post, ensure)
        async with post.store.lease(name) as lease:
            crew._lease = lease
            async with owned_tasks() as tasks:
                crew._tasks = tasks
                try:
                    with block, outlived(lease.lock):
                        yield crew
                finally:
                    await crew._drain(drain_s)
                    crew._alarms.close()

    @property
    def sure(self) -> bool:
        """Whether our lease is held: without it nothing is begun here, and others may take over."""
        return self._lease.held

    @property
    def size(self) -> int:
        """How many runs are being driven here, or looked at."""
        return len(self._driving)

    def take_up(self, run: str) -> None:
        """Drive this run, unless it is driven already or has no need of it."""
        if self.closing:
            return
        if run not in self._driving:
            self._driving[run] = None
            self._left[run] = anyio.Event()
            self._tasks.start_soon(self._drive, run)
        elif (driver := self._driving[run]) is not None and (driver.has_left or driver.lost):
            self._again.add(run)  # it was asked for a moment too late to hear of anything

    async def left(self, run: str) -> None:
        """Wait until this run is not driven here."""
        while run in self._left:
            await self._left[run].wait()

    def tend(self) -> None:
        """Every now and then: what is in no journal, and so moves nobody by itself."""
        for driver in filter(None, self._driving.values()):
            driver.log.ask_again()  # a lease may be sure again
        for run in self._stumbled - self._driving.keys():
            self._stumbled.discard(run)
            self.take_up(run)
        self._memory.look()

    async def _drain(self, drain_s: float) -> None:
        """Let every run come to rest and leave it.

        What is not at rest in time is cut short, and that is put on record: whoever goes on need
        not think that we are lost and may still be at it. What cannot be ended is left as it is.
        """
        self.closing = True
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(drain_s):
                await self._come_to_rest()
            for driver in filter(None, self._driving.values()):
                driver.cut_short()
            with anyio.move_on_after(min(drain_s, CUT_S)):
                await self._come_to_rest()

    async def _come_to_rest(self) -> None:
        while self._driving:
            for driver in filter(None, self._driving.values()):
                driver.drain()
            await anyio.sleep(0.005)

    async def _drive(self, run: str) -> None:
        """Claim a run and drive it; the edge at which a driver's failure is recorded."""
        try:
            row = await self._post.store.row(run)
            if self._knows(row) and await self._claim(row):
                self._driving[run] = driver = self._driver(row)
                await driver.drive()
        except Refused:
            pass  # an operator's switch: the sweep finds it again after the release
        except Exception as error:  # one run's trouble is not everybody's
            purged = isinstance(error, JournalNotFound) and error.journal == run
            if not purged:
                self._stumbled.add(run)
                about = {"action": "driver_failed", "run": run, "error": error}
                log.error("Driver failed; the next sweep sees to it", extra=about, exc_info=error)
        finally:
            del self._driving[run]
            self._left.pop(run).set()
            self._memory.let_go()
            if run in self._again:
                self._again.discard(run)
                self.take_up(run)

    def _knows(self, row: Row) -> bool:
        """Whether its agent is known here. If not, somebody has to be told, and once is enough."""
        known = row.agent in self._post.agents
        if not (known or row.agent in self._missed):
            self._missed.add(row.agent)
            about = {"action": "agent_unknown", "run": row.journal, "agent": row.agent}
            words = (
                "Agent %s is not among those that were named here: none of its runs is driven here"
            )
            log.warning(words, row.agent, extra=about)
        return known

    def _driver(self, row: Row) -> Driver:
        post = self._post
        return Driver(
            post.store,
            post.agents[row.agent],
            RunState(row.journal),
            self._lease,
            workdir=post.workdir / row.journal,
            clock=post.clock,
            ids=post.ids,
            ensure=self._ensure,
            alarms=self._alarms,
        )

    async def _claim(self, row: Row) -> bool:
        def claimed(view: View) -> Draft:
            state = view.states[row.journal]
            assert isinstance(state, RunState)
            due = state.due_at is not None and state.due_at <= view.now
            due &= state.phase is not Phase.PAUSED  # time alone moves no run that is held
            talk = view.states.get(row.thread)
            due |= isinstance(talk, ThreadState) and is_spoken_to(talk, state)
            if not (state.wants_driver or due or Cause.DRAIN in state.holds):
                return Draft()
            gone = state.driver in view.gone
            taken = claim(state, self.name, lease_gone=gone, switches=view.switches)
            return Draft({row.journal: (*taken, *_undrained(state, bool(taken)))})

        threads = (row.thread,) if self._post.agents[row.agent].converses else ()
        done = await self._post.store.submit(
            Submit(
                self._post.ids(),
                (row.journal, *threads),
                claimed,
                scopes=scopes(row.agent, row.thread),
                leases=(row.driver,) if row.driver else (),
                new=threads,
            )
        )
        return bool(done.records)


def _undrained(state: RunState, taken: bool) -> tuple[Event, ...]:
    """A hold for a drain is lifted by the next start."""
    drained = taken and Cause.DRAIN in state.holds
    return (e.HoldLifted(cause=Cause.DRAIN),) if drained else ()
