"""A server that may only be read for a while, as one user of it sees it: a switch-over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit
from uuid import uuid4

import anyio
import asyncpg


class Served:
    """A user of its own on a server that many tests share: what befalls it befalls nobody else."""

    def __init__(self, admin: asyncpg.Connection[asyncpg.Record], address: str) -> None:
        self._admin = admin
        self._user = f"user_{uuid4().hex}"
        self.address = urlsplit(address)._replace(netloc=f"{self._user}:@").geturl()

    async def be_known(self) -> None:
        await self._admin.execute(f"CREATE ROLE {self._user} LOGIN SUPERUSER")

    async def be_forgotten(self) -> None:
        await self._admin.execute(f"DROP OWNED BY {self._user} CASCADE; DROP ROLE {self._user}")

    async def set(self, name: str, value: str) -> None:
        """From its next connection on."""
        await self._admin.execute(f"ALTER ROLE {self._user} SET {name} = '{value}'")

    async def hang_up(self) -> None:
        """End every connection there is."""
        end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = $1"
        await self._admin.execute(end, self._user)

    async def cancel_who_sleeps(self) -> None:
        """As an administrator would, over and over."""
        end = (
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
            " WHERE usename = $1 AND wait_event = 'PgSleep'"
        )
        while True:
            await self._admin.execute(end, self._user)
            await anyio.sleep(0.05)

    async def lead_to_a_standby(self) -> None:
        """The address leads to a server that was not made the primary yet."""
        await self.set("default_transaction_read_only", "on")
        await self.hang_up()

    async def lead_to_the_primary(self) -> None:
        """Whoever connects now may write. Those who are connected are not told."""
        await self.set("default_transaction_read_only", "off")


@asynccontextmanager
async def served(address: str) -> AsyncIterator[Served]:
    admin = await asyncpg.connect(address)
    try:
        server = Served(admin, address)
        await server.be_known()
        try:
            yield server
        finally:
            await server.hang_up()
            await server.be_forgotten()
    finally:
        await admin.close()
