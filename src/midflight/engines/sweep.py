"""Looks for runs that want a driver, or whose time has come: every two seconds, and when told.

A process may have died after it appended a request and before it told anybody, an engine may have
forgotten what it was told, and time tells nobody. So every process that drives or serves looks
itself. It also says so when a run goes on wanting a driver: nobody else would notice, whatever the
reason. At the end are the questions that others ask about drivers: they look at leases, not at
journals.

A run whose driver fails again and again must not be tried for ever: every try may repeat a read, or
a call of a model that nobody asked for. After a few tries such a run fails, with a sentence that
says why. A run that we cannot end is left alone until somebody changes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from typing import Final

import anyio
from msgspec import Struct, structs

from midflight.errors import JournalNotFound, StoreError, StoreReplaced
from midflight.inputs import Ids
from midflight.journal import events as e
from midflight.journal.facts import claim
from midflight.journal.phases import Phase
from midflight.journal.record import Event
from midflight.journal.requests import scopes
from midflight.journal.state import CLAIM_S, RunState, needs_driver, undriven_since
from midflight.runtime.foreign import words
from midflight.runtime.host import Ensure
from midflight.runtime.journal_client import TROUBLE
from midflight.runtime.threads.succession import look_after
from midflight.stores.hints import ANY, Movements
from midflight.stores.protocol import PAGE, RUN_PREFIX, Row, Store

SWEEP_S: Final = 2.0
LOOK_S: Final = 30.0  # a thread in which nothing changes is looked at so often at least
WAITS_S: Final = 30.0  # for a driver; beyond that somebody should know
HEAD_START_S: Final = 0.1  # for the process that has begun a run, to drive it
TOLD_MAX: Final = 100  # runs that are looked at one by one
SEARCH_FAILED: Final = "The search for runs that need a driver failed, and is made again soon: %s"
log: Final = logging.getLogger(__name__)


def _tell_of_failure(error: StoreError) -> None:
    if not isinstance(error, StoreReplaced):  # the store has told of that, and drivers end
        about = {"action": "sweep_failed", "error": str(error)}
        log.warning(SEARCH_FAILED, error, extra=about)


class Sweep:
    """Looks for the runs of some agents in the read model of a store."""

    def __init__(
        self,
        store: Store,
        agents: Collection[str],
        ensure: Ensure,
        *,
        ids: Ids,
        every_s: float = SWEEP_S,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._agents = agents
        self._ensure = ensure
        self._ids = ids
        self._every_s = every_s
        self._then = then
        self._threads: dict[str, tuple[int, float, float]] = {}  # head, next look, patience
        self._waiting: dict[str, tuple[int, float]] = {}  # head, since when
        self._told_of: set[str] = set()  # agents whose runs nobody drives

    async def keep_on(self) -> None:
        """Sweep until cancelled; ``then`` is called after each. It outlives a sweep that fails.

        The engine and its runs go on, and the next sweep looks again.
        """
        async with self._store.wanting() as wanting:
            while True:
                try:
                    await self._sweep()
                    self._then()
                    with anyio.move_on_after(self._every_s):
                        await self._look_when_told(wanting)
                # layer sweep-fails-does-not-end-engine
                except Exception as error:  # the edge: a slip in a sweep must not end the engine
                    about = {"action": "sweep_failed", "error": str(error)}
                    log.error(SEARCH_FAILED, error, extra=about, exc_info=error)
                    await anyio.sleep(self._every_s)

    async def _look_when_told(self, wanting: Movements) -> None:
        """Look soon at runs that another process has begun, or made want a driver.

        Not at once: the other process may mean to drive it itself, and comes first. Returns where a
        sweep is quicker.
        """
        while True:
            await wanting.wait()
            await anyio.sleep(HEAD_START_S)
            moved = wanting.take()
            if ANY in moved or len(moved) > TOLD_MAX:
                return
            try:
                for journal in moved:
                    if journal.startswith(RUN_PREFIX):
                        await self._look_at(journal)
            except StoreError as error:
                _tell_of_failure(error)

    async def _look_at(self, run: str) -> None:
        try:
            row = await self._store.row(run)
        except JournalNotFound:
            return  # purged meanwhile
        if row.agent in self._agents and row.wants_driver and await self._is_alone(row):
            switches = {switch.scope for switch in await self._store.switches()}
            if _can_move(row, switches):
                await self._ensure(run)

    async def _sweep(self) -> None:
        try:
            due = await self._due()
            stopped = {switch.scope for switch in await self._store.switches()} if due else set()
        except StoreError as error:
            _tell_of_failure(error)
            return
        movable = [row for row in due if _can_move(row, stopped)]
        for row in movable:
            if row.agent in self._agents:
                await self._ensure(row.journal)  # layer nobody-told-of-found
        await self._tell_of_the_waiting([row for row in movable if row.wants_driver])
        # layer sweep-looks-after-threads
        await self._look_after_threads([row for row in due if row.kind == "thread"])

    async def _tell_of_the_waiting(self, rows: list[Row]) -> None:
        """Log, once for an agent, that nobody drives its runs: all of them wait for one cause."""
        now, before = anyio.current_time(), self._waiting
        self._waiting = {}
        alone = set()
        for row in rows:
            head, since = before.get(row.journal, (row.head, now))
            since = since if head == row.head else now
            self._waiting[row.journal] = (row.head, since)
            if now - since < WAITS_S or row.agent in alone or not await self._is_alone(row):
                continue
            alone.add(row.agent)  # layer run-for-nobody-comes-told
            if row.agent not in self._told_of:
                known = row.agent in self._agents
                about = {"action": "run_waits", "run": row.journal, "agent": row.agent}
                log.warning(_nobody_comes(known=known), row.journal, row.agent, extra=about)
        self._told_of = alone

    async def _is_alone(self, row: Row) -> bool:
        try:
            return not row.driver or await self._store.lease_gone(row.driver)
        except StoreError:
            return False  # the next sweep asks again

    async def _look_after_threads(self, rows: list[Row]) -> None:
        """Look at threads where something waits: a crash or a kill may have left the front free.

        That is rarely so; therefore a thread is looked at less and less often while nothing is
        written there.
        """
        now, kept = anyio.current_time(), self._threads
        self._threads = {}
        for row in rows:
            head, at, patience = kept.get(row.journal, (0, 0.0, self._every_s))
            if head == row.head and now < at:
                self._threads[row.journal] = (head, at, patience)
                continue
            patience = min(2 * patience, LOOK_S) if head == row.head else self._every_s
            self._threads[row.journal] = (row.head, now + patience, patience)
            try:
                runs = await look_after(self._store.submit, self._ids, row.journal)
            except StoreError as error:
                about = {"action": "thread_failed", "thread": row.journal, "error": str(error)}
                words = "What waits in thread %s could not be begun, and is tried again soon: %s"
                log.warning(words, row.journal, error, extra=about)
                continue
            for run in runs:
                await self._ensure(run)

    async def _due(self) -> list[Row]:
        """All of them: those that nobody here can drive must not hide the others."""
        limit = PAGE
        while len(due := await self._store.due(limit)) == limit:
            limit *= 2
        return due


def _can_move(row: Row, stopped: Set[str]) -> bool:
    """Return whether a driver would find anything to do, and be allowed to do it."""
    if row.kind != "run":
        return False
    held = row.phase == Phase.PAUSED and not row.wants_driver  # which time alone does not move
    # layer operator-has-stopped
    return not held and stopped.isdisjoint(scopes(row.agent, row.thread))


def _nobody_comes(*, known: bool) -> str:
    if known:
        return (
            "Run %s of agent %s has wanted a driver for half a minute, and nobody drives it: "
            "is there a worker that has this agent, and is it reached?"
        )
    return (
        "Run %s has wanted a driver for half a minute. Its agent %s is not among those that were "
        "named here: start a server or worker that has it, or cancel the run"
    )


async def with_drivers(store: Store, rows: Iterable[Row]) -> list[Row]:
    """Mark the rows of runs that have begun, need a driver and have none that lives."""
    found, gone = list(rows), {"": True}
    now = await store.now() if any(map(_needs_driver, found)) else 0.0
    for number, row in enumerate(found):
        undriven = _needs_driver(row) and (bool(row.driver) or now - row.updated_at >= CLAIM_S)
        if undriven and row.driver not in gone:
            gone[row.driver] = await store.lease_gone(row.driver)
        undriven = undriven and gone[row.driver]
        if undriven != row.undriven:
            found[number] = structs.replace(row, undriven=undriven)
    return found


async def is_alone(store: Store, state: RunState) -> bool:
    """Return whether a run needs a driver and has none that lives."""
    if not needs_driver(state):
        return False
    gone = await store.lease_gone(state.driver) if state.driver else True
    return undriven_since(state, gone=gone, now=await store.now()) is not None


def _needs_driver(row: Row) -> bool:
    """Return of a row what ``state.needs_driver`` returns of a state."""
    return row.wants_driver and row.phase != Phase.QUEUED


TRIES: Final = 5
FORGET_S: Final = 600.0  # failures that lie further apart have nothing to do with each other
ENDABLE: Final = {Phase.QUEUED, Phase.RUNNING, Phase.PAUSING, Phase.WAITING, Phase.CANCELLING}


STUCK: Final = (
    f"The cancel failed {TRIES} times and is not tried again by itself: not everything is undone. "
    "Cancel it with now=True, which undoes nothing more, or start the process again. The error:"
)


class Failures(Struct):
    """The failures of a run's driver in this process. ``head`` is set once there were enough."""

    times: int = 0
    at: float = 0.0
    head: int | None = None

    def count(self, now: float) -> bool:
        """Count one more, and return whether that is enough."""
        self.times = self.times + 1 if now - self.at < FORGET_S else 1
        self.at = now
        return self.times >= TRIES  # layer driver-fails-again-and-again


def causes(error: BaseException) -> Iterator[BaseException]:
    """Give the errors of which a group consists."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from causes(inner)
    else:
        yield error


def is_trouble(error: BaseException) -> bool:
    """Return whether only the store is to blame: it may be mended, and then the run goes on."""
    return all(isinstance(cause, TROUBLE) for cause in causes(error))


def given_up(state: RunState, driver: str, error: BaseException) -> tuple[Event, ...]:
    """Return what ends a run that its own driver has given up; empty where that is not possible.

    Claiming it again settles what was in flight: nobody knows how that ended. A run that is being
    cancelled is not ended: its effects are not undone yet, and its background runs may still work.
    It says what has failed, and waits until somebody stops it for good.
    """
    if state.phase not in ENDABLE or state.driver not in {"", driver} or state.opaque:
        return ()
    epoch, told = state.epoch + 1, next(causes(error), error)
    claimed = claim(state, driver, lease_gone=False)
    released = e.DriverReleased(epoch=epoch, why="given up")
    if state.phase is Phase.CANCELLING:
        words_now = f"{STUCK} {words(told)}"
        return (*claimed, e.NoticeGiven(epoch=epoch, kind="given_up", text=words_now), released)
    sentence = f"its driver failed {TRIES} times, and it was given up: {words(told)}"
    return (
        *claimed,
        *([e.WaitEnded(epoch=epoch)] if state.phase is Phase.WAITING else []),
        *_delivered(state, epoch),
        e.RunFinished(epoch=epoch, outcome="failed", error=sentence),
        released,
    )


def _delivered(state: RunState, epoch: int) -> Iterator[Event]:
    """A run ends only when what was asked of it has been told."""
    if "redirect" in state.pending.values() and state.redirect is not None:
        brief, profile = state.redirect
        yield e.RedirectDelivered(
            epoch=epoch, upto=state.head, brief=brief, profile=profile, diff=""
        )
