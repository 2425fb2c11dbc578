"""Large values: kept once, beside the journal; what is larger still is refused in time."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from midflight.errors import CorruptEntry, PayloadTooLarge
from midflight.journal import events as e
from midflight.journal.phases import Outcome
from midflight.journal.record import NULL, Blob
from midflight.stores.codec import BLOB_MAX, EVENT_MAX, INLINE_MAX
from midflight.stores.protocol import Store
from stores.backends import DURABLE, Open
from stores.runs import RUN, outcome, pause, read_all, running, start, tell

pytestmark = pytest.mark.anyio


def text(size: int, letter: str = "x") -> Raw:
    """A JSON string that takes exactly so many bytes."""
    return Raw(f'"{letter * (size - 2)}"'.encode())


async def test_a_result_of_64_kb_stands_in_the_journal(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins()

    await driver.settles(attempt, result=text(INLINE_MAX))

    (settled,) = await read_all(store, after=4)
    assert settled.event == outcome(attempt, result=text(INLINE_MAX))
    assert settled.event.blob is None


async def test_a_larger_result_is_found_under_its_hash(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins()
    value = msgspec.json.encode({"rows": ["äöü"] * 20_000})

    done = await driver.settles(attempt, result=Raw(value))

    (settled,) = await read_all(store, after=4)
    assert done.records == (settled,)
    assert settled.event.result == NULL
    assert settled.event.blob.size == len(value)
    assert await store.blob(settled.event.blob.hash) == value


async def test_one_byte_more_than_64_kb_makes_the_difference(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins()

    await driver.settles(attempt, result=text(INLINE_MAX + 1))

    (settled,) = await read_all(store, after=4)
    assert isinstance(settled.event.blob, Blob)


async def test_every_event_that_carries_a_result_may_carry_a_large_one(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins()
    await tell(store, outcome(attempt, Outcome.UNKNOWN))
    await tell(store, e.StepSettled(epoch=1, step="s", name="read", result=text(70_000, "a")))
    late = e.LateOutcome(epoch=1, attempt=attempt, outcome=Outcome.DONE, result=text(70_000, "b"))
    await tell(store, late)
    await driver.reads_again()
    await driver.decides(e.StateSaved(epoch=1, state=text(70_000, "c")))
    await driver.finishes(result=text(70_000, "d"))

    stored = [record.event.blob for record in await read_all(store, after=5)]

    assert [(await store.blob(blob.hash))[1:2] for blob in stored] == [b"a", b"b", b"c", b"d"]


async def test_the_same_content_is_stored_once(store: Store) -> None:
    for run in ("r-a", "r-b"):
        driver = await running(store, run)
        for step in ("first", "second"):
            await driver.settles(await driver.begins(step), result=text(100_000))
        await driver.finishes()

    journals = [await read_all(store, run) for run in ("r-a", "r-b")]
    blobs = {r.event.blob.hash for journal in journals for r in journal if has_blob(r.event)}
    purged = await store.purge(await store.now() + 60)

    assert (len(blobs), purged.blobs) == (1, 1)


def has_blob(event: object) -> bool:
    return getattr(event, "blob", None) is not None


async def test_there_is_no_blob_under_an_unknown_hash(store: Store) -> None:
    with pytest.raises(CorruptEntry):
        await store.blob("0" * 40)


@pytest.mark.slow
async def test_20_mb_are_refused_and_the_journal_stays_usable(store: Store) -> None:
    driver = await running(store)
    attempt = await driver.begins()
    before = await store.load(RUN)

    with pytest.raises(PayloadTooLarge) as refusal:
        await driver.settles(attempt, result=text(20_000_000))

    assert (refusal.value.journal, refusal.value.size) == (RUN, 20_000_000)
    assert refusal.value.limit == BLOB_MAX
    assert await store.load(RUN) == before
    await driver.settles(attempt, result=Raw(b'"in report.csv"'))


async def test_what_comes_before_a_value_that_is_too_large_is_not_written(store: Store) -> None:
    driver = await running(store)
    before = await store.load(RUN)

    with pytest.raises(PayloadTooLarge):
        await driver.decides(
            e.PlanSet(epoch=1, steps=("a",)), e.StateSaved(epoch=1, state=text(20_000_000))
        )

    assert await store.load(RUN) == before
    assert await driver.begins() == 4


async def test_a_large_value_whose_append_was_refused_leaves_no_blob(store: Store) -> None:
    driver = await running(store)

    with pytest.raises(Exception, match="Nothing was appended"):
        await driver.decides(e.StateSaved(epoch=1, state=text(70_000)), e.WaitBegan(epoch=1))
    await driver.finishes()

    assert (await store.purge(await store.now() + 60)).blobs == 0


async def test_an_event_of_more_than_1_mb_is_refused(store: Store) -> None:
    await start(store)

    with pytest.raises(PayloadTooLarge) as refusal:
        await start(store, "r-long", brief="x" * EVENT_MAX)

    assert (refusal.value.journal, refusal.value.limit) == ("r-long", EVENT_MAX)
    assert (await pause(store)).position(RUN) == 2


@DURABLE
async def test_a_blob_is_there_for_whoever_opens_the_store_next(open_store: Open) -> None:
    async with open_store() as store:
        driver = await running(store)
        await driver.finishes(result=text(3_000_000))
    async with open_store() as store:
        (finished,) = await read_all(store, after=3)

        assert await store.blob(finished.event.blob.hash) == bytes(text(3_000_000))
