"""Limits that a server or a role sets for everybody: ours hold, and theirs are called by name."""

from __future__ import annotations

from uuid import uuid4

import anyio
import pytest

from midflight.errors import StoreBusy
from midflight.stores.postgres import PostgresStore, links
from midflight.stores.postgres.postgres_server import Connection
from stores.standby import served

pytestmark = [pytest.mark.postgres, pytest.mark.anyio]


@pytest.fixture
def schema() -> str:
    return f"test_{uuid4().hex}"


@pytest.mark.parametrize("limit", ["statement_timeout", "transaction_timeout"])
async def test_a_time_limit_of_the_role_does_not_end_what_the_store_does(
    postgres_address: str, schema: str, limit: str
) -> None:
    async with served(postgres_address) as server:
        await server.set(limit, "300ms")
        async with PostgresStore.open(server.address, schema=schema) as store:

            async def slowly(connection: Connection) -> bool:
                await connection.execute("SELECT pg_sleep(0.6)")
                return True

            assert await store._pool.do(slowly, writes=True)


async def test_a_statement_that_was_ended_by_hand_is_not_called_a_lost_server(
    postgres_address: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "PATIENCE_S", 0.5)
    async with (
        served(postgres_address) as server,
        PostgresStore.open(server.address, schema=schema) as store,
        anyio.create_task_group() as beside,
    ):
        beside.start_soon(server.cancel_who_sleeps)

        with pytest.raises(StoreBusy, match="ended the statement") as refused:
            await store._pool.do(lambda c: c.execute("SELECT pg_sleep(30)"), writes=True)

        beside.cancel_scope.cancel()
        assert str(refused.value).endswith("Nothing was changed.")
        assert not refused.value.unsure
