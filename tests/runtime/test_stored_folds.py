"""A stored fold tells what the journal tells: of the run's state, and of its function's way."""

from __future__ import annotations

import zlib
from dataclasses import fields
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.histories import histories
from journal.journals import Run
from midflight.journal import stored_fold
from midflight.journal.fold import advance
from midflight.journal.record import Recorded
from midflight.journal.state import RunState
from midflight.journal.stored_fold import (
    FoldRow,
    StoredFold,
    may_follow,
    opened,
    restore,
    rows_of,
)
from midflight.runtime.replay import stored_history
from midflight.runtime.replay.cursor import Cursor
from midflight.runtime.replay.step_records import Moment
from midflight.runtime.replay.stored_history import folded, take_up

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


def told(value: Any) -> Any:
    """A value as the journal has it: when this process heard of something is not in it."""
    if isinstance(value, dict):
        return {key: told(each) for key, each in value.items()}
    return msgspec.structs.replace(value, heard=0.0) if isinstance(value, Moment) else value


def known_by(reader: Reader) -> dict[str, Any]:
    """All that a reader knows, when the function is called. What follows changes nothing of it."""
    history = reader.history
    known = {f"state.{each.name}": getattr(reader.state, each.name) for each in fields(RunState)}
    circles = history.circles
    seen = (circles.made, circles.failed, circles.possible, circles._last, circles.nudged_at)
    before = {each.name: told(getattr(history, each.name)) for each in fields(Cursor)}
    history.enter()
    after = {each.name: told(getattr(history, each.name)) for each in fields(Cursor)}
    known |= {f"before.{name}": before[name] for name in before if name not in OF_THE_WAY}
    known |= {f"after.{name}": value for name, value in after.items() if name not in BOOKKEEPING}
    del known["before.circles"], known["after.circles"]
    entry = [vars_of(history.entry)]
    del known["before.entry"], known["after.entry"]
    return known | {"circles": (seen, circles.history), "entry": entry}


OF_THE_WAY = stored_history.OF_THE_WAY | BOOKKEEPING


def vars_of(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def through_a_store(fold: StoredFold) -> StoredFold:
    """The fold as it is read again."""
    read = opened(fold.journal, rows_of(fold, 0, 0, 0.0).rows)
    assert read is not None
    return read


def whole(run: Run) -> Reader:
    reader = Reader(run.state.journal)
    reader.read(run.records)
    return reader


@given(histories(), st.data())
def test_a_fold_and_what_follows_it_tell_what_the_whole_journal_tells(
    run: Run, data: st.DataObject
) -> None:
    places = st.integers(1, len(run.records))
    cuts = sorted(data.draw(st.sets(places, min_size=1, max_size=4)))
    driver, known, at = Reader(run.state.journal), None, 0
    for cut in cuts:
        driver.read(run.records[at:cut])
        known, at = folded(driver.state, driver.history, known), cut
    assert known is not None
    taken_up = Reader(run.state.journal)
    assert take_up(taken_up.state, taken_up.history, through_a_store(known))
    for reader in (driver, taken_up):
        reader.read(run.records[at:])

    expected = known_by(whole(run))
    assert known_by(taken_up) == expected
    assert known_by(driver) == expected


@given(histories(), st.data())
def test_a_run_that_was_taken_up_is_folded_again_and_taken_up_again(
    run: Run, data: st.DataObject
) -> None:
    first, second = sorted(data.draw(st.tuples(*[st.integers(1, len(run.records))] * 2)))
    driver = Reader(run.state.journal)
    driver.read(run.records[:first])
    known = through_a_store(folded(driver.state, driver.history, None))
    middle = Reader(run.state.journal)
    take_up(middle.state, middle.history, known)
    middle.read(run.records[first:second])
    again = through_a_store(folded(middle.state, middle.history, known))
    last = Reader(run.state.journal)
    take_up(last.state, last.history, again)
    last.read(run.records[second:])

    assert known_by(last) == known_by(whole(run))


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
    reader = whole(run)
    fold = through_a_store(folded(reader.state, reader.history, None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_fold, "LAYOUT", "another")
        assert opened(fold.journal, rows_of(fold, 0, 0, 0.0).rows) is not None
        other = rows_of(fold, 0, 0, 0.0).rows
    assert opened(fold.journal, other) is None

    later = msgspec.structs.replace(fold, history=b"2" + fold.history)
    reader = Reader(run.state.journal)
    assert not take_up(reader.state, reader.history, later)
    assert (reader.state.head, reader.history.records) == (0, {})


def test_a_fold_follows_only_the_one_that_it_adds_to() -> None:
    run = stored_fold.FoldRows("r-1", 20, 0.0, 10, ())
    assert may_follow(run, 10)
    assert not may_follow(run, 0)
    assert not may_follow(run, 15)

    anew = stored_fold.FoldRows("r-1", 20, 0.0, 0, ())
    assert may_follow(anew, 0)
    assert may_follow(anew, 15)
    assert not may_follow(anew, 20)
