"""Drives runs in this process: the default engine.

It holds one lease for all its runs. A run is claimed from another process only when that process's
lease is gone, which on one host means that its death is proved. Every two seconds it sweeps the
read model for runs that want a driver or whose time has come, because whoever appended a request
may have died before telling anybody.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from signal import Signals
from typing import Final, Self

import anyio
from anyio.abc import TaskGroup

from midflight.engines.giving_back import GivingBack
from midflight.engines.leaving import leaving_on
from midflight.errors import JournalNotFound, Refused, StoreError
from midflight.executor.alarms import Alarms
from midflight.executor.drive import Driver
from midflight.executor.front import look_after
from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.kernel import events as e
from midflight.kernel.decide import claim, scopes
from midflight.kernel.front import is_spoken_to
from midflight.kernel.phases import Cause, Phase
from midflight.kernel.record import Event
from midflight.kernel.state import RunState
from midflight.kernel.thread import ThreadState
from midflight.run import Agent
from midflight.stores.base import PAGE, Draft, Lease, Row, Store, Submit, View
from midflight.stores.hub import owned_tasks
from midflight.tools.supervised import outlived

SWEEP_S: Final = 2.0
LOOK_S: Final = 30.0  # a thread in which nothing changes is looked at so often at least
DRAIN_S: Final = 10.0  # what steps in flight have to end before this process does
log: Final = logging.getLogger(__name__)


class LocalEngine:
    """Drives in tasks of this process. Made by ``LocalEngine.open``."""

    def __init__(
        self,
        store: Store,
        agents: Iterable[Agent],
        workdir: Path,
        *,
        clock: Clock,
        ids: Ids,
        sweep_s: float,
    ) -> None:
        declared = [each for agent in agents for each in (agent, *agent.helpers)]
        beside = [aside for agent in declared if (aside := agent.answering_asides()) is not None]
        self.agents = {agent.name: agent for agent in [*declared, *beside]}
        self.name = f"local-{ids()}"
        self._store = store
        self._workdir = workdir
        self._clock = clock
        self._ids = ids
        self._sweep_s = sweep_s
        self._driving: dict[str, Driver | None] = {}
        self._again: set[str] = set()  # to be driven once more when their driver has gone
        self._stumbled: set[str] = set()  # whose driver has failed: ours still, by their journal
        self._threads: dict[str, tuple[int, float, float]] = {}  # head, next look, patience
        self._closing = False
        self._alarms = Alarms()
        self._memory = GivingBack()
        self._lease: Lease
        self._tasks: TaskGroup

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
    ) -> AsyncIterator[Self]:
        """Drive runs of these agents for as long as the block runs.

        At its end runs are held with cause ``drain``, what is in flight has ``drain_s`` to end, and
        the next start goes on. ``signals`` end the block: see ``leaving_on``.
        """
        engine = cls(store, agents, Path(workdir), clock=clock, ids=ids, sweep_s=sweep_s)
        async with store.lease(engine.name) as lease, leaving_on(signals, drain_s) as block:
            engine._lease = lease
            async with owned_tasks() as tasks:
                engine._tasks = tasks
                tasks.start_soon(engine._keep_sweeping)
                try:
                    with block, outlived(lease.lock):
                        yield engine
                finally:
                    await engine._drain(drain_s)
                    engine._alarms.close()

    async def ensure(self, run: str) -> None:
        """See ``Engine.ensure``."""
        if self._closing:
            return
        if run not in self._driving:
            self._driving[run] = None
            self._tasks.start_soon(self._drive, run)
        elif (driver := self._driving[run]) is not None and driver.has_left:
            self._again.add(run)  # it was asked for a moment too late to hear of anything

    def agent(self, name: str) -> Agent | None:
        """See ``Engine.agent``."""
        return self.agents.get(name)

    async def _drain(self, drain_s: float) -> None:
        """Let every run come to rest and leave it; what is not at rest in time is left as it is."""
        self._closing = True
        with anyio.CancelScope(shield=True), anyio.move_on_after(drain_s):
            while self._driving:
                for driver in filter(None, self._driving.values()):
                    driver.drain()
                await anyio.sleep(0.005)

    async def _keep_sweeping(self) -> None:
        while True:
            await self._sweep()
            self._ask_again()
            self._memory.look()
            await anyio.sleep(self._sweep_s)

    def _ask_again(self) -> None:
        """A lease that is sure again is in no journal."""
        for driver in filter(None, self._driving.values()):
            driver.log.ask_again()

    async def _sweep(self) -> None:
        try:
            due = await self._due()
        except StoreError as error:
            log.warning("Sweep failed", extra={"action": "sweep_failed", "error": str(error)})
            return
        for run in self._stumbled - self._driving.keys():
            self._stumbled.discard(run)
            await self.ensure(run)
        for row in due:
            held = row.phase == Phase.PAUSED and not row.wants_driver  # by whom time does not move
            if row.agent in self.agents and not held:
                await self.ensure(row.journal)
        await self._look_after_threads([row for row in due if row.kind == "thread"])

    async def _look_after_threads(self, rows: list[Row]) -> None:
        """Those where something waits: a crash or a kill may have left the front free.

        Rarely so, therefore less and less often while nothing is written there.
        """
        now, kept = anyio.current_time(), self._threads
        self._threads = {}
        for row in rows:
            head, at, patience = kept.get(row.journal, (0, 0.0, self._sweep_s))
            if head == row.head and now < at:
                self._threads[row.journal] = (head, at, patience)
                continue
            patience = min(2 * patience, LOOK_S) if head == row.head else self._sweep_s
            self._threads[row.journal] = (row.head, now + patience, patience)
            try:
                runs = await look_after(self._store, self._ids, row.journal)
            except StoreError as error:
                about = {"action": "thread_failed", "thread": row.journal, "error": str(error)}
                log.warning("A thread could not be looked after", extra=about)
                continue
            for run in runs:
                await self.ensure(run)

    async def _due(self) -> list[Row]:
        """All of them: those that nobody here can drive must not hide the others."""
        limit = PAGE
        while len(due := await self._store.due(limit)) == limit:
            limit *= 2
        return due

    async def _drive(self, run: str) -> None:
        """Claim a run and drive it; the edge at which a driver's failure is recorded."""
        try:
            row = await self._store.row(run)
            if row.agent in self.agents and await self._claim(row):
                self._driving[run] = driver = self._driver(row)
                await driver.drive()
        except Refused:
            pass  # an operator's switch: the sweep finds it again after the release
        except JournalNotFound:
            pass  # purged meanwhile
        except Exception as error:  # one run's trouble is not everybody's
            self._stumbled.add(run)
            about = {"action": "driver_failed", "run": run, "error": error}
            log.error("Driver failed; the next sweep sees to it", extra=about, exc_info=error)
        finally:
            del self._driving[run]
            self._memory.let_go()
            if run in self._again:
                self._again.discard(run)
                await self.ensure(run)

    def _driver(self, row: Row) -> Driver:
        return Driver(
            self._store,
            self.agents[row.agent],
            RunState(row.journal),
            self._lease,
            workdir=self._workdir / row.journal,
            clock=self._clock,
            ids=self._ids,
            ensure=self.ensure,
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

        threads = (row.thread,) if self.agents[row.agent].converses else ()
        done = await self._store.submit(
            Submit(
                self._ids(),
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
