"""Watching: every event once, in order, without a gap, and before its author is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import anyio
import pytest
from msgspec import Raw

from midflight.journal import events as e
from midflight.journal.record import Recorded
from midflight.stores.protocol import PAGE, Store, Watch
from stores.backends import DURABLE, Open
from stores.runs import (
    OLGA,
    RUN,
    THREAD,
    Driver,
    names,
    open_thread,
    pause,
    positions,
    read_all,
    running,
    say,
    start,
)

pytestmark = pytest.mark.anyio


class Watcher:
    """Takes events one by one from a watch; each must come within a bound no test ever meets."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self._events = aiter(watch)

    async def take(self, count: int) -> list[Recorded]:
        with anyio.fail_after(20):
            return [await anext(self._events) for _ in range(count)]

    async def take_what_is_there(self) -> Recorded:
        """The next event, if it can be had without waiting for anything."""
        with anyio.fail_after(0):
            return await anext(self._events)


@asynccontextmanager
async def watching(store: Store, cursors: Mapping[str, int]) -> AsyncIterator[Watcher]:
    async with store.watch(cursors) as watch:
        yield Watcher(watch)


async def write_lines(driver: Driver, count: int) -> None:
    """Append many events, some hundred at a time."""
    for first in range(0, count, 300):
        numbers = range(first, min(first + 300, count))
        await driver.decides(*(e.PlanSet(epoch=1, steps=(str(number),)) for number in numbers))


# ── from where ───────────────────────────────────────────────────────────────────────────────


async def test_from_the_beginning_it_is_the_whole_journal(store: Store) -> None:
    await running(store)

    async with watching(store, {RUN: 0}) as watcher:
        assert await watcher.take(3) == await read_all(store)


async def test_from_the_middle_it_is_what_came_after(store: Store) -> None:
    await running(store)

    async with watching(store, {RUN: 2}) as watcher:
        assert names(await watcher.take(1)) == ["run.entered"]


async def test_then_it_is_live(store: Store) -> None:
    driver = await running(store)

    async with watching(store, {RUN: 3}) as watcher:
        await driver.begins()
        await pause(store)

        assert names(await watcher.take(2)) == ["attempt.started", "pause.requested"]


async def test_it_waits_for_what_has_not_happened_yet(store: Store) -> None:
    driver = await running(store)
    seen: list[Recorded] = []

    async def watch(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with watching(store, {RUN: 2}) as watcher:
            await watcher.take(1)
            task_status.started()
            seen.extend(await watcher.take(2))

    async with anyio.create_task_group() as tasks:
        await tasks.start(watch)
        await anyio.wait_all_tasks_blocked()
        await driver.begins()
        await pause(store)

    assert positions(seen) == [4, 5]


async def test_a_journal_may_be_watched_before_it_is_written(store: Store) -> None:
    async with watching(store, {"r-later": 0}) as watcher:
        await start(store, "r-later")
        assert names(await watcher.take(1)) == ["run.created"]

        await pause(store, "r-later")
        assert names(await watcher.take(1)) == ["pause.requested"]


async def test_events_written_between_looking_and_watching_are_not_missed(store: Store) -> None:
    await running(store)
    seen = positions(await read_all(store))[-1]
    await pause(store)

    async with watching(store, {RUN: seen}) as watcher:
        assert names(await watcher.take(1)) == ["pause.requested"]


# ── several journals ─────────────────────────────────────────────────────────────────────────


async def test_several_journals_come_in_order_each(store: Store) -> None:
    await open_thread(store)
    drivers = [await running(store, f"r-{number}") for number in range(3)]
    cursors = {THREAD: 0} | {driver.run: 1 for driver in drivers}

    async with watching(store, cursors) as watcher:
        for driver in drivers:
            await driver.begins()
        await say(store, "hello")
        records = await watcher.take(2 + 3 * 3)

    for journal, after in cursors.items():
        own = [record for record in records if record.journal == journal]
        assert own == await read_all(store, journal, after)


async def test_a_journal_may_be_added_while_watching(store: Store) -> None:
    await running(store, "r-a")
    await running(store, "r-b")

    async with watching(store, {"r-a": 3}) as watcher:
        await pause(store, "r-a")
        assert [r.journal for r in await watcher.take(1)] == ["r-a"]
        watcher.watch.add("r-b", 1)
        await pause(store, "r-b")

        assert [(r.journal, r.position) for r in await watcher.take(3)] == [
            ("r-b", 2),
            ("r-b", 3),
            ("r-b", 4),
        ]


async def test_a_journal_added_to_one_who_waits_wakes_it(store: Store) -> None:
    await running(store, "r-a")
    await running(store, "r-b")
    seen: list[Recorded] = []

    async with watching(store, {"r-a": 3}) as watcher:

        async def wait() -> None:
            seen.extend(await watcher.take(1))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            watcher.watch.add("r-b", 2)

    assert [(r.journal, r.position) for r in seen] == [("r-b", 3)]


async def test_a_journal_added_twice_is_watched_once(store: Store) -> None:
    await running(store)

    async with watching(store, {RUN: 1}) as watcher:
        watcher.watch.add(RUN, 0)
        await pause(store)

        assert positions(await watcher.take(3)) == [2, 3, 4]


async def test_what_is_not_watched_is_not_heard(store: Store) -> None:
    await running(store, "r-a")
    await running(store, "r-b")

    async with watching(store, {"r-a": 3}) as watcher:
        await pause(store, "r-b")
        await pause(store, "r-a")

        assert [r.journal for r in await watcher.take(1)] == ["r-a"]


# ── order, loss, leaving ─────────────────────────────────────────────────────────────────────


async def test_a_watcher_has_been_told_by_the_time_the_author_is(store: Store) -> None:
    driver = await running(store)

    async with watching(store, {RUN: 2}) as watcher:
        await watcher.take(1)
        await driver.decides(e.PlanSet(epoch=1, steps=("a",)))
        await watcher.take(1)

        done = await pause(store)
        assert await watcher.take_what_is_there() == done.records[0]

        await driver.reads_again()
        done = await driver.decides(e.PlanSet(epoch=1, steps=("b",)))
        assert await watcher.take_what_is_there() == done.records[0]


async def test_what_was_published_may_be_taken_without_waiting_and_comes_once(
    store: Store,
) -> None:
    driver = await running(store)

    async with watching(store, {RUN: 2}) as watcher:
        await watcher.take(1)
        await driver.decides(e.PlanSet(epoch=1, steps=("a",)))
        await watcher.take(1)
        assert watcher.watch.ready() == []

        done = await pause(store)
        assert watcher.watch.ready() == list(done.records)

        await driver.reads_again()
        await driver.decides(e.PlanSet(epoch=1, steps=("b",)))
        assert positions(await watcher.take(1)) == [6]


async def test_who_taps_a_watch_hears_at_once_in_order_and_of_nothing_twice(store: Store) -> None:
    driver = await running(store)
    heard: list[int] = []

    async with watching(store, {RUN: 1}) as watcher:
        assert positions(await watcher.take(2)) == [2, 3]
        watcher.watch.tap(lambda records: heard.extend(positions(records)))
        await driver.decides(e.PlanSet(epoch=1, steps=("a",)))
        done = await pause(store)

        assert heard == [4, 5], "before its author was told, and with no turn of the loop between"
        assert done.position(RUN) == 5
        assert watcher.watch.ready() == []


async def test_what_still_waits_to_be_taken_is_not_overtaken_by_a_tap(store: Store) -> None:
    driver = await running(store)
    heard: list[int] = []

    async with watching(store, {RUN: 2}) as watcher:
        await watcher.take(1)
        await driver.decides(e.PlanSet(epoch=1, steps=("a",)))
        watcher.watch.tap(lambda records: heard.extend(positions(records)))
        await pause(store)

        assert heard == []
        assert positions(await watcher.take(2)) == [4, 5]


async def test_a_watcher_hears_of_a_kill(store: Store) -> None:
    await running(store)

    async with watching(store, {RUN: 3}) as watcher:
        await store.kill("all", OLGA)

        assert names(await watcher.take(1)) == ["run.killed"]


async def test_a_slow_watcher_gets_everything_once_and_in_order(store: Store) -> None:
    driver = await running(store)
    lines = 2 * PAGE + 150

    async with watching(store, {RUN: 2}) as watcher:
        await watcher.take(1)
        await write_lines(driver, lines)
        first = await watcher.take(PAGE + 1)
        await write_lines(driver, 2 * PAGE)  # and it falls behind again
        rest = await watcher.take(lines - (PAGE + 1) + 2 * PAGE)

    assert positions(first + rest) == list(range(4, 4 + lines + 2 * PAGE))


async def test_a_watcher_beside_busy_writers_misses_nothing(store: Store) -> None:
    drivers = [await running(store, f"r-{number}") for number in range(4)]
    seen: list[Recorded] = []

    async def watch() -> None:
        async with watching(store, {driver.run: 0 for driver in drivers}) as watcher:
            seen.extend(await watcher.take(4 * (3 + 50)))

    async def write(driver: Driver) -> None:
        for number in range(50):
            await driver.decides(e.PlanSet(epoch=1, steps=(str(number),)))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        for driver in drivers:
            tasks.start_soon(write, driver)

    for driver in drivers:
        own = [record for record in seen if record.journal == driver.run]
        assert own == await read_all(store, driver.run)


async def test_two_watchers_each_get_everything(store: Store) -> None:
    await running(store)

    async with watching(store, {RUN: 0}) as one, watching(store, {RUN: 2}) as two:
        await pause(store)

        assert positions(await one.take(4)) == [1, 2, 3, 4]
        assert positions(await two.take(2)) == [3, 4]


async def test_leaving_changes_nothing(store: Store) -> None:
    driver = await running(store)
    async with watching(store, {RUN: 0}) as staying:
        async with watching(store, {RUN: 0}) as leaving:
            await leaving.take(1)
        with anyio.move_on_after(0):
            async with watching(store, {RUN: 3}) as cancelled:
                await cancelled.take(1)

        await driver.begins()

        assert positions(await staying.take(4)) == [1, 2, 3, 4]
    assert (await store.row(RUN)).head == 4


async def test_who_breaks_off_goes_on_where_they_were(store: Store) -> None:
    driver = await running(store)
    seen: list[int] = []

    with anyio.fail_after(20):
        async with store.watch({RUN: 0}) as watch:
            for _ in range(2):
                async for record in watch:
                    seen.append(record.position)
                    break
            await driver.begins()
            async for record in watch:
                seen.append(record.position)
                if record.position == 4:
                    break

    assert seen == [1, 2, 3, 4]


async def test_who_gives_up_waiting_goes_on_where_they_were(store: Store) -> None:
    driver = await running(store)

    async with store.watch({RUN: 3}) as watch:
        with anyio.move_on_after(0.01):
            await anext(aiter(watch))
        await driver.begins()
        with anyio.fail_after(20):
            assert (await anext(aiter(watch))).position == 4


async def test_what_a_watcher_gets_is_what_is_read(store: Store) -> None:
    driver = await running(store)

    async with watching(store, {RUN: 0}) as watcher:
        attempt = await driver.begins(noun="Überweisung", undoable=True)
        await driver.settles(attempt, result=Raw(b'{"id": 7}'))

        assert await watcher.take(5) == await read_all(store)


@DURABLE
async def test_what_others_write_is_heard_too(open_store: Open) -> None:
    async with open_store() as here, open_store() as there:
        driver = await running(here)
        async with watching(there, {RUN: 3}) as watcher:
            await driver.begins()
            assert names(await watcher.take(1)) == ["attempt.started"]

            await pause(here)
            assert names(await watcher.take(1)) == ["pause.requested"]

            await here.kill("all", OLGA)
            assert names(await watcher.take(1)) == ["run.killed"]


@DURABLE
async def test_what_others_write_and_what_we_write_comes_in_order(open_store: Open) -> None:
    async with open_store() as here, open_store() as there:
        await open_thread(here)
        async with watching(there, {THREAD: 1}) as watcher:
            for number in range(20):
                await say(here if number % 2 else there, str(number))

            records = await watcher.take(20)

        assert [record.event.text for record in records] == [str(n) for n in range(20)]
