"""What a terminal says of a run: no two states look alike, and no cap is out of sight."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from journal.journals import Run
from midflight.interfaces.terminal import looks
from midflight.journal.events import QuestionOpened
from midflight.journal.limits import Meter
from midflight.journal.phases import Cause, Phase
from midflight.journal.record import Limits
from midflight.view import WORDS, RunBook, RunSheet, control_bar
from midflight.view.data import Asked, Background
from midflight.view.run_book import asked as view_of_question


def a_sheet(limits: Limits | None = None, **fields: Any) -> RunSheet:
    run = Run(limits=limits or Limits())
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
    return replace(book.sheet(), **fields)


def asked(message: str, kind: str = "cap") -> list[Asked]:
    opened = QuestionOpened(epoch=1, kind=kind, message=message)
    return [view_of_question(7, opened)]


def test_no_two_phases_share_a_sign_or_a_word() -> None:
    assert looks.PHASES.keys() == set(Phase)
    assert len({sign for sign, _, _ in looks.PHASES.values()}) == len(Phase)
    assert len({word for _, word, _ in looks.PHASES.values()}) == len(Phase)


def test_a_phase_that_passes_has_another_tone_than_the_one_it_leads_to() -> None:
    tones = {phase: tone for phase, (_, _, tone) in looks.PHASES.items()}
    assert tones[Phase.PAUSING] != tones[Phase.PAUSED]
    assert tones[Phase.CANCELLING] != tones[Phase.CANCELLED]


def test_no_two_states_of_a_step_share_a_sign() -> None:
    assert looks.SIGNS.keys() == looks.TONES.keys() == WORDS.keys()
    assert len(set(looks.SIGNS.values())) == len(WORDS)


@pytest.mark.parametrize(
    ("phase", "reads", "says"),
    [
        (Phase.RUNNING, True, "read at the next safe point"),
        (Phase.RUNNING, False, "kept, but this agent may not read it"),
        (Phase.PAUSED, True, "read when it goes on"),
        (Phase.PAUSED, False, "kept, but this agent may not read it"),
        (Phase.CANCELLING, True, "kept in the thread"),
        (Phase.CANCELLING, False, "kept in the thread"),
        (Phase.DONE, False, "nobody reads it until a run starts"),
    ],
)
def test_who_writes_is_told_when_it_is_read(phase: Phase, reads: bool, says: str) -> None:
    assert (
        control_bar.read_when(a_sheet(phase=phase, reads_messages=reads), converses=False) == says
    )


def test_who_writes_where_an_agent_converses_starts_the_next_run_after_its_end() -> None:
    sheet = a_sheet(phase=Phase.DONE, reads_messages=True)
    assert control_bar.read_when(sheet, converses=True) == "starts the next run"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("steps: the cap of 2 is reached. Raise it to go on.", "2 of 2 steps used"),
        (
            "repeats: it goes in circles (errors in a row), also after it was told. Raise it.",
            "It goes in circles (errors in a row), also after it was told",
        ),
        ("", "All that it may"),
    ],
)
def test_at_a_cap_it_is_said_which(message: str, told: str) -> None:
    held = {"phase": Phase.PAUSED, "holds": [Cause.CAP], "questions": asked(message)}
    sheet = a_sheet(Limits(steps=2), meters=[Meter("steps", 2, 2)], **held)
    assert looks.headline(sheet) == ("Paused at the cap", told)


def test_a_run_that_a_person_has_is_not_said_to_be_at_rest() -> None:
    held: dict[str, Any] = {"phase": Phase.PAUSED, "holds": [Cause.HUMAN]}
    assert looks.headline(a_sheet(**held, human="ann")) == (
        "ann has it",
        "It goes on when it is handed back",
    )
    given = a_sheet(**held, questions=asked("Please sign", "human"))
    assert looks.headline(given) == ("Handed to a person", "Please sign")


@pytest.mark.parametrize(
    ("below", "ended_at", "says"),
    [
        (Phase.RUNNING, None, "1 background task still runs"),
        (Phase.PAUSED, None, "Nothing is running"),
        (Phase.DONE, 7.0, "Nothing is running"),
        ("purged", 7.0, "Nothing is running"),
    ],
)
def test_a_background_run_that_is_held_too_or_over_does_not_run(
    below: str, ended_at: float | None, says: str
) -> None:
    child = Background("r-2", "Check the figures", below, 0.0, ended_at, "")
    sheet = a_sheet(phase=Phase.PAUSED, holds=[Cause.USER], background=[child])

    word, rest = looks.headline(sheet)
    assert word == "Paused"
    assert rest.startswith(says)


def test_a_background_run_that_was_deleted_looks_like_no_other() -> None:
    gone = looks.phase_of(Background("r-2", "Check the figures", "purged", 0.0, 7.0, ""))

    assert gone[1] == "Deleted"
    assert not set(gone[:2]) & {
        mark for sign, word, _ in looks.PHASES.values() for mark in (sign, word)
    }
