"""The drivers of one process: each claims its run under the lease that all of them share."""

from __future__ import annotations

import ctypes
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from midflight.agents import Agent
from midflight.audit import nobody
from midflight.engines.sweep import TRIES, Failures, causes, given_up, is_trouble
from midflight.engines.watchdog import BLOCKED_S, Blocked, current_run, watching
from midflight.errors import JournalNotFound, MidflightError, Refused, StoreReplaced
from midflight.inputs import Clock, Ids
from midflight.journal import events as e
from midflight.journal.facts import claim
from midflight.journal.phases import Cause, Phase
from midflight.journal.record import Event
from midflight.journal.requests import scopes
from midflight.journal.state import RunState
from midflight.journal.threads.front import is_spoken_to
from midflight.journal.threads.thread import ThreadState
from midflight.runtime.driver import Driver
from midflight.runtime.foreign import words
from midflight.runtime.host import Ensure
from midflight.runtime.journal_client import JournalClient, Waits
from midflight.runtime.run_session import Session
from midflight.runtime.steps.bounds import Alarms
from midflight.runtime.steps.tool_call import Call
from midflight.stores.clock_steps import is_due
from midflight.stores.protocol import Draft, Lease, Row, Store, Submit, View
from midflight.tasks import owned_tasks
from midflight.tools.processes.supervised import outlived
from midflight.tools.secret import clean_logger

MANY: Final = 1000  # runs let go, at about 30 kB each


class GivingBack:
    """Counts runs that were let go, and gives their memory back once there were many."""

    def __init__(self) -> None:
        self._trim = _trim()
        self._let_go = 0

    def let_go(self) -> None:
        """A run has left this process."""
        self._let_go += 1

    def look(self) -> None:
        """Give back what is worth it. Called now and then."""
        if self._let_go >= MANY:
            self._let_go = 0
            self._trim()


def _trim() -> Callable[[], None]:
    """Return glibc's ``malloc_trim``, or elsewhere a function that does nothing."""
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return lambda: None
    return lambda: malloc_trim(0)


DRAIN_S: Final = 10.0  # seconds for steps in flight to end before this process does
CUT_S: Final = 1.0  # seconds in which the others are ended and recorded
LEASE_S: Final = 1.5  # of a worker: its runs are free so long after its death, or after a stall
log: Final = clean_logger(__name__)


def known_agents(agents: Iterable[Agent]) -> dict[str, Agent]:
    """Return agents by name: those given, their helpers, and those that answer side questions."""
    declared = [each for agent in agents for each in (agent, *agent.helpers)]
    beside = [aside for agent in declared if (aside := agent.answering_asides()) is not None]
    return {agent.name: agent for agent in [*declared, *beside]}


class Post(Struct, frozen=True):
    """The place where drivers work, with everything that they share."""

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
        self._left: dict[str, anyio.Event] = {}  # only of runs for whose end somebody waits
        self._again: set[str] = set()  # to be driven once more when their driver has gone
        self._stumbled: set[str] = set()  # runs whose driver has failed; their journals name us
        self._failures: dict[str, Failures] = {}
        self._missed: set[str] = set()  # agents that we were asked for and do not have
        self._alarms = Alarms()
        self._memory = GivingBack()
        self._waits = Waits()
        self._lease: Lease
        self._tasks: TaskGroup
        self.closing = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        name: str,
        post: Post,
        ensure: Ensure,
        drain_s: float,
        block: anyio.CancelScope,
        *,
        blocked_s: float = BLOCKED_S,
    ) -> AsyncIterator[Self]:
        """Hold a lease and drive while the block runs; ``block`` can be cancelled to end it.

        An event loop that has not turned for ``blocked_s`` seconds is noticed.
        """
        crew = cls(name, post, ensure)
        async with post.store.lease(name) as lease:
            crew._lease = lease
            async with owned_tasks() as tasks:
                crew._tasks = tasks
                with watching(crew._step_named, crew._tell_of_block, blocked_s):
                    try:
                        with block, outlived(lease.lock):  # layer driver-counts-as-living
                            yield crew
                    finally:
                        await crew._drain(drain_s)
                        crew._alarms.close()

    @property
    def sure(self) -> bool:
        """True while our lease is held; else nothing begins here, and others may take over."""
        return self._lease.held

    @property
    def size(self) -> int:
        """The number of runs that are being driven here, or looked at."""
        return len(self._driving)

    def take_up(self, run: str) -> None:
        """Drive this run, unless it is driven already or has no need of it."""
        if self.closing:
            return
        if run not in self._driving:  # layer run-driven-not-driven-once-more
            self._driving[run] = None
            with nobody():  # the run's later work is not that of the caller who asks now
                self._tasks.start_soon(self._drive, run)
        elif (driver := self._driving[run]) is not None and (driver.has_left or driver.lost):
            self._again.add(run)  # it was asked for a moment too late to hear of anything

    async def left(self, run: str) -> None:
        """Wait until this run is not driven here."""
        while run in self._driving:
            await self._left.setdefault(run, anyio.Event()).wait()

    def tend(self) -> None:
        """Look now and then for changes that are in no journal, and so wake no driver."""
        for driver in filter(None, self._driving.values()):
            driver.look_again()  # a lease may be sure again
        for run in self._stumbled - self._driving.keys():
            self._stumbled.discard(run)
            self.take_up(run)
        self._memory.look()

    async def _drain(self, drain_s: float) -> None:
        """Let every run come to rest and leave it.

        A run that is not at rest in time is cut short, and that is put on record: the next driver
        need not suspect that we are lost and still at work. A step that cannot be ended is left
        behind, and the record says that it may still act.
        """
        self.closing = True
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(drain_s):
                await self._come_to_rest()
            for driver in filter(None, self._driving.values()):
                driver.cut_short()  # layer leaving-worker-cuts-short
            with anyio.move_on_after(min(drain_s, CUT_S)):
                await self._come_to_rest()
            for driver in filter(None, self._driving.values()):
                driver.leave_behind()
            with anyio.move_on_after(min(drain_s, CUT_S / 2)):
                await self._come_to_rest()

    async def _come_to_rest(self) -> None:
        while self._driving:
            for driver in filter(None, self._driving.values()):
                driver.drain()
            await anyio.sleep(0.005)

    def _step_named(self, run: str, call: Call) -> str:
        """Return the name of the step that makes this call. It is called in another thread."""
        driver = self._driving.get(run)
        return "" if driver is None else driver.step_making(call)

    def _tell_of_block(self, blocked: Blocked, seconds: float) -> None:
        """Tell the run, and with it everybody who watches it, what has blocked this process."""
        driver = self._driving.get(blocked.run)
        if driver is not None:
            kept = f"{blocked.what} blocked everything in this process for about {seconds:.0f} s"
            words = f"{kept[0].upper()}{kept[1:]}. {blocked.advice}"
            driver.give_notice(f"blocked:{blocked.tool}", words)

    async def _drive(self, run: str) -> None:
        """Claim a run and drive it; the edge at which a driver's failure is recorded."""
        current_run.set(run)
        journals = JournalClient(self._post.store, run, self._waits)
        try:
            row = await journals.row(run)
            if not self._is_given_up(row) and self._knows(row) and await self._claim(journals, row):
                self._driving[run] = driver = self._driver(journals, row)
                await driver.drive()
                self._failures.pop(run, None)
        except Refused:
            pass  # an operator's switch: the sweep finds it again after the release
        # layer driver-fails-harms-no-other
        except (Exception, BaseExceptionGroup) as error:  # one run's trouble is not everybody's
            if any(isinstance(cause, KeyboardInterrupt) for cause in causes(error)):
                raise
            purged = isinstance(error, JournalNotFound) and error.journal == run
            if not purged:
                await self._failed(journals, run, error)
        finally:
            del self._driving[run]
            if (left := self._left.pop(run, None)) is not None:
                left.set()
            self._memory.let_go()
            if run in self._again:
                self._again.discard(run)
                self.take_up(run)

    async def _failed(self, journals: JournalClient, run: str, error: BaseException) -> None:
        """Try again a few times; then end the run, in words."""
        about = {"action": "driver_failed", "run": run, "error": words(error)}
        if _has_no_store(error):  # the store itself ends the block in which it is open
            log.error("Run %s is not driven here any more: its store is gone", run, extra=about)
            return
        failures = self._failures.setdefault(run, Failures())
        self._stumbled.add(run)  # layer driver-fails-gives-run-back
        if is_trouble(error) or not failures.count(anyio.current_time()):
            told = "The driver of run %s failed; the run is taken up again in a few seconds"
            log.error(told, run, extra=about, exc_info=error)
            return
        told = "The driver of run %s failed %d times; this process drives the run no longer"
        log.error(told, run, TRIES, extra=about, exc_info=error)

        def decided(view: View) -> Draft:
            state = view.states[run]
            assert isinstance(state, RunState)
            return Draft({run: given_up(state, self.name, error)})

        try:
            await journals.submit(Submit(self._post.ids(), (run,), decided))
            failures.head = (await journals.row(run)).head
        except MidflightError as refused:
            about = {"action": "not_given_up", "run": run, "error": words(refused)}
            told = "It could not be recorded that run %s is driven here no longer: %s"
            log.error(told, run, words(refused), extra=about)

    def _is_given_up(self, row: Row) -> bool:
        """Return whether nobody has changed the run since it was given up here."""
        failures = self._failures.get(row.journal)
        return failures is not None and failures.head == row.head

    def _knows(self, row: Row) -> bool:
        """Return whether the run's agent is known here; if it is not, log that once per agent."""
        known = row.agent in self._post.agents
        if not (known or row.agent in self._missed):
            self._missed.add(row.agent)
            about = {"action": "agent_unknown", "run": row.journal, "agent": row.agent}
            words = (
                "Agent %s is not among those that were named here: none of its runs is driven here"
            )
            log.warning(words, row.agent, extra=about)
        return known

    def _driver(self, journals: JournalClient, row: Row) -> Driver:
        post = self._post
        session = Session(
            journals,
            post.agents[row.agent],
            RunState(row.journal),
            self._lease,
            workdir=post.workdir / row.journal,
            clock=post.clock,
            ids=post.ids,
            ensure=self._ensure,
            afterwards=self._afterwards,
            alarms=self._alarms,
        )
        return Driver(session)

    def _afterwards(self, work: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Put on record what became known of a run that is perhaps not driven here any more."""
        if self.closing:
            return

        def start() -> None:
            self._tasks.start_soon(self._tell_late, work, args)

        self._alarms.home.run(start)

    async def _tell_late(self, work: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
        try:
            await work(*args)
        except MidflightError as error:  # it was purged, or the store does not take it
            about = {"action": "late_outcome_lost", "error": error}
            told = "A tool that was left behind has ended, and how it ended was not recorded: %s"
            log.warning(told, error, extra=about)

    async def _claim(self, journals: JournalClient, row: Row) -> bool:
        steps = (await journals.clock_of(row.journal)).steps

        def claimed(view: View) -> Draft:
            state = view.states[row.journal]
            assert isinstance(state, RunState)
            due = is_due(steps, state.due_at, state.head, view.now)
            due &= state.phase is not Phase.PAUSED  # time alone moves no run that is held
            talk = view.states.get(row.thread)
            due |= isinstance(talk, ThreadState) and is_spoken_to(talk, state)
            # layer needs-no-driver-not-claimed
            if not (state.wants_driver or due or Cause.DRAIN in state.holds):
                return Draft()
            gone = state.driver in view.gone
            taken = claim(state, self.name, lease_gone=gone, switches=view.switches)
            return Draft({row.journal: (*taken, *_undrained(state, bool(taken)))})

        threads = (row.thread,) if self._post.agents[row.agent].converses else ()
        request = Submit(
            self._post.ids(),
            (row.journal, *threads),
            claimed,
            scopes=scopes(row.agent, row.thread),
            leases=(row.driver,) if row.driver else (),
            new=threads,
        )
        done = await journals.submit(request, unless=lambda: self.closing)
        return bool(done.records)


def _has_no_store(error: BaseException) -> bool:
    return any(isinstance(cause, StoreReplaced) for cause in causes(error))


def _undrained(state: RunState, taken: bool) -> tuple[Event, ...]:
    """A hold for a drain is lifted by the next start."""
    drained = taken and Cause.DRAIN in state.holds
    return (e.HoldLifted(cause=Cause.DRAIN),) if drained else ()
