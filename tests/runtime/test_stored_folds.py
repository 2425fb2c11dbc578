"""A stored fold tells what the journal tells: of the run's state, and of its function's way."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any, Final

import anyio
import anyio.lowlevel
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from journal.histories import MAKERS, NUMBERS, Chance, histories, offer
from journal.journals import Run, running
from midflight.journal import events as e
from midflight.journal import stored_fold
from midflight.journal.fold import advance
from midflight.journal.older import Older
from midflight.journal.phases import Outcome
from midflight.journal.record import Blob, Event, Recorded
from midflight.journal.state import SETTLE, RunState
from midflight.journal.stored_fold import (
    FoldRow,
    FoldRows,
    Part,
    StoredFold,
    attempts_in,
    may_follow,
    opened,
    restore,
    rows_of,
    shape,
    state_in,
)
from midflight.runtime.replay import stored_history
from midflight.runtime.replay.cursor import Cursor
from midflight.runtime.replay.step_records import IN_JOURNAL, Moment, Record
from midflight.runtime.replay.stored_history import Folds, folded, stretches, take_up

BOOKKEEPING = {"packed_to", "unpacked", "touched", "changed", "older", "pack_at", "pack"}
"""Fields that tell of the fold, and not of the journal."""


class Reader:
    """A run as its driver holds it: folded, and heard."""

    def __init__(self, journal: str) -> None:
        self.state = RunState(journal)
        self.history = Cursor()

    def read(self, records: list[Recorded]) -> None:
        for record in records:
            advance(self.state, record)
            self.history.hear(record)


@pytest.fixture(autouse=True)
def short_results_are_large() -> Iterator[None]:
    """Have every result of ``valued`` left in the journal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_history, "LEFT", 8)
        yield


def valued(records: Sequence[Recorded]) -> list[Recorded]:
    """The events, each with a result of its own if it can have one."""

    def with_result(record: Recorded) -> Recorded:
        if not isinstance(record.event, e.StepSettled | e.AttemptSettled | e.LateOutcome):
            return record
        result = Raw(msgspec.json.encode(f"learnt at {record.position}"))
        return msgspec.structs.replace(
            record, event=msgspec.structs.replace(record.event, result=result)
        )

    return [with_result(record) for record in records]


def told(value: Any, records: Sequence[Recorded]) -> Any:
    """A value as the journal has it: when this process heard of something is not in it."""
    match value:
        case dict():
            return {key: told(each, records) for key, each in value.items()}
        case Moment():
            return msgspec.structs.replace(value, heard=0.0)
        case Record(blob=Blob(hash=place)) if place.startswith(IN_JOURNAL):
            there: Any = records[int(place.removeprefix(IN_JOURNAL)) - 1].event
            return msgspec.structs.replace(value, result=there.result, blob=None)
        case _:
            return value


def known_by(
    reader: Reader, records: Sequence[Recorded], steps: Sequence[str] = ()
) -> dict[str, Any]:
    """All that a reader knows, when the function is called. What follows changes nothing of it.

    It is asked for the attempts of these steps before it is asked for anything else.
    """
    history = reader.history
    attempts = {step: history.attempts_of(step) for step in steps}
    known = {f"state.{each.name}": getattr(reader.state, each.name) for each in fields(RunState)}
    circles = history.circles
    seen = (circles.made, circles.failed, circles.possible, circles._last, circles.nudged_at)
    before = {each.name: told(getattr(history, each.name), records) for each in fields(Cursor)}
    history.enter()
    after = {each.name: told(getattr(history, each.name), records) for each in fields(Cursor)}
    known |= {f"before.{name}": before[name] for name in before if name not in OF_THE_WAY}
    known |= {f"after.{name}": value for name, value in after.items() if name not in BOOKKEEPING}
    del known["before.circles"], known["after.circles"]
    entry = [vars_of(history.entry)]
    del known["before.entry"], known["after.entry"]
    return known | {"circles": (seen, circles.history), "entry": entry, "attempts": attempts}


OF_THE_WAY = stored_history.OF_THE_WAY | BOOKKEEPING


def vars_of(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def through_a_store(fold: StoredFold) -> StoredFold:
    """The fold as it is read again."""
    read = opened(fold.journal, rows_of(fold, 0, 0, 0.0).rows)
    assert read is not None
    return read


def attempts_in_parts(fold: StoredFold) -> list[int]:
    return [each.position for part in fold.parts for each in attempts_in(fold.journal, part)]


def whole(journal: str, records: Sequence[Recorded]) -> Reader:
    reader = Reader(journal)
    reader.read(list(records))
    return reader


def taken_up(fold: StoredFold) -> Reader:
    reader = Reader(fold.journal)
    assert take_up(reader.state, reader.history, through_a_store(fold))
    return reader


STEPS = st.permutations(["book", "pay", "mail", "think", "look"])


@given(histories(), STEPS, st.data())
def test_a_fold_and_what_follows_it_tell_what_the_whole_journal_tells(
    run: Run, steps: list[str], data: st.DataObject
) -> None:
    records = valued(run.records)
    places = st.integers(1, len(records))
    cuts = sorted(data.draw(st.sets(places, min_size=1, max_size=4)))
    driver, known, at = Reader(run.state.journal), None, 0
    for cut in cuts:
        driver.read(records[at:cut])
        known, at = folded(driver.state, driver.history, known), cut
    assert known is not None
    other = taken_up(known)
    for reader in (driver, other):
        reader.read(records[at:])

    expected = known_by(whole(run.state.journal, records), records, steps)
    assert known_by(other, records, steps) == expected
    assert known_by(driver, records, steps) == expected


WORK: Final[tuple[type[Event], ...]] = (
    e.StepSettled,
    e.AttemptStarted,
    e.AttemptStarted,
    e.AttemptSettled,
)


@st.composite
def driven(draw: st.DrawFn) -> Run:
    """A run that is at work all the time, and repeats its few steps."""
    run = running()
    for number in draw(st.lists(st.integers(0, NUMBERS - 1), min_size=20, max_size=60)):
        chance = Chance(number)
        offer(run, MAKERS[chance.among(WORK)](run.state, chance))
    return run


@given(driven(), STEPS, st.data())
def test_a_run_that_was_taken_up_is_folded_again_and_taken_up_again(
    run: Run, steps: list[str], data: st.DataObject
) -> None:
    records = valued(run.records)
    places = st.integers(1, len(records))
    cuts = data.draw(st.dictionaries(places, st.booleans(), min_size=3, max_size=6))
    driver, known, at = Reader(run.state.journal), None, 0
    for cut in sorted(cuts):
        driver.read(records[at:cut])
        known, at = through_a_store(folded(driver.state, driver.history, known)), cut
        attempts = attempts_in_parts(known)
        assert len(attempts) == len(set(attempts)), "each attempt is in one part"
        if cuts[cut]:
            driver = taken_up(known)
    assert known is not None
    driver.read(records[at:])

    expected = known_by(whole(run.state.journal, records), records, steps)
    assert known_by(driver, records, steps) == expected


@given(histories(), STEPS, st.data())
def test_a_run_that_goes_on_while_it_is_packed_in_stretches_is_told_as_its_journal_tells_it(
    run: Run, steps: list[str], data: st.DataObject
) -> None:
    records = valued(run.records)
    at = data.draw(st.integers(1, len(records)))
    driver = whole(run.state.journal, records[:at])
    parts: list[Part] = []
    fold: StoredFold | None = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_history, "EVERY", 3)
        for stretch in stretches(driver.state, driver.history, anew=True):
            begun, at = at, data.draw(st.integers(at, min(at + 4, len(records))))
            driver.read(records[begun:at])
            parts.append(stretch.part())
            if stretch.state:
                fold = stretch.fold(run.state.journal, tuple(parts))
    if fold is None:
        assert driver.history.touched, "what was packed was not true any more"
        fold = folded(driver.state, driver.history, None)
    readers = (taken_up(fold), driver)
    readers[0].read(records[fold.position :])
    driver.read(records[at:])

    expected = known_by(whole(run.state.journal, records), records, steps)
    for reader in readers:
        assert known_by(reader, records, steps) == expected


def long_run(steps: int) -> Run:
    run = running()
    for number in range(steps):
        run.did(f"step {number}")
    return run


@pytest.mark.anyio
async def test_a_long_run_is_packed_in_stretches_between_which_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored_history, "EVERY", 20)
    run = long_run(100)
    driver = whole(run.state.journal, run.records)
    rows: list[FoldRow] = []

    async def keep(fold: FoldRows) -> bool:
        rows.extend(fold.rows)
        return True

    folds = Folds(keep)
    taken: list[int] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(folds.store, driver.state, driver.history)
        while not rows:
            await anyio.lowlevel.checkpoint()
            taken.append(driver.history.packed_to)
    fold = opened(run.state.journal, rows)

    assert fold is not None
    sizes = [len(attempts_in(fold.journal, part)) for part in fold.parts]
    assert sum(sizes) == 100
    assert max(sizes) <= 20 * 3 // 2 // 2 + 1, "no stretch has more than so many events"
    ends = sorted(set(taken))
    assert max(b - a for a, b in pairwise(ends)) <= 20 * 3 // 2, "others saw each of them end"


@pytest.mark.anyio
async def test_a_driver_adds_to_its_fold_without_the_parts_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored_history, "EVERY", 20)
    run = long_run(30)
    driver = whole(run.state.journal, run.records)
    written: list[FoldRows] = []
    stored: dict[int, FoldRow] = {}

    async def keep(fold: FoldRows) -> bool:
        written.append(fold)
        stored.update({row.number: row for row in fold.rows})
        return True

    folds = Folds(keep)
    await folds.store(driver.state, driver.history)
    first = set(stored)
    for number in range(5):
        head = run.state.head
        run.did(f"more {number}")
        driver.read(run.records[head:])
    await folds.store(driver.state, driver.history)

    assert [row.number for row in written[1].rows] == [0, max(first) + 1]
    assert may_follow(written[1], written[0].position)
    fold = opened(run.state.journal, [stored[number] for number in sorted(stored)])
    assert fold is not None
    expected = known_by(whole(run.state.journal, run.records), run.records)
    assert known_by(taken_up(fold), run.records) == expected


@pytest.mark.anyio
async def test_a_fold_that_was_not_stored_is_packed_anew() -> None:
    run = long_run(5)
    driver = whole(run.state.journal, run.records)
    written: list[FoldRows] = []

    async def lose(fold: FoldRows) -> bool:
        written.append(fold)
        return False

    folds = Folds(lose)
    await folds.store(driver.state, driver.history)
    await folds.store(driver.state, driver.history)

    assert [fold.since for fold in written] == [0, 0]
    assert written[0].rows == written[1].rows


def test_a_read_that_was_repeated_has_its_later_result() -> None:
    run = running()
    run.append(look("what was first"), look("what came later"))
    reader = whole(run.state.journal, run.records)
    (record,) = taken_up(folded(reader.state, reader.history, None)).history.records.values()

    assert record.position == run.state.head - 1, "it keeps its place"
    assert told(record, run.records).result == run.records[-1].event.result


def look(found: str) -> e.StepSettled:
    return e.StepSettled(epoch=1, step="look", name="look", result=Raw(msgspec.json.encode(found)))


@pytest.mark.parametrize("at_work", [True, False], ids=["at the fold", "after the fold"])
def test_the_attempts_before_a_fold_are_told_with_those_after_it(at_work: bool) -> None:
    run = running()
    first = run.did("pay", Outcome.UNKNOWN)
    second = run.start("pay") if at_work else 0
    driver = whole(run.state.journal, run.records)
    other = taken_up(folded(driver.state, driver.history, None))
    if not at_work:
        second = run.start("pay")
        other.read(run.records[-1:])

    assert [each.position for each in other.history.attempts_of("pay")] == [first, second]
    assert other.history.began_at("pay") == first


def test_a_timer_touches_what_is_packed_only_if_it_is_about_an_attempt() -> None:
    run = running()
    attempt = run.did("pay", Outcome.UNKNOWN)
    driver = whole(run.state.journal, run.records)
    known = folded(driver.state, driver.history, None)
    for name, touches in (("sleep", False), (f"{SETTLE}{attempt}", True)):
        run.append(e.TimerSet(epoch=1, name=name, until=99.0))
        driver.read(run.records[-1:])
        assert driver.history.touched == touches
        known = folded(driver.state, driver.history, known)
        assert taken_up(known).state == run.state


def test_a_driver_that_took_a_run_up_packs_each_stretch_once() -> None:
    run = running()
    run.did("book")
    reader = whole(run.state.journal, run.records)
    driver = taken_up(known := folded(reader.state, reader.history, None))
    for step in ("pay", "mail", "call"):
        head = run.state.head
        begun = run.did(step)
        driver.read(run.records[head:])
        known = folded(driver.state, driver.history, known)
        assert [x.position for x in attempts_in(known.journal, known.parts[-1])] == [begun]


@given(histories(), st.data())
def test_a_store_goes_on_from_the_state_alone(run: Run, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(run.records)))
    driver = Reader(run.state.journal)
    driver.read(run.records[:cut])
    fold = through_a_store(folded(driver.state, driver.history, None))
    state = RunState(run.state.journal)
    restore(state, fold)
    for record in run.records[cut:]:
        advance(state, record)

    assert state == run.state


@pytest.mark.parametrize(
    "act",
    [
        lambda older: older.copy(),
        lambda older: older | {},
        lambda older: {} | older,
        lambda older: older.__ior__({}),
        lambda older: (older.setdefault(1, "another"), older)[1],
        lambda older: (older.update({}), older)[1],
        lambda older: {1: older.popitem()[1]},
        lambda older: {**older},
        lambda older: {1: older.pop(1)},
    ],
)
def test_older_entries_are_there_for_whatever_a_dict_can_do(act: Callable[[Any], Any]) -> None:
    older: Older[int, str] = Older({}, lambda later: {1: "old"} | later, lambda key: key == 1)
    assert act(older) == {1: "old"}


def test_an_older_entry_can_be_deleted_shown_and_compared() -> None:
    def packed() -> Older[int, str]:
        return Older({}, lambda later: {1: "old"} | later, lambda key: key == 1)

    assert repr(packed()) == "{1: 'old'}"
    assert not packed() != {1: "old"}  # noqa: SIM202 - it is this operator that is looked at
    older = packed()
    del older[1]
    assert older == {}


# ── a fold that does not fit ─────────────────────────────────────────────────────────────────


def rows(run: Run) -> list[FoldRow]:
    reader, known = Reader(run.state.journal), None
    half = len(run.records) // 2
    for part in (run.records[:half], run.records[half:]):
        reader.read(part)
        known = folded(reader.state, reader.history, known)
    assert known is not None
    return list(rows_of(known, 0, 0, 0.0).rows)


@given(histories(), st.data())
def test_a_fold_with_a_damaged_byte_is_ignored(run: Run, data: st.DataObject) -> None:
    found = rows(run)
    which = data.draw(st.integers(0, len(found) - 1))
    body = bytearray(found[which].body)
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= 1 << data.draw(st.integers(0, 7))
    found[which] = msgspec.structs.replace(found[which], body=bytes(body))

    assert opened(run.state.journal, found) is None


@given(histories(), st.data())
def test_a_fold_of_which_a_row_is_missing_or_of_another_fold_is_ignored(
    run: Run, data: st.DataObject
) -> None:
    found = rows(run)
    which = data.draw(st.integers(0, len(found) - 1))
    left = [row for row in found if row.number != which]
    assert opened(run.state.journal, left) is None

    other = found[which].body + b" "
    swapped = msgspec.structs.replace(found[which], body=other, checksum=zlib.crc32(other))
    found[which] = swapped
    assert opened(run.state.journal, found) is None


@given(histories(longest=20))
def test_a_fold_of_other_code_is_ignored(run: Run) -> None:
    reader = whole(run.state.journal, run.records)
    fold = through_a_store(folded(reader.state, reader.history, None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_fold, "LAYOUT", "another")
        assert opened(fold.journal, rows_of(fold, 0, 0, 0.0).rows) is not None
        other = rows_of(fold, 0, 0, 0.0).rows
    assert opened(fold.journal, other) is None

    layout = stored_history.LAYOUT
    assert fold.history.startswith(layout)
    readable = b"2" + layout[1:] + fold.history[len(layout) :]
    later = msgspec.structs.replace(fold, history=readable)
    reader = Reader(run.state.journal)
    assert not take_up(reader.state, reader.history, later)
    assert (reader.state.head, reader.history.records) == (0, {})


@pytest.mark.parametrize("name", ["state", "history"])
@pytest.mark.parametrize("body", [b"no such thing", zlib.compress(b"{}"), zlib.compress(b"[")])
def test_a_fold_that_cannot_be_read_is_ignored(name: str, body: bytes) -> None:
    run = running()
    reader = whole(run.state.journal, run.records)
    fold = folded(reader.state, reader.history, None)
    head = stored_history.LAYOUT if name == "history" else b""
    damaged = msgspec.structs.replace(fold, **{name: head + body})
    reader = Reader(run.state.journal)

    assert not take_up(reader.state, reader.history, damaged)
    assert reader.state == RunState(run.state.journal)
    assert reader.history.records == {}
    if name == "state":
        assert not restore(reader.state, damaged)
        assert state_in(damaged) is None


def test_a_default_belongs_to_the_layout() -> None:
    kinds = [
        msgspec.defstruct("Kind", [("count", int, default)], omit_defaults=True)
        for default in (1, 1, 2)
    ]
    assert shape(kinds[0]) == shape(kinds[1]) != shape(kinds[2])


def test_a_fold_follows_only_the_one_that_it_adds_to() -> None:
    run = FoldRows("r-1", 20, 0.0, 10, ())
    assert may_follow(run, 10)
    assert not may_follow(run, 0)
    assert not may_follow(run, 15)

    anew = FoldRows("r-1", 20, 0.0, 0, ())
    assert may_follow(anew, 0)
    assert may_follow(anew, 15)
    assert not may_follow(anew, 20)
