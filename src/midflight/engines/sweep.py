"""Looks every two seconds for runs that want a driver, or whose time has come.

Whoever appended a request may have died before telling anybody, an engine may have forgotten what
it was told, and time tells nobody. So every process that drives or serves looks itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Final

import anyio

from midflight.errors import StoreError
from midflight.executor.drive import Ensure
from midflight.executor.front import look_after
from midflight.inputs import Ids
from midflight.kernel.phases import Phase
from midflight.stores.base import PAGE, Row, Store

SWEEP_S: Final = 2.0
LOOK_S: Final = 30.0  # a thread in which nothing changes is looked at so often at least
log: Final = logging.getLogger(__name__)


class Sweep:
    """Of the runs of some agents, in the read model of a store."""

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

    async def keep_on(self) -> None:
        """Sweep until cancelled; ``then`` is called after each."""
        while True:
            await self._sweep()
            self._then()
            await anyio.sleep(self._every_s)

    async def _sweep(self) -> None:
        try:
            due = await self._due()
        except StoreError as error:
            log.warning("Sweep failed", extra={"action": "sweep_failed", "error": str(error)})
            return
        for row in due:
            held = row.phase == Phase.PAUSED and not row.wants_driver  # by whom time does not move
            if row.agent in self._agents and not held:
                await self._ensure(row.journal)
        await self._look_after_threads([row for row in due if row.kind == "thread"])

    async def _look_after_threads(self, rows: list[Row]) -> None:
        """Those where something waits: a crash or a kill may have left the front free.

        Rarely so, therefore less and less often while nothing is written there.
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
                runs = await look_after(self._store, self._ids, row.journal)
            except StoreError as error:
                about = {"action": "thread_failed", "thread": row.journal, "error": str(error)}
                log.warning("A thread could not be looked after", extra=about)
                continue
            for run in runs:
                await self._ensure(run)

    async def _due(self) -> list[Row]:
        """All of them: those that nobody here can drive must not hide the others."""
        limit = PAGE
        while len(due := await self._store.due(limit)) == limit:
            limit *= 2
        return due
