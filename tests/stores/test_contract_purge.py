"""Purging: what has ended goes with all that belongs to it; what lives stays whole."""

from __future__ import annotations

import anyio
import pytest
from msgspec import Raw

from midflight.errors import CorruptEntry, JournalConflict, JournalNotFound
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.threads import thread as t
from midflight.stores.protocol import Purged, Query, Store
from stores.backends import DURABLE, Open
from stores.runs import (
    ANN,
    OLGA,
    RUN,
    THREAD,
    ask,
    cancel,
    decision,
    ended,
    names,
    open_thread,
    pause,
    read_all,
    running,
    say,
    start,
    started,
)

pytestmark = pytest.mark.anyio

LARGE = Raw(b'"' + b"x" * 70_000 + b'"')


async def purge(store: Store, limit: int = 1000) -> Purged:
    """Remove whatever has ended by now."""
    return await store.purge(await store.now() + 60, limit)


async def left(store: Store) -> set[str]:
    found = await store.rows(Query()) + await store.rows(Query(kind="thread"))
    return {row.journal for row in found}


async def test_ended_runs_go_and_live_ones_stay(store: Store) -> None:
    await ended(store, "r-done")
    cancelled = await running(store, "r-cancelled")
    await cancel(store, "r-cancelled")
    await cancelled.finishes("cancelled")
    failed = await running(store, "r-failed")
    await failed.finishes("failed")
    await running(store, "r-killed", agent="painter")
    await store.kill("agent:painter", OLGA)
    await start(store, "r-queued")
    await running(store, "r-running")
    paused = await running(store, "r-paused")
    await pause(store, "r-paused")
    await paused.pauses()

    purged = await purge(store)

    assert purged == Purged(runs=4, threads=0, blobs=0)
    assert await left(store) == {"r-queued", "r-running", "r-paused"}
    assert names(await read_all(store, "r-running")) == [
        "run.created",
        "driver.claimed",
        "run.entered",
    ]


async def test_what_ended_later_stays(store: Store) -> None:
    before = await store.now() - 60
    await ended(store)

    assert await store.purge(before) == Purged(0, 0, 0)
    assert (await store.row(RUN)).phase == Phase.DONE


async def test_nothing_of_a_purged_run_is_found_any_more(store: Store) -> None:
    await ended(store)
    await purge(store)

    for look in (store.read, store.load, store.row):
        with pytest.raises(JournalNotFound):
            await look(RUN)
    assert await store.rows(Query()) == []
    assert await store.due() == []


async def test_a_purged_run_takes_nothing_any_more(store: Store) -> None:
    driver = await ended(store)
    await purge(store)

    with pytest.raises(JournalConflict):
        await driver.leaves()
    with pytest.raises(JournalNotFound):
        await ask(store, e.UndoRequested(who=ANN, effects=(4,)))
    with pytest.raises(JournalNotFound):
        await store.read(RUN)


@DURABLE
async def test_what_another_has_purged_is_gone_here_too(open_store: Open) -> None:
    async with open_store() as here, open_store() as there:
        driver = await ended(here)
        await purge(there)

        with pytest.raises(JournalConflict):
            await driver.leaves()
        with pytest.raises(JournalNotFound):
            await pause(here)
        await start(here)
        assert names(await read_all(there)) == ["run.created"]


async def test_an_id_may_be_used_again_after_its_run_was_purged(store: Store) -> None:
    await ended(store, brief="first")
    await purge(store)

    await start(store, brief="second")

    assert [record.event.brief for record in await read_all(store)] == ["second"]
    assert (await store.row(RUN)).title == "second"


async def test_blobs_go_with_the_last_run_that_has_them(store: Store) -> None:
    shared = Raw(b'"' + b"y" * 70_000 + b'"')
    done = await running(store, "r-done")
    await done.settles(await done.begins("own"), result=LARGE)
    await done.settles(await done.begins("both"), result=shared)
    await done.finishes()
    living = await running(store, "r-living")
    await living.settles(await living.begins("both"), result=shared)
    own, both = [
        r.event.blob for r in await read_all(store, "r-done") if "settled" in names([r])[0]
    ]

    assert await purge(store) == Purged(runs=1, threads=0, blobs=1)

    with pytest.raises(CorruptEntry):
        await store.blob(own.hash)
    assert await store.blob(both.hash) == bytes(shared)


async def test_a_thread_goes_with_its_last_run(store: Store) -> None:
    await open_thread(store)
    await say(store, "hello")
    await ended(store, thread=THREAD)

    assert await purge(store) == Purged(runs=1, threads=1, blobs=0)
    with pytest.raises(JournalNotFound):
        await store.read(THREAD)


async def test_a_thread_with_a_live_run_stays(store: Store) -> None:
    await open_thread(store)
    await ended(store, "r-done", thread=THREAD)
    await running(store, "r-living", thread=THREAD)

    assert await purge(store) == Purged(runs=1, threads=0, blobs=0)
    assert await left(store) == {THREAD, "r-living"}


async def test_a_thread_with_a_todo_stays(store: Store) -> None:
    await open_thread(store)
    await store.append(decision(THREAD, 1, t.TodoAdded(kind="deferred", text="call Bob")))

    assert await purge(store) == Purged(0, 0, 0)
    await say(store, "still here")


async def test_a_thread_that_was_only_asked_about_is_no_thread(store: Store) -> None:
    with pytest.raises(JournalNotFound):
        await say(store, "anybody there?", "t-unknown")

    assert await purge(store) == Purged(0, 0, 0)


async def test_no_more_runs_go_at_once_than_were_asked_for(store: Store) -> None:
    for number in range(5):
        await ended(store, f"r-{number}")

    assert [(await purge(store, limit=2)).runs for _ in range(4)] == [2, 2, 1, 0]


async def test_a_run_stays_while_one_that_was_forked_from_it_lives(store: Store) -> None:
    """Each time a fork is driven it reads what it took over, down to the first of its line."""
    await ended(store, "r-1-first")
    await ended(store, "r-2-fork", fork_of="r-1-first", fork_at=2)
    await ended(store, "r-3-other")
    fork = await running(store, "r-4-fork-of-fork", fork_of="r-2-fork", fork_at=2)

    assert await purge(store) == Purged(runs=1, threads=0, blobs=0)
    assert await left(store) == {"r-1-first", "r-2-fork", "r-4-fork-of-fork"}

    await fork.finishes()
    assert await purge(store) == Purged(runs=3, threads=0, blobs=0)


async def test_a_run_stays_while_a_fork_of_it_may_still_be_recovered_or_undone(
    store: Store,
) -> None:
    await ended(store, "r-1")
    between = await store.now()
    await anyio.sleep(0.05)
    await ended(store, "r-2", fork_of="r-1", fork_at=2)

    assert await store.purge(between + 0.02) == Purged(0, 0, 0)
    assert await left(store) == {"r-1", "r-2"}


async def test_what_has_to_stay_keeps_no_other_from_going(store: Store) -> None:
    await ended(store, "r-1")
    await ended(store, "r-2")
    await start(store, "r-3", fork_of="r-1", fork_at=2)
    await start(store, "r-4", fork_of="r-2", fork_at=2)
    await ended(store, "r-5")

    assert [(await purge(store, limit=1)).runs for _ in range(2)] == [1, 0]
    assert "r-5" not in await left(store)


async def test_a_fork_goes_before_what_it_was_forked_from(store: Store) -> None:
    await ended(store, "r-1")
    await ended(store, "r-2", fork_of="r-1", fork_at=2)

    await purge(store, limit=1)

    assert await left(store) == {"r-1"}
    assert (await purge(store, limit=1)).runs == 1


async def test_a_run_that_has_ended_stays_while_the_run_that_has_begun_it_lives(
    store: Store,
) -> None:
    """Also further down: an undo of the first reaches what the last has done."""
    parent = await running(store, "r-1-parent")
    await ended(store, "r-2-child", parent="r-1-parent")
    await ended(store, "r-3-grandchild", parent="r-2-child")
    await ended(store, "r-4-other")
    await ended(store, "r-5-orphan", parent="r-0-purged-before")

    assert await purge(store) == Purged(runs=2, threads=0, blobs=0)
    assert await left(store) == {"r-1-parent", "r-2-child", "r-3-grandchild"}

    await parent.finishes()
    assert await purge(store) == Purged(runs=3, threads=0, blobs=0)


async def test_a_run_stays_while_the_run_that_has_begun_it_may_still_be_undone(
    store: Store,
) -> None:
    await ended(store, "r-2-child", parent="r-1-parent")
    between = await store.now()
    await anyio.sleep(0.05)
    await ended(store, "r-1-parent")

    assert await store.purge(between + 0.02) == Purged(0, 0, 0)
    assert await left(store) == {"r-1-parent", "r-2-child"}


async def test_the_runs_below_a_run_go_with_it_also_a_few_at_a_time(store: Store) -> None:
    await ended(store, "r-1-parent")
    for number in range(3):
        await ended(store, f"r-2-child-{number}", parent="r-1-parent")
    await running(store, "r-3-living")
    await ended(store, "r-4-child-of-it", parent="r-3-living")

    assert [(await purge(store, limit=2)).runs for _ in range(3)] == [2, 2, 0]
    assert await left(store) == {"r-3-living", "r-4-child-of-it"}


async def test_what_a_run_was_given_is_not_taken_for_a_fork(store: Store) -> None:
    """An input may name anything, and a brief may quote it."""
    await ended(store, "r-1")
    given = Raw(b'{"fork_of":"r-other"}')
    await start(store, "r-2", input=given, brief='"fork_of":"r-other"', fork_of="r-1", fork_at=2)
    await ended(store, "r-3")
    await start(store, "r-4", brief='"fork_of":"r-3" \0')

    await purge(store)

    assert await left(store) == {"r-1", "r-2", "r-4"}


async def test_other_journals_work_on_after_a_purge(store: Store) -> None:
    driver = await running(store, "r-living")
    await ended(store, "r-done")
    await purge(store)

    assert await driver.begins() == 4
    with pytest.raises(JournalConflict):
        await store.append(decision("r-living", 3, started("again")))
