"""The audit in Postgres: a record is written with the change it tells of, and chained later."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import anyio

from midflight.audit.chain import Head, Link
from midflight.errors import StoreError, StoreReadOnly
from midflight.stores.postgres.links import Pool
from midflight.stores.postgres.postgres_server import LONG_S, SQL

AT_ONCE: Final = 500  # records that are chained in one transaction
PAUSE_S: Final = 0.05  # records of so long are chained together
AGAIN_S: Final = 5.0  # after which a server is asked again that did not do it


class Chaining:
    """Has records chained, in a task of the store and before anybody reads them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._asked = anyio.Event()

    def ask(self) -> None:
        """Have what was written chained soon."""
        self._asked.set()

    async def run(self) -> None:
        """Chain whenever somebody asks; also at the start, what others have left."""
        while True:
            try:
                await self.chain()
            except StoreReadOnly:
                pass  # a replica: the primary does it
            except StoreError:
                self._asked.set()
                await anyio.sleep(AGAIN_S)
            await anyio.sleep(PAUSE_S)
            await self._asked.wait()

    async def chain(self) -> None:
        """Chain all that was written before this call."""
        self._asked = anyio.Event()
        while await self._chain_some() == AT_ONCE:
            pass

    async def _chain_some(self) -> int:
        return int(
            await self._pool.do(
                lambda c: c.fetchval(SQL["chain_audit"], AT_ONCE), writes=True, answer_s=LONG_S
            )
        )

    async def page(self, after: int, limit: int) -> list[Link]:
        """Read some records."""
        await self._chain_if_possible()
        rows = await self._pool.do(
            lambda c: c.fetch(SQL["audit_page"], after, limit), answer_s=LONG_S
        )
        return [Link(*row) for row in rows]

    async def head(self) -> Head:
        """Return where the audit ends."""
        await self._chain_if_possible()
        found = await self._pool.do(lambda c: c.fetchrow(SQL["audit_head"]))
        return Head(*found) if found is not None else Head()

    async def _chain_if_possible(self) -> None:
        with suppress(StoreReadOnly):  # a replica shows what the primary has chained
            await self.chain()
