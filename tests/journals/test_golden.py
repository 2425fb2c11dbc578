"""Journals of every release are read by today's code, and mean what they meant."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from journals import record
from journals.golden import FOLDER, as_far_as, folded, line, meaning, read
from midflight.journal.event_types import EVENTS
from midflight.journal.record import Unknown

JOURNALS = sorted(FOLDER.glob("*/*.jsonl"))


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", JOURNALS, ids=name)
def test_a_golden_journal_means_what_it_meant(path: Path) -> None:
    expected = msgspec.json.decode(path.with_suffix(".json").read_bytes())

    told = {journal: meaning(state) for journal, state in folded(read(path)).items()}

    assert as_far_as(expected, told) == expected


@pytest.mark.parametrize("path", JOURNALS, ids=name)
def test_every_event_of_a_golden_journal_is_understood(path: Path) -> None:
    records = read(path)

    assert [r for r in records if isinstance(r.event, Unknown)] == []
    for journal, state in folded(records).items():
        positions = [r.position for r in records if r.journal == journal]
        assert positions == list(range(1, state.head + 1))


def test_every_event_occurs_in_some_golden_journal() -> None:
    seen = {r.event.stored_name() for path in JOURNALS for r in read(path)}

    assert seen == set(EVENTS)


def test_every_golden_journal_says_what_it_means() -> None:
    assert JOURNALS
    assert sorted(FOLDER.glob("*/*.json")) == [path.with_suffix(".json") for path in JOURNALS]


def test_a_recording_is_the_same_each_time_and_can_be_read(tmp_path: Path) -> None:
    for take in ("first", "second"):
        record.write(tmp_path / take)

    recorded = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert len(recorded) == 2 * len(record.STORIES)
    for file in recorded:
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()
    for path in (tmp_path / "first").glob("*.jsonl"):
        assert [line(r) for r in read(path)] == path.read_bytes().splitlines()


def test_what_was_recorded_is_never_written_again(tmp_path: Path) -> None:
    kept = tmp_path / "done.jsonl"
    kept.write_bytes(b"from an earlier release")

    with pytest.raises(FileExistsError):
        record.write(tmp_path)

    assert kept.read_bytes() == b"from an earlier release"
