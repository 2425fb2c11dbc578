"""Which caps are offered higher: what holds the run, or will soon, and nothing else."""

from __future__ import annotations

import pytest

from journal.journals import Run, running
from midflight.interfaces.cli.acknowledgement import raising
from midflight.journal import events as e
from midflight.journal.limits import limits_from
from midflight.journal.phases import Cause
from midflight.journal.record import Limits
from midflight.view import RunBook, RunSheet
from midflight.view.shown_values import raised, raised_of, typed

ALL = Limits(steps=2, seconds=900, tokens=50, usd=0.0, tool_calls=9, repeats=3)


def sheet_of(run: Run) -> RunSheet:
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
    return book.sheet()


def held_by(why: str, limits: Limits = ALL) -> Run:
    run = running(limits=limits)
    run.append(e.HoldPlaced(cause=Cause.CAP, why=why.partition(":")[0]))
    run.append(e.QuestionOpened(epoch=1, kind="cap", message=why))
    return run


@pytest.mark.parametrize(
    ("why", "offered"),
    [
        ("steps: the cap of 2 is reached.", {"steps": 4}),
        ("usd: the cap of 0 is reached.", {"usd": 1}),
        ("repeats: it goes in circles.", {"repeats": 6}),
    ],
)
def test_the_cap_that_holds_is_offered_twice_as_high_and_no_other(
    why: str, offered: dict[str, float]
) -> None:
    run = held_by(why)

    assert raised(sheet_of(run)) == offered
    assert raised_of(run.state, run.state.at) == offered


def test_while_none_holds_those_are_offered_that_are_nearly_reached() -> None:
    run = running(limits=Limits(steps=2, usd=5.0))
    assert raised(sheet_of(run)) == {}
    run.did("one")
    run.did("two")
    assert raised(sheet_of(run)) == {"steps": 4}


@pytest.mark.parametrize("tokens", [7, 1_000_000, 12_345_678])
def test_what_is_offered_can_be_typed_as_it_stands_there(tokens: int) -> None:
    run = held_by("tokens: the cap is reached.", Limits(tokens=tokens))

    assert raising(sheet_of(run)) == [f"--tokens {2 * tokens}"]
    assert limits_from({"tokens": typed(2 * tokens)}) == Limits(tokens=2 * tokens)


def test_money_is_typed_without_what_a_sum_leaves_behind() -> None:
    assert [typed(2 * cap) for cap in (0.1 + 0.2, 2.0, 0.005)] == ["0.6", "4", "0.01"]
