"""Rows of switches: one for each scope in which something starts, for as long as that is there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import anyio
import pytest

from midflight.errors import ScopeStopped
from midflight.stores.postgres import PostgresStore, links
from midflight.stores.postgres.postgres_server import SQL
from midflight.stores.protocol import Purged
from stores.halfway import by_hand, not_committed, stores_wait
from stores.runs import OLGA, ended, open_thread, running, start

pytestmark = [pytest.mark.postgres, pytest.mark.anyio]

OF_THREAD = "thread:t-1"
HELD = "SELECT FROM switches WHERE scope = $1 FOR SHARE"


@pytest.fixture
def schema() -> str:
    return f"test_{uuid4().hex}"


@pytest.fixture
async def store(
    postgres_address: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresStore]:
    monkeypatch.setattr(links, "MIND_S", 1000.0)  # who waits here waits until it is let go
    async with PostgresStore.open(postgres_address, schema=schema) as opened:
        yield opened


async def of_threads(store: PostgresStore) -> list[str]:
    rows = await store._pool.fetch(
        "SELECT scope FROM switches WHERE scope LIKE 'thread:%' ORDER BY 1"
    )
    return [scope for (scope,) in rows]


async def purge(store: PostgresStore) -> Purged:
    return await store.purge(await store.now() + 60)


async def test_the_switch_of_a_thread_goes_with_it_unless_it_is_on(store: PostgresStore) -> None:
    await open_thread(store, "t-talk")
    for thread in ("t-run-only", "t-talk", "t-stopped", "t-stays"):
        await ended(store, f"r-{thread}", thread=thread)
    await running(store, "r-lives", thread="t-stays")
    await store.kill("thread:t-stopped", OLGA, "enough")
    assert len(await of_threads(store)) == 4

    await purge(store)

    assert await of_threads(store) == ["thread:t-stays", "thread:t-stopped"]
    assert [switch.scope for switch in await store.switches()] == ["thread:t-stopped"]
    with pytest.raises(ScopeStopped):
        await start(store, "r-again", thread="t-stopped")
    await start(store, "r-again", thread="t-talk")


async def test_the_switches_that_are_on_are_found_without_a_look_at_the_others(
    store: PostgresStore,
) -> None:
    plan = await store._pool.fetch("EXPLAIN " + SQL["switches"])

    assert any("switches_on" in line for (line,) in plan)


async def test_a_purge_does_not_wait_for_who_starts_something_and_leaves_them_their_switch(
    store: PostgresStore, postgres_address: str, schema: str
) -> None:
    await ended(store)
    async with not_committed(postgres_address, schema, HELD, OF_THREAD):
        with anyio.fail_after(15):
            assert (await purge(store)).runs == 1

    assert await of_threads(store) == [OF_THREAD]


async def test_who_starts_something_while_its_switch_is_removed_makes_another(
    store: PostgresStore, postgres_address: str, schema: str
) -> None:
    await ended(store)
    remove = "DELETE FROM switches WHERE scope = $1"
    async with (
        anyio.create_task_group() as tasks,
        not_committed(postgres_address, schema, remove, OF_THREAD, keep=True),
    ):
        tasks.start_soon(start, store, "r-2")
        assert await stores_wait(postgres_address, 1)

    assert (await store.row("r-2")).head == 1
    assert await of_threads(store) == [OF_THREAD]


async def test_a_kill_whose_switch_is_removed_under_its_hands_sets_another(
    store: PostgresStore, postgres_address: str, schema: str
) -> None:
    await running(store)
    async with (
        by_hand(postgres_address, schema) as purging,
        anyio.create_task_group() as tasks,
        purging.transaction(),
    ):
        await purging.execute("SELECT FROM switches WHERE scope = $1 FOR UPDATE", OF_THREAD)
        tasks.start_soon(store.kill, OF_THREAD, OLGA, "enough")
        assert await stores_wait(postgres_address, 1)
        await purging.execute("DELETE FROM switches WHERE scope = $1", OF_THREAD)

    assert [switch.scope for switch in await store.switches()] == [OF_THREAD]
    assert (await store.row("r-1")).phase == "killed"
