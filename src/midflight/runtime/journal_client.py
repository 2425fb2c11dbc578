"""The journal client: the only way from a driver to the store.

A driver appends, submits and reads through it. While the store is busy, full, read-only or out of
reach, the client waits and repeats the call under the same append id: nothing is lost, and nothing
is written twice. All other errors of the store are raised at once: waiting would not mend them.

The wait has no bound of its own. It ends with the task that waits, and therefore with the driver.

The driver also knows the clock of the store, as far as that can be: its own may be wrong.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import anyio

from midflight.errors import StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from midflight.inputs import steady
from midflight.journal.record import Event, Fact, Recorded
from midflight.journal.stored_fold import FoldRows, StoredFold
from midflight.journal.transition_table import State
from midflight.runtime.replay.step_records import IN_JOURNAL, Moment
from midflight.stores.hints import Voices
from midflight.stores.protocol import (
    PAGE,
    Append,
    Committed,
    Hear,
    JournalClock,
    Query,
    Row,
    Store,
    Submit,
    Watch,
)

TROUBLE: Final = (StoreBusy, StoreFull, StoreReadOnly, StoreUnavailable)  # layer what-done
"""Errors that somebody may mend while a driver waits. Read-only: after a switch-over a driver may
reach a server that is not the primary yet."""

AGAIN_S: Final = 0.2  # between two tries; each try already has the store's own patience
SAY_S: Final = 10.0  # between two warnings that runs wait for the store
KEPT_MAX: Final = 64  # facts of one run, such as outcomes of steps that it does at the same time
NOTHING: Final = Committed(())
log: Final = logging.getLogger(__name__)

T = TypeVar("T")
Renew = Callable[[Append, bool], Append | None]
"""Called before an append is repeated, with the append and whether it may have been written.

It returns the append to send now, under the same id, or None to give up.
"""


def never() -> bool:
    """Give up under no condition."""
    return False


def unchanged(decision: Append, _unsure: bool) -> Append:
    """Repeat an append as it is."""
    return decision


class Waits:
    """The runs of one process that wait for the store. One warning every 10 s tells of them all."""

    __slots__ = ("_runs", "_said_at")

    def __init__(self) -> None:
        self._runs: set[str] = set()  # that had to wait since the last warning
        self._said_at = float("-inf")

    def tell(self, run: str, error: StoreError) -> None:
        """Say that runs wait, and why, unless that was said a moment ago."""
        self._runs.add(run)
        now = anyio.current_time()
        if now - self._said_at < SAY_S:
            return
        others = len(self._runs) - 1
        who = f"Run {run} and {others} more wait" if others else f"Run {run} waits"
        about = {"action": "store_awaited", "run": run, "runs": others + 1, "error": str(error)}
        words = "%s for the store and will go on when it answers. The store says: %s"
        log.warning(words, who, error, extra=about)
        self._said_at = now
        self._runs.clear()


class JournalClient:
    """The store as the driver of one run sees it."""

    __slots__ = ("_run", "_store", "_waits")

    def __init__(self, store: Store, run: str, waits: Waits | None = None) -> None:
        self._store = store
        self._run = run
        self._waits = waits or Waits()

    # ── writing ──────────────────────────────────────────────────────────────────────────────

    async def append(self, decision: Append, renew: Renew = unchanged) -> Committed:
        """See ``Store.append``. Returns ``NOTHING`` if ``renew`` gives up."""
        unsure = False
        while True:
            try:
                return await self._store.append(decision)
            except TROUBLE as error:
                unsure |= error.unsure  # layer append-repeated
                await self.wait(error)
            renewed = renew(decision, unsure)
            if renewed is None:
                return NOTHING
            decision = renewed

    async def submit(self, request: Submit, unless: Callable[[], bool] = never) -> Committed:
        """See ``Store.submit``. Returns ``NOTHING`` if ``unless`` is true before a repetition.

        Whether an abandoned request was written is then not known: the journal shows it.
        """
        return await self._patiently(lambda: self._store.submit(request), unless, NOTHING)

    # ── reading ──────────────────────────────────────────────────────────────────────────────

    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        """See ``Store.read``."""
        return await self._patiently(lambda: self._store.read(journal, after, limit))

    async def fold(self) -> StoredFold | None:
        """See ``Store.fold``."""
        return await self._patiently(lambda: self._store.fold(self._run))

    async def keep_fold(self, fold: FoldRows) -> bool:
        """See ``Store.keep_fold``. It is not repeated: the next one will do."""
        return await self._store.keep_fold(fold)

    async def load(self, journal: str) -> State:
        """See ``Store.load``."""
        return await self._patiently(lambda: self._store.load(journal))

    async def rows(self, query: Query) -> list[Row]:
        """See ``Store.rows``."""
        return await self._patiently(lambda: self._store.rows(query))

    async def row(self, journal: str) -> Row:
        """See ``Store.row``."""
        return await self._patiently(lambda: self._store.row(journal))

    async def blob(self, digest: str) -> bytes:
        """See ``Store.blob``; also a result that a stored fold has left in the journal."""
        if digest.startswith(IN_JOURNAL):
            place = int(digest.removeprefix(IN_JOURNAL))
            (found,) = await self.read(self._run, after=place - 1, limit=1)
            return bytes(found.event.result)
        return await self._patiently(lambda: self._store.blob(digest))

    async def now(self) -> float:
        """See ``Store.now``."""
        return await self._patiently(self._store.now)

    async def clock_of(self, journal: str) -> JournalClock:
        """See ``Store.clock_of``."""
        return await self._patiently(lambda: self._store.clock_of(journal))

    @asynccontextmanager
    async def watch(self, cursors: Mapping[str, int]) -> AsyncIterator[PatientWatch]:
        """See ``Store.watch``. Reading what was missed is repeated like every other read."""
        async with self._store.watch(cursors) as watch:
            yield PatientWatch(watch, self)

    @property
    def voices(self) -> Voices:
        """See ``Store.voices``. They are in this process, so nothing can be away."""
        return self._store.voices

    # ── waiting ──────────────────────────────────────────────────────────────────────────────

    async def _patiently(
        self,
        call: Callable[[], Awaitable[T]],
        unless: Callable[[], bool] = never,
        given_up: T | None = None,
    ) -> T:
        while True:
            try:
                return await call()
            except TROUBLE as error:
                await self.wait(error)  # layer request-and-read-repeated
            if given_up is not None and unless():
                return given_up

    async def wait(self, error: StoreError) -> None:
        """Wait a moment, because the store has this trouble."""
        self._waits.tell(self._run, error)
        await anyio.sleep(AGAIN_S)


class Kept:
    """Facts that a driver knows and has still to send, in their order.

    They go with its next append. Where none comes they are written by themselves, a few turns of
    the loop later: beside many runs a turn takes long. Whoever appends enters this: one at a time.
    """

    __slots__ = ("_fresh", "_looks", "_loop", "begin_writing", "facts", "turn")

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.begin_writing: Callable[[], None] | None = None  # begins a task that writes them
        self.turn = asyncio.Lock()  # noqa: TID251 - anyio's is ten times as large, and each run has one
        self._fresh = self._looks = False  # the last of them has just come; we are about to look
        self._loop = asyncio.get_running_loop()

    @property
    def busy(self) -> bool:
        """True while something is being appended."""
        return self.turn.locked()

    async def __aenter__(self) -> None:
        await self.turn.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.turn.release()
        if self.facts:
            self.look_soon()  # layer kept-meanwhile-looked-at

    def add(self, *facts: Fact) -> bool:
        """Keep these; False if there is no room."""
        if self.begin_writing is None or len(self.facts) >= KEPT_MAX:
            return False
        self.facts += facts
        self._fresh = True
        self.look_soon()
        return True

    def recorded(self, event: Event) -> None:
        """Note that an event is on record, also if whoever had it written was cancelled."""
        if event == self.facts[0]:
            del self.facts[0]

    def drop(self, facts: Sequence[Fact]) -> None:
        """Keep these no more; what has come to others since stays."""
        known = set(map(id, facts))
        self.facts[:] = [fact for fact in self.facts if id(fact) not in known]

    def look_soon(self) -> None:
        """Look in a few turns of the loop whether something has taken them along."""
        if self.facts and not self._looks:
            self._looks = True
            soon: Any = self._loop.call_soon
            soon(soon, soon, soon, self._look)

    def _look(self) -> None:
        """Have what nobody has taken along written. While an append is under way, that may."""
        self._looks = False
        if self.facts and not self.busy:
            if self._fresh:
                self._fresh = False
                self.look_soon()
            else:
                self.write_soon()  # layer known-on-record-soon-also

    def write_soon(self) -> None:
        """Have them written now."""
        if self.facts and self.begin_writing is not None:
            self.begin_writing()


class PatientWatch:
    """A ``Watch`` that survives a store that cannot be read for a while.

    Records that it could not read stay missing in the watch below, which reads them at the next
    try.
    """

    __slots__ = ("_client", "_watch")

    def __init__(self, watch: Watch, client: JournalClient) -> None:
        self._watch = watch
        self._client = client

    async def __aiter__(self) -> AsyncIterator[Recorded]:
        while True:
            try:
                async for record in self._watch:
                    yield record
            except TROUBLE as error:
                await self._client.wait(error)

    def add(self, journal: str, after: int) -> None:
        """See ``Watch.add``."""
        self._watch.add(journal, after)

    def ready(self) -> list[Recorded]:
        """See ``Watch.ready``."""
        return self._watch.ready()

    def tap(self, hear: Hear, behind: Callable[[], None] | None = None) -> None:
        """See ``Watch.tap``."""
        self._watch.tap(hear, behind)

    async def until(self, done: Callable[[Recorded], bool]) -> None:
        """See ``Watch.until``."""
        async for record in self:
            if done(record):
                return

    async def catch_up(self) -> None:
        """See ``Watch.catch_up``."""
        while True:
            try:
                await self._watch.catch_up()
            except TROUBLE as error:
                await self._client.wait(error)  # layer missed-while-store-away-read
            else:
                return


class StoreClock:
    """The clock of the store, as far as a driver can know it: its own may be wrong.

    The time that other drivers still have must not depend on the clock of this machine.
    """

    __slots__ = ("_heard_at", "_moving", "_read_at", "_then")

    def __init__(self, stamped: float) -> None:
        self._moving: Moment | None = None  # when the run began to move as it does now
        self._then = JournalClock()
        self._read_at = self._heard_at = (stamped, steady())

    async def set(self, stamped: float, read: Awaitable[JournalClock]) -> None:
        """Take the stamp of the last event, and what the store knows of its clock by then."""
        self._heard_at = (stamped, steady())
        self._then = then = await read
        self._read_at = (stamped if then.now is None else then.now, steady())

    def hear(self, stamped: float, position: int, moving_since: float | None) -> None:
        """Note the stamp of an event, and since when the run moves."""
        self._heard_at = (stamped, steady())
        if moving_since is None:
            self._moving = None
        elif self._moving is None or self._moving.at != moving_since:
            self._moving = Moment(moving_since, steady(), position)

    def now(self) -> float:
        """Return the time that the store's clock shows at least.

        The store stamped the event that was heard last before this driver heard of it.
        """
        stamped, heard = self._heard_at
        return stamped + steady() - heard

    def age(self, moment: Moment) -> float:
        """Return how many seconds ago something came on record, however clocks were set since.

        An event that this driver heard as it happened is measured by the steady clock. An event
        from before is as old as the store's clock says, less the steps of that clock which were
        seen since.
        """
        stamped, read = self._read_at
        if moment.heard > read:
            return steady() - moment.heard
        moved = self._then.moved(moment.position)
        # layer lost-worker-may-still-do
        return steady() - moment.heard + max(0.0, stamped - moment.at - moved)

    def left_of(self, moment: Moment, until: float) -> float:
        """Return the seconds left of a wait that was put on record then, to last ``until``."""
        return until - moment.at - self.age(moment)  # layer waited-for-here-measured

    def in_motion(self) -> float:
        """Return the time for a cap on seconds: it counts those passed since the run moves."""
        moment = self._moving
        return self.now() if moment is None else moment.at + self.age(moment)
