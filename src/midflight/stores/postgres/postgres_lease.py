"""A driver's lease: a row on the server's clock, renewed for as long as the driver lives.

The server's clock alone says when it is over. The driver itself goes by how long ago it *sent* the
last renewal that succeeded: the row cannot expire earlier than that plus the ttl, so a driver that
hears nothing stops starting things before anybody may take over.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio

from midflight.errors import StoreError
from midflight.inputs import steady
from midflight.journal.facts import check_driver_name
from midflight.stores.postgres.links import Pool
from midflight.stores.postgres.postgres_server import SQL
from midflight.stores.protocol import name_taken
from midflight.tasks import owned_tasks

TTL_S: Final = 10.0
MARGIN: Final = 0.1  # of the ttl: what is started in the last moment must be seen before the end
SOON_S: Final = 1.0  # hanging up on a slow server makes a short lease no safer
GOODBYE_S: Final = 2.0
STOOD_STILL: Final = "this process stood still"  # or it would have been renewed again
log: Final = logging.getLogger(__name__)


class RowLease:
    """A lease that is held while its row is surely alive."""

    def __init__(self, pool: Pool, driver: str, holder: str, ttl: float) -> None:
        self.driver = driver
        self.proven = False  # a driver that was cut off or frozen is not dead
        self.lock = None
        self._pool = pool
        self._holder = holder
        self._ttl = ttl
        self._renewed = float("-inf")
        self._told_lost = False

    @property
    def held(self) -> bool:
        """See ``Lease.held``: True until shortly before the last renewal may have expired."""
        return steady() - self._renewed < self._ttl * (1 - MARGIN)  # layer cannot-renew-lease-stops

    async def renew(self) -> bool:
        """Hold it from now on; False if somebody else does."""
        sent, ours = steady(), (self.driver, self._holder, self._ttl)
        if not await self._pool.do(
            lambda c: c.fetchval(SQL["renew_lease"], *ours),
            writes=True,
            pressing=True,
            answer_s=max(self._ttl / 3, SOON_S),
        ):
            return False
        self._renewed = sent  # layer lease-counts-from-when-renewal
        return True

    async def keep(self) -> None:
        """Renew it three times in a ttl, also when the server is slow, until cancelled.

        ``held`` turns false by itself, and true again when it is back. Each is told of once, also
        if it was lost because this process stood still.
        """
        every, due, why = self._ttl / 3, anyio.current_time(), STOOD_STILL
        while True:
            due = max(due + every, anyio.current_time())
            await anyio.sleep_until(due)
            self._tell_if_changed(why)
            why = "no answer in time"
            try:
                with anyio.move_on_after(every):
                    why = STOOD_STILL if await self.renew() else "another process holds it"
            except StoreError as error:
                why = str(error)
            self._tell_if_changed(why)

    def _tell_if_changed(self, why: str) -> None:
        lost = not self.held
        if lost == self._told_lost:  # layer lease-lost-told
            return
        self._told_lost = lost
        about = {"action": "lease_lost" if lost else "lease_held", "driver": self.driver}
        if lost:
            words = (
                "The lease of driver %s was not renewed (%s): it begins nothing, and other "
                "processes may take its runs over"
            )
            log.warning(words, self.driver, why.rstrip("."), extra=about | {"error": why})
        else:
            log.info("Driver %s holds its lease again", self.driver, extra=about)

    async def end(self) -> None:
        """Hold it no longer. If the server cannot be told, it runs out by itself."""
        self._renewed = float("-inf")
        with anyio.move_on_after(GOODBYE_S, shield=True), suppress(StoreError):
            ours = (self.driver, self._holder)
            await self._pool.do(
                lambda c: c.execute(SQL["drop_lease"], *ours), writes=True, pressing=True
            )


@asynccontextmanager
async def hold(pool: Pool, driver: str, *, holder: str, ttl: float) -> AsyncIterator[RowLease]:
    """Hold a driver's lease for as long as the block runs."""
    check_driver_name(driver)
    lease = RowLease(pool, driver, holder, ttl)
    if not await lease.renew():
        raise name_taken(driver)
    try:
        async with owned_tasks(lease.keep):
            yield lease
    finally:
        await lease.end()
