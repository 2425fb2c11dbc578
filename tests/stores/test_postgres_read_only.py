"""A server that answers and takes nothing: a switch-over leads there for a moment, or for good."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import anyio
import asyncpg
import pytest

from midflight.control import Control
from midflight.errors import StoreReadOnly
from midflight.stores import open_store
from midflight.stores.postgres import PostgresStore, links, postgres_writer
from server.house import opened
from stores.backends import postgres_server
from stores.restarts import restart_as_a_standby
from stores.runs import OLGA, RUN, decision, names, read_all, running, started
from stores.standby import served

pytestmark = [pytest.mark.postgres, pytest.mark.anyio]


@pytest.fixture
def schema() -> str:
    return f"test_{uuid4().hex}"


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(15):
        while not await holds():  # noqa: ASYNC110 - nobody is told
            await anyio.sleep(0.05)


async def test_an_append_waits_for_the_primary_and_is_there_once(
    postgres_address: str, schema: str
) -> None:
    async with (
        served(postgres_address) as server,
        PostgresStore.open(server.address, schema=schema) as store,
    ):
        driver = await running(store)
        await server.lead_to_a_standby()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driver.begins)
            await anyio.sleep(0.5)
            assert names(await read_all(store, after=3)) == []  # it may be read
            await server.lead_to_the_primary()

        assert names(await read_all(store, after=3)) == ["attempt.started"]


async def test_who_has_read_from_a_standby_reads_from_the_primary_soon_after(
    postgres_address: str, schema: str
) -> None:
    async with (
        served(postgres_address) as server,
        PostgresStore.open(server.address, schema=schema, connections=1) as store,
    ):
        await server.lead_to_a_standby()
        await store.now()
        await server.lead_to_the_primary()

        async def reads_from_the_primary() -> bool:
            ((told,),) = await store._pool.fetch("SHOW transaction_read_only")
            return bool(told == "off")

        assert not await reads_from_the_primary()
        await until(reads_from_the_primary)


async def test_while_what_writes_waits_for_the_primary_what_reads_is_answered(
    postgres_address: str, schema: str
) -> None:
    async with (
        served(postgres_address) as server,
        PostgresStore.open(server.address, schema=schema, connections=2) as store,
    ):
        for number in range(8):
            await store.kill(f"agent:a-{number}", OLGA)
        await server.lead_to_a_standby()
        released: list[bool] = []

        async def release(number: int) -> None:
            released.append(await store.release(f"agent:a-{number}", OLGA))

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(release, number)
            await anyio.sleep(0.5)
            for _ in range(3):
                await store.now()
            assert released == []  # they wait, and keep nobody from reading
            await server.lead_to_the_primary()

        assert released == [True] * 8


async def test_a_server_that_takes_nothing_is_reported_as_that_and_nothing_was_changed(
    postgres_address: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (links, postgres_writer):
        monkeypatch.setattr(module, "PATIENCE_S", 0.3)
    async with (
        served(postgres_address) as server,
        PostgresStore.open(server.address, schema=schema) as store,
    ):
        await running(store)
        await server.set("default_transaction_read_only", "on")
        for link in store._links:
            link.drop()  # nothing was under way on them

        with pytest.raises(StoreReadOnly, match="read and not written") as refused:
            await store.append(decision(RUN, 3, started("send")))

        assert str(refused.value).endswith("Nothing was changed.")
        assert not refused.value.unsure


async def test_the_server_is_not_well_while_its_store_can_only_be_read(
    postgres_address: str, schema: str
) -> None:
    async with (
        served(postgres_address) as server,
        PostgresStore.open(server.address, schema=schema) as store,
        opened(Control(store)) as house,
        house.client() as client,
    ):

        async def is_well() -> bool:
            return (await client.get("/healthz")).status_code == 200

        assert await is_well()
        await server.lead_to_a_standby()
        answer = await client.get("/healthz")
        assert (answer.status_code, answer.json()["store"]) == (503, "StoreReadOnly")
        await server.lead_to_the_primary()
        await until(is_well)


@pytest.mark.slow
async def test_on_a_true_standby_it_is_said_once_that_nothing_is_heard_and_when_it_is_again(
    schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="midflight.stores")
    with postgres_server() as address:
        async with PostgresStore.open(address, schema=schema) as store:
            driver = await running(store)
            await anyio.to_thread.run_sync(restart_as_a_standby, address)
            await until(lambda: _said(caplog, ["news_lost"]))
            await anyio.sleep(1.5)
            with pytest.raises(StoreReadOnly):
                await store.ready()

            promoter = await asyncpg.connect(address)
            assert await promoter.fetchval("SELECT pg_promote()")
            await promoter.close()

            await driver.begins()
            await until(lambda: _said(caplog, ["news_lost", "news_heard"]))
            await store.ready()


async def _said(caplog: pytest.LogCaptureFixture, actions: list[str]) -> bool:
    return [getattr(record, "action", "") for record in caplog.records] == actions


async def test_an_address_may_name_several_servers_and_ask_for_the_one_that_takes_something(
    postgres_address: str, schema: str, tmp_path: Path
) -> None:
    async with served(postgres_address) as server:
        options = f"&target_session_attrs=read-write&schema={schema}"
        several = server.address.replace("host=", f"host={tmp_path},") + options
        async with open_store(several) as store:
            await running(store)

        await server.set("default_transaction_read_only", "on")
        with pytest.raises(StoreReadOnly, match="read and not written"):
            async with open_store(server.address + options):
                pass
