"""One journal, folded once for everybody who watches it here, as events for a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import anyio
import msgspec
from msgspec import Struct

from midflight.control import Control
from midflight.journal.record import Recorded
from midflight.journal.requests import Switch
from midflight.journal.state import RunState, needs_driver
from midflight.stores.hints import Delta
from midflight.stores.protocol import THREAD_PREFIX, LiveWatch, Query, Row
from midflight.view import RunBook, Sheet, ThreadBook, patch


class Watchers:
    """The watchers of one thing. Each is a call that takes no time: it only wakes a task."""

    __slots__ = ("_stirs",)

    def __init__(self) -> None:
        self._stirs: dict[Callable[[], None], None] = {}  # in the order in which they came

    @contextmanager
    def hearing(self, stir: Callable[[], None]) -> Iterator[None]:
        """Call ``stir`` whenever there is something new, for as long as the block runs."""
        self._stirs[stir] = None
        try:
            yield
        finally:
            del self._stirs[stir]

    def stir(self) -> None:
        """Wake all watchers: there is something new."""
        for stir in tuple(self._stirs):  # a watcher that is woken may leave, or add another one
            stir()

    def __bool__(self) -> bool:
        """Return whether there is any watcher."""
        return bool(self._stirs)


class ViewNews(Struct, frozen=True):
    """``event: view``: the whole sheet of a journal."""

    journal: str
    at: float
    view: Any  # Sheet; msgspec cannot tell two structs apart that have no tag


class PatchOp(Struct, frozen=True, omit_defaults=True):
    """One step of a JSON Patch (RFC 6902): ``add``, ``replace`` or ``remove``."""

    op: str
    path: str
    value: Any = None


class PatchNews(Struct, frozen=True):
    """``event: patch``: what has changed since the last view or patch of this journal."""

    journal: str
    at: float
    head: int
    patch: list[Any]


class RowNews(Struct, frozen=True):
    """``event: row``: a run in the list is new or has changed."""

    at: float
    row: Row


class SwitchNews(Struct, frozen=True):
    """``event: switches``: the kill switches that are on."""

    at: float
    switches: list[Switch]


PACE_S: Final = 0.05  # a person does not see more
SHARE: Final = 10  # making sheets takes at most a tenth of the time
RUNS_SHOWN: Final = 100
CHILDREN_SHOWN: Final = 100
PATCHES_BYTES_MAX: Final = 4 * 1024 * 1024  # that are kept for other watchers of a journal
DRIVER_S: Final = 2.0  # between two looks at whether its driver lives


class Live:
    """A journal that is watched: its sheet, what its open steps say, and how both change."""

    def __init__(self, control: Control, journal: str, least: int) -> None:
        self.journal = journal
        self.version = 0  # of the sheet; 0 before there is one
        self.sheet: Sheet | None = None
        self._control = control
        self._book = (ThreadBook if journal.startswith(THREAD_PREFIX) else RunBook)(journal)
        self._least = least  # where the journal was when somebody came to watch it
        self._turn = anyio.Lock()
        self.watchers = Watchers()
        self._due = 0.0
        self._look_due = 0.0
        self._nudged = False
        self._stale = False  # whether the sheet is behind what was taken
        self._untold = False  # whether anything was taken of which watchers have not heard
        self._wait: anyio.CancelScope | None = None
        self._at = 0.0
        self._whole = b""
        self._patches: dict[int, bytes] = {}
        self._patches_bytes = 0

    # ── for watchers ─────────────────────────────────────────────────────────────────────────

    @property
    def head(self) -> int:
        """The position up to which the sheet reaches; 0 where there is no sheet yet."""
        return self.sheet.head if self.sheet is not None else 0

    @property
    def texts(self) -> Mapping[str, Delta]:
        """The text of open steps, each from its beginning."""
        return self._book.texts if isinstance(self._book, RunBook) else {}

    def whole(self) -> bytes:
        """The sheet as JSON; made once for all who come at this version."""
        if not self._whole:
            self._whole = msgspec.json.encode(ViewNews(self.journal, self._at, self.sheet))
        return self._whole

    def since(self, version: int, sheet: Sheet) -> bytes:
        """Return the patch from an earlier version, made once for all readers of that version."""
        found = self._patches.get(version)
        if found is None:
            changes = patch(sheet, self.sheet)  # layer patch-leads-on-from-what-this
            news = PatchNews(self.journal, self._at, self.head, changes)
            found = msgspec.json.encode(news) if changes else b""
            if self._patches_bytes + len(found) <= PATCHES_BYTES_MAX:
                self._patches[version] = found
                self._patches_bytes += len(found)
        return found

    def nudge(self) -> None:
        """Look again: something that the sheet shows of other journals has changed."""
        self._nudged = True
        if self._wait is not None:
            self._wait.cancel()

    # ── the work ─────────────────────────────────────────────────────────────────────────────

    async def attend(self) -> None:
        """Do the work, or stand by for when who does it leaves."""
        async with self._turn:  # layer when-does-work-leaves-next
            head = self._book.state.head
            async with self._control.watch_live({self.journal: head}) as news:
                while True:
                    await self._listen(news)
                    await self._publish()

    async def _listen(self, news: LiveWatch) -> None:
        """Take what comes until a sheet is due and something has changed.

        The watcher that did the work before us may have left between taking news and telling it.
        """
        while True:
            # layer left-had-taken
            await self._next(news, 0.0 if self._untold and self._caught_up else self._patience)
            await self._look_at_driver()
            left = self._due - anyio.current_time()
            while left > 0:
                await self._next(news, left)
                left = self._due - anyio.current_time()
            if self._untold and self._caught_up:
                return

    @property
    def _caught_up(self) -> bool:
        return self._book.state.head >= self._least

    @property
    def _patience(self) -> float:
        """Return the seconds to wait for news: no record says that a driver has died."""
        state = self._book.state
        needs = isinstance(state, RunState) and needs_driver(state) and self._caught_up
        return DRIVER_S if needs else float("inf")

    async def _look_at_driver(self) -> None:
        """Ask every now and then whether anybody drives the run."""
        book, now = self._book, anyio.current_time()
        if not isinstance(book, RunBook) or not self._caught_up or now < self._look_due:
            return
        self._look_due = now + DRIVER_S
        if book.undriven(await self._control.undriven_since(book.state)):
            self._stale = self._untold = True

    async def _next(self, news: LiveWatch, longest: float) -> None:
        """Take all that is there, waiting for the first of it."""
        until = 0.0 if self._nudged and self._caught_up else anyio.current_time() + longest
        with anyio.CancelScope(deadline=until) as self._wait:
            async for item in news:
                self._take(item)
                if self._caught_up:
                    self._wait.deadline = 0.0  # what lies there already, and nothing further
        self._wait = None
        if self._nudged:
            self._nudged, self._stale, self._untold = False, True, True

    def _take(self, item: Recorded | Delta) -> None:
        self._untold = True
        if isinstance(item, Recorded):
            self._book.take(item)
            self._stale = True
        elif isinstance(self._book, RunBook):
            self._book.hear(item)

    async def _publish(self) -> None:
        began = anyio.current_time()
        if self._stale:
            # layer sheet-stale-until-another
            self.sheet, self._at = await self._made(), await self._control.store.now()
            self._stale = False  # not before: we may be ended while it is made
            self.version += 1
            self._whole = b""
            self._patches.clear()
            self._patches_bytes = 0
        took = anyio.current_time() - began
        self._due = anyio.current_time() + max(PACE_S, SHARE * took)  # layer many-records-make-few
        self._untold = False
        self.watchers.stir()

    async def _made(self) -> Sheet:
        book, control = self._book, self._control
        if isinstance(book, RunBook):
            wanted = Query(parent=self.journal, limit=CHILDREN_SHOWN)
            children = await control.runs(wanted) if book.children else ()
            return book.sheet({row.journal: row for row in children})
        rows = await control.runs(Query(thread=self.journal, limit=RUNS_SHOWN))
        todos = await control.preview_todos(self.journal) if book.state.todos else ()
        return book.sheet(rows, todos)


class Lives:
    """All journals that are watched in views."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._lives: dict[str, Live] = {}

    @contextmanager
    def watched(self, journal: str, head: int, stir: Callable[[], None]) -> Iterator[Live]:
        """Watch a journal, which ends at ``head`` now."""
        live = self._lives.get(journal)
        if live is None:
            live = self._lives[journal] = Live(self._control, journal, head)
        try:
            with live.watchers.hearing(stir):
                yield live
        finally:
            if not live.watchers:
                self._lives.pop(journal, None)

    def of(self, journal: str) -> Live | None:
        """Return a journal that is watched now; None if it is not."""
        return self._lives.get(journal)

    def nudge(self, *journals: str) -> None:
        """Look again at these journals: a run that they may show has changed."""
        for journal in journals:
            if journal in self._lives:
                self._lives[journal].nudge()
