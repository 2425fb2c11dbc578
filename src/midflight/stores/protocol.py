"""The contract of a store. Its meaning is the suite in ``tests/stores/test_contract_*.py``.

Three ways in, and only the first compares positions:

* ``append``: a *decision*, valid only where the caller has folded everything;
* ``submit``: a *request* or a *fact*, decided inside the transaction by a pure function;
* ``kill``: the operator's switch, one transaction over everything in scope.

Nothing here returns a bare length: a caller that wants to decide must fold, and the folded state
has the position. A length that was read apart once broke the kill switch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final, Protocol

from msgspec import Struct

from midflight.audit import Deed, Head, Link
from midflight.errors import InvalidRequest, StoreUnavailable
from midflight.journal.phases import Phase
from midflight.journal.record import Actor, Event, Recorded
from midflight.journal.requests import Switch
from midflight.journal.state import RunState
from midflight.journal.stored_fold import FoldRows, StoredFold
from midflight.journal.threads.thread import ThreadState
from midflight.journal.transition_table import State
from midflight.stores.hints import Delta, Movements, Voices

PAGE: Final = 500
"""Events read at a time: a page decodes in about a millisecond, so no loop stalls for long."""

RUN_PREFIX: Final = "r-"
THREAD_PREFIX: Final = "t-"


def empty_state(journal: str) -> State:
    """A journal before its first event; its id says whether it is a run's or a thread's."""
    return ThreadState(journal) if journal.startswith(THREAD_PREFIX) else RunState(journal)


def closed() -> StoreUnavailable:
    """Return the refusal of a store that was closed."""
    return StoreUnavailable("the store is closed: open it again to use it. Nothing was appended.")


def name_taken(driver: str) -> InvalidRequest:
    """Return the refusal of a driver whose name another living one has."""
    return InvalidRequest(
        f"a driver with the name {driver} is at work, in this process or in another: end it, or "
        "choose another name for the new one. Nothing was changed."
    )


class Entry(Struct, frozen=True, gc=False):
    """Events for one journal, valid only if it still ends at ``expected``."""

    journal: str
    expected: int
    events: tuple[Event, ...]


class Append(Struct, frozen=True, gc=False):
    """A decision over one or several journals: all of it or nothing.

    An append whose answer was lost is repeated under its ``id``: a known id changes nothing.
    """

    id: str
    entries: tuple[Entry, ...]


class View(Struct, frozen=True):
    """The view that a ``decide`` function gets, all of it as of one moment under lock."""

    states: Mapping[str, State]
    switches: tuple[Switch, ...]
    gone: frozenset[str]
    now: float


class Draft(Struct, frozen=True):
    """The events that a ``decide`` function wants appended, and a note for its caller."""

    events: Mapping[str, Sequence[Event]] = {}
    note: Any = None


Decide = Callable[[View], Draft]
"""Pure, and called again when the store must start over. A refusal is an exception."""


class Widen(Exception):
    """Raised by a ``decide`` function that has to see more journals (a child it did not know)."""

    def __init__(self, *journals: str) -> None:
        self.journals = journals
        super().__init__(*journals)


class Submit(Struct, frozen=True):
    """A request: the journals it is about, and how it is decided.

    ``scopes`` are the kill switches to read under lock, ``leases`` the drivers whose death matters.
    Journals in ``new`` may not exist yet. ``audit`` is recorded with what is appended, if any is.
    """

    id: str
    journals: tuple[str, ...]
    decide: Decide
    scopes: tuple[str, ...] = ()
    leases: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    audit: Deed | None = None


class Committed(Struct, frozen=True):
    """An append that is on disk; ``repeated`` if an earlier call under this id has written it."""

    records: tuple[Recorded, ...]
    note: Any = None
    repeated: bool = False

    def position(self, journal: str) -> int:
        """Return the position where this append ends in ``journal``: it is the acknowledgement."""
        return max(r.position for r in self.records if r.journal == journal)


class Killing(Struct, frozen=True):
    """The acknowledgement of a kill: which runs it ended, and what each had in flight."""

    switch: Switch
    killed: Mapping[str, tuple[int, ...]]
    revoked: tuple[str, ...]


class Row(Struct, frozen=True):
    """The read model of a journal, written in the same transaction as its events.

    ``undriven`` is not stored: a control sets it for a run that has begun and lacks a driver.
    """

    journal: str
    kind: str
    head: int
    thread: str = ""
    agent: str = ""
    parent: str = ""
    title: str = ""
    phase: str = ""
    driver: str = ""
    epoch: int = 0
    wants_driver: bool = False
    open_questions: int = 0
    due_at: float | None = None
    created_at: float = 0.0
    updated_at: float = 0.0
    steps: int = 0
    tokens: int = 0
    usd: float = 0.0
    undriven: bool = False


STORED: Final = Row.__struct_fields__[:-1]
"""The fields of a row that a store keeps, in the order of its columns."""


class Query(Struct, frozen=True):
    """A search for rows that meet all conditions, newest first; ``before`` is for the next page."""

    kind: str = "run"
    phases: tuple[Phase, ...] = ()
    thread: str = ""
    agent: str = ""
    parent: str = ""
    before: str = ""
    limit: int = 100
    search: str = ""

    @property
    def words(self) -> list[str]:
        """The words of the search; each must be in the title or in the first brief.

        The case of the letters A to Z does not count, in every store alike.
        """
        return ascii_lower(self.search).split()


def ascii_lower(text: str) -> str:
    """Small letters for A to Z, as every database understands it."""
    return text.translate(str.maketrans(ascii_uppercase, ascii_lowercase))


class Purged(Struct, frozen=True):
    """The numbers of what a purge has removed."""

    runs: int
    threads: int
    blobs: int


class ClockStep(Struct, frozen=True):
    """The store's clock was set by so many ``seconds`` while a journal waited for a time.

    The journal ended at ``head`` then. ``due_at`` was its next deadline, None if that came later.
    """

    head: int
    due_at: float | None
    seconds: float


class JournalClock(Struct, frozen=True):
    """The store's clock: ``now``, if it is known, and how it was set while a journal waited."""

    now: float | None = None
    steps: tuple[ClockStep, ...] = ()

    def moved(self, position: int) -> float:
        """Return by how much the clock was set since an event came on record."""
        return sum(step.seconds for step in self.steps if position <= step.head)


class Lease(Protocol):
    """Proof that a driver lives. A driver that cannot hold it starts nothing."""

    @property
    def driver(self) -> str:
        """The id of the driver that has this lease."""

    @property
    def held(self) -> bool:
        """True while it is safe for the driver to start something."""

    @property
    def proven(self) -> bool:
        """True if a driver whose lease is gone is surely dead, and not only out of reach."""

    @property
    def lock(self) -> int | None:
        """The file that is locked for it, if any: a process that holds it open keeps the lease."""


class Read(Protocol):
    """Reads up to ``limit`` records of a journal after a position."""

    def __call__(
        self, journal: str, after: int = 0, limit: int = PAGE
    ) -> Awaitable[list[Recorded]]:
        """See ``Store.read``."""


Hear = Callable[[Sequence[Recorded]], None]


class Watch(Protocol):
    """Events of some journals from given positions on, in order, without a gap."""

    def __aiter__(self) -> AsyncIterator[Recorded]:
        """Yield for as long as the watch is open."""

    def add(self, journal: str, after: int) -> None:
        """Also watch this one."""

    def ready(self) -> list[Recorded]:
        """Return records that are here already, without waiting; they are not yielded again."""

    def tap(self, hear: Hear, behind: Callable[[], None] | None = None) -> None:
        """From now on what is published here goes to ``hear`` at once, and is not yielded.

        Only where nothing older waits to be yielded, so the order is kept. ``hear`` must not raise.
        ``behind`` is called when something has to be read from the store first: then ``catch_up``
        is to be called, and nobody has to wait for what is yielded.
        """

    async def until(self, done: Callable[[Recorded], bool]) -> None:
        """Give each record to ``done`` as it comes, until that is true; instead of iterating."""

    async def catch_up(self) -> None:
        """Give missing records from the store to the ``hear`` of ``tap``, until none is missing."""


class LiveWatch(Protocol):
    """Events as by ``Watch``, and what steps say; first what open steps have said so far.

    For the words of steps in other processes see ``hints``.
    """

    def __aiter__(self) -> AsyncIterator[Recorded | Delta]:
        """Yield for as long as the watch is open."""

    def add(self, journal: str, after: int) -> None:
        """Also watch this one."""

    def hear_calls(self) -> None:
        """Also be told of reads that begin, and of those under way (``Began``)."""


class Store(Protocol):
    """Journals, their read model, the kill switch, leases, blobs."""

    async def append(self, decision: Append) -> Committed:
        """Append if every journal still ends where the caller has folded it.

        Raises JournalConflict otherwise, which means "read again". The run has another driver only
        if what is then read has a higher epoch.
        """

    async def submit(self, request: Submit) -> Committed:
        """Decide under lock and append. Never loses a race; an empty draft appends nothing."""

    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        """Up to ``limit`` events after a position; JournalNotFound for an unknown journal."""

    async def fold(self, journal: str) -> StoredFold | None:
        """Return the stored fold of a run, if there is one that fits its journal."""

    async def keep_fold(self, fold: FoldRows) -> bool:
        """Store a fold; False if it does not fit what is there. A purge removes it."""

    async def load(self, journal: str) -> State:
        """Fold a whole journal, a page at a time. The state belongs to the caller."""

    async def rows(self, query: Query) -> list[Row]:
        """Look the read model up."""

    async def row(self, journal: str) -> Row:
        """The read model of one journal."""

    async def due(self, limit: int = 100) -> list[Row]:
        """Runs whose time has come (see ``clock_of``), or that lack a living driver."""

    async def clock_of(self, journal: str) -> JournalClock:
        """The store's clock, and how it was set, as far as this process saw it.

        Postgres tells neither: the server's clock counts, and the events have it.
        """

    async def kill(self, scope: str, who: Actor, reason: str = "") -> Killing:
        """Stop ``all``, ``agent:NAME`` or ``thread:ID``. When this returns, it has stopped."""

    async def release(self, scope: str, who: Actor) -> bool:
        """Let a scope move again; False if it was not stopped."""

    async def switches(self) -> list[Switch]:
        """The kill switches that are on."""

    def lease(self, driver: str) -> AbstractAsyncContextManager[Lease]:
        """Hold a driver's lease while inside."""

    async def lease_gone(self, driver: str) -> bool:
        """Return whether the driver is proven dead, or its time is over by the store's clock."""

    async def blob(self, digest: str) -> bytes:
        """A value that was too large for a row."""

    def watch(self, cursors: Mapping[str, int]) -> AbstractAsyncContextManager[Watch]:
        """Events after the given positions, then live ones. Leaving it cancels nothing."""

    def watch_live(self, cursors: Mapping[str, int]) -> AbstractAsyncContextManager[LiveWatch]:
        """As ``watch``, with what steps say in between."""

    def movements(self) -> AbstractAsyncContextManager[Movements]:
        """Hear which journals move, also by other processes: hints, for a list of runs."""

    def wanting(self) -> AbstractAsyncContextManager[Movements]:
        """Hear which journals other processes have changed so that a run may want a driver.

        Not every store gives these hints, so drivers also look for such runs by themselves.
        """

    @property
    def voices(self) -> Voices:
        """The voices of the steps that are driven in this process."""

    async def ready(self) -> None:
        """Raise the error that an append would get, if it is known that nothing can be written."""

    async def now(self) -> float:
        """The store's clock, with which deadlines are compared."""

    async def purge(self, ended_before: float, limit: int = 1000) -> Purged:
        """Remove runs that ended before a time, and threads that hold nothing else.

        A run stays while a fork of it does, or the run that has begun it. The audit stays whole.
        """

    async def audit(self, *deeds: Deed) -> None:
        """Record deeds apart from any journal, once each; kills, releases and purges do so."""

    async def audit_page(self, after: int = 0, limit: int = PAGE) -> list[Link]:
        """Read up to ``limit`` records of the audit after a number."""

    async def audit_head(self) -> Head:
        """Return where the audit ends now."""
