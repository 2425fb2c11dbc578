"""A driver's lease: a row on the server's clock, renewed for as long as the driver lives.

The server's clock alone says when it is over. The driver itself goes by how long ago it *sent* the
last renewal that succeeded: the row cannot expire earlier than that plus the ttl, so a driver that
hears nothing stops starting things before anybody may take over.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from midflight.errors import StoreError
from midflight.stores.hub import owned_tasks
from midflight.stores.postgres_links import Pool
from midflight.stores.postgres_server import SQL

TTL_S: Final = 10.0
MARGIN: Final = 0.1  # of the ttl: what is started in the last moment must be seen before the end
GOODBYE_S: Final = 2.0


def steady() -> float:
    """Seconds that also pass while the machine sleeps: a lease does not wait for a lid to open."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    else:  # noqa: RET505 - so that type checkers on Linux do not call it unreachable
        return time.monotonic()


class RowLease:
    """Held while its row is surely alive."""

    def __init__(self, driver: str, ttl: float) -> None:
        self.driver = driver
        self._safe_s = ttl * (1 - MARGIN)
        self._renewed = float("-inf")

    @property
    def held(self) -> bool:
        """Whether it is safe to start something now."""
        return steady() - self._renewed < self._safe_s

    def renewed(self, sent: float) -> None:
        """A renewal that was sent then has succeeded."""
        self._renewed = sent

    def end(self) -> None:
        """Hold it no longer."""
        self._renewed = float("-inf")


@asynccontextmanager
async def hold(pool: Pool, driver: str, ttl: float) -> AsyncIterator[RowLease]:
    """Hold a driver's lease for as long as the block runs."""
    lease = RowLease(driver, ttl)
    await _renew(pool, lease, ttl)
    try:
        async with owned_tasks(lambda: _keep(pool, lease, ttl)):
            yield lease
    finally:
        lease.end()
        with anyio.move_on_after(GOODBYE_S, shield=True):  # else it runs out by itself
            await _drop(pool, driver)


async def _renew(pool: Pool, lease: RowLease, ttl: float) -> None:
    sent = steady()
    await pool.do(lambda c: c.execute(SQL["renew_lease"], lease.driver, ttl), writes=True)
    lease.renewed(sent)


async def _keep(pool: Pool, lease: RowLease, ttl: float) -> None:
    while True:
        await anyio.sleep(ttl / 3)
        try:
            with anyio.move_on_after(ttl / 3):
                await _renew(pool, lease, ttl)
        except StoreError:
            continue  # `held` turns false by itself, and true again when the server is back


async def _drop(pool: Pool, driver: str) -> None:
    try:
        await pool.do(lambda c: c.execute(SQL["drop_lease"], driver), writes=True)
    except StoreError:
        return  # it runs out by itself
