"""The list of runs as it changes, and the kill switches: once for everybody who shows it.

As with ``live_journal``, the stream that came first does the work. A row is told at once if more
than its counters have changed, and once a second if only those have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import anyio

from midflight.control import Control
from midflight.engines.sweep import with_drivers
from midflight.errors import JournalNotFound
from midflight.interfaces.http.live_journal import Watchers
from midflight.journal.phases import LIVE
from midflight.journal.requests import Switch
from midflight.stores.hints import Movements
from midflight.stores.protocol import RUN_PREFIX, Query, Row

PACE_S: Final = 0.05
COUNTERS_S: Final = 1.0  # how often mere counters are told, and switches looked at
KNOWN_MAX: Final = 5_000  # rows that are remembered for those who are behind
KNOWN_BYTES_MAX: Final = 8 * 1024 * 1024  # and their names and titles
NEWEST: Final = 50
LIVING_MAX: Final = 100


class Index:
    """Rows of runs, each with the version at which it last changed."""

    def __init__(self, control: Control, changed: Callable[[Row], None]) -> None:
        self.version = 0
        self.switches: list[Switch] = []
        self.switched = 0  # the version at which they last changed
        self._control = control
        self._changed = changed  # tells those that show a run in another sheet
        self._rows: dict[str, tuple[int, Row]] = {}  # the last changed one last
        self._bytes = 0  # of their names and titles
        self._forgotten = 0  # rows up to this version may be missing
        self._turn = anyio.Lock()
        self.watchers = Watchers()
        self._look_again = anyio.Event()
        self._ready = False

    async def shown(self) -> list[Row]:
        """Return the rows that a list begins with: runs that live, and the newest ones."""
        living = await self._control.runs(Query(phases=LIVE, limit=LIVING_MAX))
        newest = await self._control.runs(Query(limit=NEWEST))
        return list({row.journal: row for row in (*living, *newest)}.values())

    def since(self, version: int) -> list[Row] | None:
        """Return the rows that have changed since a version; None if that is too long ago."""
        if version < self._forgotten:
            return None
        found = []
        for changed, row in reversed(self._rows.values()):
            if changed <= version:
                break
            found.append(row)
        return found[::-1]

    def look_at_switches(self) -> None:
        """Look at the kill switches again: somebody here has just turned one."""
        self._look_again.set()

    # ── the work ─────────────────────────────────────────────────────────────────────────────

    async def attend(self) -> None:
        """Do the work, or stand by for when who does it leaves."""
        async with self._turn, self._control.store.movements() as movements:
            self._take(await self.shown())  # what has moved while nobody looked
            counters: dict[str, None] = {}
            looked_at = 0.0
            while True:
                if anyio.current_time() - looked_at >= COUNTERS_S or self._look_again.is_set():
                    looked_at = anyio.current_time()
                    self._look_again = anyio.Event()
                    await self._look(await self._control.switches(), counters)
                    counters.clear()
                    await self._look_at_drivers()
                await self._wait(movements, looked_at + COUNTERS_S)
                moved = movements.take()
                counters |= dict.fromkeys(journal for journal, more in moved.items() if not more)
                await self._look(None, [journal for journal, more in moved.items() if more])
                await anyio.sleep(PACE_S)

    async def _wait(self, movements: Movements, until: float) -> None:
        with anyio.move_on_after(max(0.0, until - anyio.current_time())):
            async with anyio.create_task_group() as tasks:
                for news in (movements.wait, self._look_again.wait):
                    tasks.start_soon(_then, news, tasks.cancel_scope.cancel)

    async def _look(self, switches: list[Switch] | None, journals: Iterable[str]) -> None:
        rows = []
        for journal in journals:
            if journal.startswith(RUN_PREFIX):
                with suppress(JournalNotFound):  # purged meanwhile
                    rows.append(await self._control.row(journal))
        if switches is not None and switches != self.switches:
            self.version += 1
            self.switches, self.switched = switches, self.version
            self.watchers.stir()
        self._take(rows)

    async def _look_at_drivers(self) -> None:
        """Look whether runs that need a driver have one: no record says that a driver has died."""
        needing = [row for _, row in self._rows.values() if row.wants_driver]
        self._take(await with_drivers(self._control.store, needing))

    def _take(self, rows: Iterable[Row]) -> None:
        changed = False
        for row in rows:
            _, before = self._rows.get(row.journal, (0, None))
            if before is not None and _shown(before) == _shown(row):
                continue
            self.version += 1
            self._rows.pop(row.journal, None)
            self._rows[row.journal] = (self.version, row)
            self._bytes += _size(row) - (_size(before) if before is not None else 0)
            self._changed(row)
            changed = True
        while len(self._rows) > KNOWN_MAX or self._bytes > KNOWN_BYTES_MAX:
            self._forgotten, oldest = self._rows.pop(next(iter(self._rows)))
            self._bytes -= _size(oldest)
        if changed:
            self.watchers.stir()


async def _then(wait: Callable[[], object], done: Callable[[], None]) -> None:
    await wait()  # type: ignore[misc]
    done()


def _shown(row: Row) -> tuple[object, ...]:
    """Return the fields of a row that a list shows, so that two rows can be compared."""
    counted = (row.steps, row.tokens, row.usd)
    stands = (row.phase, row.undriven, row.title, row.open_questions)
    return (*stands, row.thread, row.parent, *counted)


def _size(row: Row) -> int:
    return sum(map(len, (row.journal, row.thread, row.agent, row.parent, row.title, row.driver)))
