"""The hub, where a slow read of the gap and fresh news meet: neither overtakes, none is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import anyio
import pytest

from midflight.journal import events as e
from midflight.journal.record import Recorded
from midflight.stores.hints import Began, Delta, LiveCall
from midflight.stores.hub import Hub
from midflight.stores.protocol import PAGE
from midflight.stores.subscription import BACKLOG_MAX
from stores.runs import RUN, positions

pytestmark = pytest.mark.anyio


def at(position: int, journal: str = RUN) -> Recorded:
    return Recorded(journal, position, float(position), e.PlanSet(epoch=1, steps=()))


class SlowStore:
    """A journal whose readers see it as it was when they asked, and wait for their answer."""

    def __init__(self) -> None:
        self.hub = Hub(self.read)
        self.written: list[Recorded] = []
        self.asked = anyio.Event()
        self.answer = anyio.Event()

    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        page = self.written[after : after + limit]
        self.asked.set()
        await self.answer.wait()
        return page

    def append(self, *, publish: bool = True) -> None:
        self.written.append(at(len(self.written) + 1))
        if publish:
            self.hub.publish(self.written[-1:])


@asynccontextmanager
async def watched(store: SlowStore, cursors: Mapping[str, int]) -> AsyncIterator[list[Recorded]]:
    """What a watcher in a task of its own has got so far."""
    got: list[Recorded] = []

    async def watch() -> None:
        async with store.hub.watch(cursors) as subscription:
            async for record in subscription:
                got.append(record)  # noqa: PERF401 - it never ends

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        yield got
        tasks.cancel_scope.cancel()


async def test_news_that_is_also_in_the_page_under_way_comes_once() -> None:
    store = SlowStore()
    async with watched(store, {RUN: 0}) as got:
        store.append(publish=False)
        await store.asked.wait()
        store.hub.publish(store.written)
        store.append()
        store.answer.set()
        await anyio.wait_all_tasks_blocked()

    assert positions(got) == [1, 2]


async def test_news_that_came_while_an_older_page_was_read_is_not_lost() -> None:
    store = SlowStore()
    async with watched(store, {RUN: 0}) as got:
        await store.asked.wait()
        store.append()
        store.append()
        store.answer.set()
        await anyio.wait_all_tasks_blocked()

    assert positions(got) == [1, 2]


async def test_who_has_tapped_hears_what_comes_next_at_once_also_while_a_page_is_read() -> None:
    store, heard = SlowStore(), list[Recorded]()
    async with (
        anyio.create_task_group() as tasks,
        store.hub.watch({RUN: 0}) as subscription,
    ):

        async def listen() -> None:
            async for record in subscription:
                heard.append(record)

        subscription.tap(heard.extend)
        tasks.start_soon(listen)
        await store.asked.wait()
        store.append()
        store.append()
        at_once = positions(heard)
        store.answer.set()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    assert at_once == positions(heard) == [1, 2]


async def test_a_task_that_waits_for_one_record_is_woken_by_it_also_behind_a_gap() -> None:
    store, seen = SlowStore(), list[int]()
    store.answer.set()

    def is_third(record: Recorded) -> bool:
        seen.append(record.position)
        return record.position == 3

    async with (
        store.hub.watch({RUN: 0}) as subscription,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(subscription.until, is_third)
        await anyio.wait_all_tasks_blocked()
        store.append()
        store.append(publish=False)
        store.hub.moved({RUN: 2})
        await anyio.wait_all_tasks_blocked()
        store.append()
        store.append()

    assert seen == [1, 2, 3]


async def test_an_error_in_what_a_task_waits_for_is_that_tasks_and_not_the_writers() -> None:
    store = SlowStore()
    store.answer.set()

    def fails(_: Recorded) -> bool:
        raise LookupError("no such key")

    async with store.hub.watch({RUN: 0}) as subscription, anyio.create_task_group() as tasks:

        async def wait() -> None:
            with pytest.raises(LookupError, match="no such key"):
                await subscription.until(fails)

        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        store.append()


@pytest.mark.slow
async def test_who_hears_only_that_a_journal_has_moved_reads_it() -> None:
    store = SlowStore()
    store.answer.set()
    async with watched(store, {RUN: 0}) as got:
        await anyio.wait_all_tasks_blocked()
        store.append(publish=False)
        store.hub.moved({RUN: 1, "r-other": 9})
        await anyio.wait_all_tasks_blocked()
        assert positions(got) == [1]

        store.append(publish=False)
        store.hub.moved({RUN: None})
        await anyio.wait_all_tasks_blocked()

    assert positions(got) == [1, 2]


async def test_old_news_does_not_send_anybody_to_the_store() -> None:
    store = SlowStore()
    store.answer.set()
    store.append(publish=False)
    async with watched(store, {RUN: 0}) as got:
        await anyio.wait_all_tasks_blocked()
        store.asked = anyio.Event()
        store.hub.moved({RUN: 1})
        store.hub.publish(store.written)
        await anyio.wait_all_tasks_blocked()

        assert not store.asked.is_set()
    assert positions(got) == [1]


@pytest.mark.slow
async def test_news_with_a_gap_before_it_waits_for_what_was_missed() -> None:
    store = SlowStore()
    store.answer.set()
    async with watched(store, {RUN: 0}) as got:
        await anyio.wait_all_tasks_blocked()
        store.append(publish=False)
        store.append()
        await anyio.wait_all_tasks_blocked()

    assert positions(got) == [1, 2]


async def test_a_busy_journal_starves_no_other() -> None:
    quiet = {f"r-{number}" for number in range(5)}

    async def read(journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        await anyio.lowlevel.checkpoint()
        if journal == "r-busy":
            hub.moved({journal: after + 2})  # somebody has written again meanwhile
        elif after:
            return []
        return [at(after + 1, journal)]

    hub = Hub(read)
    async with hub.watch(dict.fromkeys({"r-busy", *quiet}, 0)) as subscription:
        listening = aiter(subscription)
        heard = {(await anext(listening)).journal for _ in range(12)}

    assert heard == {"r-busy", *quiet}


async def test_a_watcher_that_does_not_listen_costs_no_more_than_its_backlog() -> None:
    store = SlowStore()
    store.answer.set()
    async with store.hub.watch({RUN: 0}) as subscription:
        listening = aiter(subscription)
        store.append()
        assert (await anext(listening)).position == 1
        for _ in range(3 * BACKLOG_MAX):
            store.append()

        rest = [await anext(listening) for _ in range(3 * BACKLOG_MAX)]

    assert positions(rest) == list(range(2, 2 + 3 * BACKLOG_MAX))


async def test_a_journal_that_nobody_watches_any_more_is_forgotten() -> None:
    store = SlowStore()
    async with store.hub.watch({RUN: 0}) as subscription:
        subscription.add("r-other", 0)
        assert sorted(store.hub.watched) == [RUN, "r-other"]

    assert store.hub.watched == []
    store.append()


# ── what steps say ───────────────────────────────────────────────────────────────────────────


def streamed(position: int, offset: int, text: str) -> Recorded:
    event = e.TextStreamed(epoch=1, step="think", offset=offset, text=text)
    return Recorded(RUN, position, float(position), event)


@asynccontextmanager
async def listened(store: SlowStore) -> AsyncIterator[list[Recorded | Delta]]:
    """What a live watcher in a task of its own has got so far."""
    got: list[Recorded | Delta] = []

    async def watch() -> None:
        async with store.hub.watch_live({RUN: 0}) as subscription:
            async for item in subscription:
                got.append(item)  # noqa: PERF401 - it never ends

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await anyio.wait_all_tasks_blocked()
        yield got
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()


def told(got: list[Recorded | Delta]) -> list[tuple[int, str]]:
    return [(item.offset, item.text) for item in got if isinstance(item, Delta)]


async def test_what_is_said_while_a_gap_is_read_comes_behind_it_even_if_its_step_has_ended() -> (
    None
):
    store = SlowStore()
    async with listened(store) as got:
        store.append(publish=False)
        voice = store.hub.voices.begin(RUN, "think", 0)
        voice.say("Dear")
        store.hub.voices.end(voice)
        store.hub.moved({RUN: 1})
        store.answer.set()

    assert [type(item) for item in got] == [Recorded, Delta]
    assert told(got) == [(0, "Dear")]


async def test_what_a_record_of_text_cuts_off_is_told_once_more_behind_it() -> None:
    store = SlowStore()
    store.answer.set()
    async with listened(store) as got:
        voice = store.hub.voices.begin(RUN, "think", 0)
        voice.say("Dear Ann")
        await anyio.wait_all_tasks_blocked()
        store.written.append(streamed(1, 0, "Dear"))
        store.hub.publish(store.written[-1:])

    assert told(got) == [(0, "Dear Ann"), (4, " Ann")]
    assert isinstance(got[1], Recorded)


async def test_an_attempt_after_another_speaks_from_the_beginning() -> None:
    store = SlowStore()
    store.answer.set()
    async with listened(store) as got:
        first = store.hub.voices.begin(RUN, "think", 0)
        first.say("Dear Ann")
        store.hub.voices.end(first)
        await anyio.wait_all_tasks_blocked()
        store.hub.voices.begin(RUN, "think", 0).say("Dear Bob")

    assert told(got) == [(0, "Dear Ann"), (0, "Dear Bob")]


async def test_no_delta_overtakes_the_records_before_it() -> None:
    store = SlowStore()
    store.answer.set()
    async with listened(store) as got:
        store.append()
        store.append()
        store.hub.voices.begin(RUN, "think", 2).say("Dear")
        store.append()

    kinds = [item.position if isinstance(item, Recorded) else "said" for item in got]
    assert kinds == [1, 2, "said", 3]


async def test_what_is_said_from_any_offset_is_the_end_of_the_whole() -> None:
    voice = SlowStore().hub.voices.begin(RUN, "think", 0)
    for piece in ("De", "ar", " ", "Ann"):
        voice.say(piece)

    assert [voice.since(offset) for offset in range(9)] == ["Dear Ann"[n:] for n in range(9)]


async def test_a_read_that_has_begun_is_told_once_and_only_to_who_asked_for_it() -> None:
    store = SlowStore()
    store.answer.set()
    got: list[Recorded | Delta] = []

    async def watch() -> None:
        async with store.hub.watch_live({RUN: 0}) as subscription:
            subscription.hear_calls()
            async for item in subscription:
                got.append(item)  # noqa: PERF401 - it never ends

    call = LiveCall("Look", "shop.find")
    async with anyio.create_task_group() as tasks, listened(store) as others:
        store.hub.voices.begin(RUN, "early", 0, call)
        tasks.start_soon(watch)
        await anyio.wait_all_tasks_blocked()
        voice = store.hub.voices.begin(RUN, "look", 0, call)
        await anyio.wait_all_tasks_blocked()
        voice.say("found")
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    assert got == [
        Began(RUN, "early", 0, 0, "", call),
        Began(RUN, "look", 0, 0, "", call),
        Delta(RUN, "look", 0, 0, "found"),
    ]
    assert others == [Delta(RUN, "look", 0, 0, "found")]
