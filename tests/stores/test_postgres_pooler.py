"""A pooler between a store and its server is noticed before anything is created."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from midflight.errors import StoreUnavailable
from midflight.stores.postgres import PostgresStore
from midflight.stores.postgres.postgres_server import SQL
from stores.halfway import by_hand
from stores.pooler import Ignoring, Refusing, Sharing, pooled
from stores.runs import running

pytestmark = [pytest.mark.postgres, pytest.mark.anyio]


@pytest.fixture
def schema() -> str:
    return f"test_{uuid4().hex}"


@pytest.mark.parametrize("kind", [Ignoring, Refusing, Sharing])
async def test_a_pooler_that_cannot_work_is_refused_in_words_and_nothing_is_created(
    postgres_address: str, tmp_path: Path, schema: str, kind: type[Ignoring]
) -> None:
    async with pooled(postgres_address, tmp_path, kind) as address:
        with pytest.raises(StoreUnavailable, match="connect to the server itself") as refused:
            async with PostgresStore.open(address, schema=schema):
                pass

    assert str(refused.value).endswith("Nothing was changed.")
    async with by_hand(postgres_address, "public") as connection:
        assert await connection.fetchval("SELECT to_regnamespace($1) IS NULL", schema)
        assert await connection.fetchval("SELECT to_regclass('public.events') IS NULL")


async def test_what_news_do_for_speed_stays_in_their_own_transactions(
    postgres_address: str, schema: str
) -> None:
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        await running(store)
        connection = await store._server.connect()
        try:
            async with connection.transaction():
                await connection.execute(SQL["notify"], store._server.channel, ["{}"])
                assert await connection.fetchval("SHOW synchronous_commit") == "off"

            assert await connection.fetchval("SHOW synchronous_commit") == "on"
        finally:
            connection.terminate()
