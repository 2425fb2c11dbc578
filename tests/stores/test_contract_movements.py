"""The list of runs: what moves anywhere is named, and runs are found by their words."""

from __future__ import annotations

import anyio
import pytest

from midflight.stores.hints import Movements
from midflight.stores.protocol import Query, Store
from stores.backends import DURABLE, Open
from stores.runs import OLGA, open_thread, pause, running, say, start

pytestmark = pytest.mark.anyio


async def moved(movements: Movements) -> dict[str, bool]:
    with anyio.fail_after(20):
        await movements.wait()
    return movements.take()


async def test_every_journal_that_moves_is_named_once_until_somebody_looks(store: Store) -> None:
    await start(store)
    async with store.movements() as movements:
        await pause(store)
        await start(store, "r-2")
        await open_thread(store)
        await say(store, "hello")

        assert {"r-1", "r-2", "t-1"} <= set(await moved(movements))


async def test_a_mere_step_is_told_from_what_changes_more_than_counters(store: Store) -> None:
    driver = await running(store)
    async with store.movements() as movements:
        await driver.begins()
        counted = await moved(movements)
        await pause(store)
        changed = await moved(movements)

    assert counted == {"r-1": False}
    assert changed["r-1"]


async def test_a_kill_names_the_runs_that_it_ended(store: Store) -> None:
    await running(store)
    async with store.movements() as movements:
        await store.kill("all", OLGA)

        assert "r-1" in await moved(movements)


async def test_who_has_left_is_told_nothing(store: Store) -> None:
    async with store.movements() as movements:
        pass
    await start(store)

    assert movements.take() == {}


@pytest.mark.slow
@DURABLE
async def test_what_another_process_appends_is_named_too(open_store: Open) -> None:
    async with open_store() as here, open_store() as there, here.movements() as movements:
        await anyio.sleep(0.3)  # until it listens
        await start(there, "r-7")
        named: set[str] = set()
        with anyio.fail_after(20):
            while "r-7" not in named:
                named |= set(await moved(movements))


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("invoice", ["r-2", "r-1"]),
        ("INVOICE june", ["r-1"]),
        ("june invoice", ["r-1"]),
        ("books", ["r-3"]),
        ("quarter", ["r-3"]),
        ("books quarter", ["r-3"]),
        ("Zoë's", ["r-2"]),
        ("100%", ["r-4"]),
        ("_", []),
        ("\\", ["r-4"]),
        ("nothing", []),
        ("  ", ["r-4", "r-3", "r-2", "r-1"]),
    ],
)
async def test_runs_are_found_by_words_of_their_title_and_their_brief(
    store: Store, search: str, expected: list[str]
) -> None:
    await start(store, "r-1", brief="Send the Invoices of June")
    await start(store, "r-2", brief="Check Zoë's invoice")
    await start(store, "r-3", brief="Everything of this quarter", title="Books")
    await start(store, "r-4", brief='100% of "C:\\temp"')

    found = await store.rows(Query(search=search))

    assert [row.journal for row in found] == expected


async def test_a_search_keeps_to_the_other_conditions_and_its_pages(store: Store) -> None:
    for number in range(1, 6):
        await start(store, f"r-{number}", brief=f"Report {number}", agent="clerk")
    await start(store, "r-6", brief="Report 6", agent="painter")

    first = await store.rows(Query(search="report", agent="clerk", limit=2))
    second = await store.rows(Query(search="report", agent="clerk", limit=2, before="r-4"))

    assert [row.journal for row in first + second] == ["r-5", "r-4", "r-3", "r-2"]
