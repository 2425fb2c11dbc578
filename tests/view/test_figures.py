"""Money and caps as people read them: the same words in a terminal and in a chat."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from journal.journals import running
from midflight.interfaces.chat.run_posts import Standing, meters
from midflight.interfaces.terminal import looks
from midflight.journal import events as e
from midflight.journal.limits import Meter
from midflight.journal.record import Limits, Usage
from midflight.journal.state import RunState
from midflight.journal.status import place
from midflight.view import RunBook, RunSheet
from midflight.view.shown_values import cap_words, clock, count, figure, is_near, money, nearest

DOORS = ["terminal", "chat"]


def after(
    limits: Limits | None = None, *, steps: int = 0, used: Usage | None = None
) -> tuple[RunState, RunSheet]:
    """A run that has done so many steps and spent so much."""
    run = running(limits=limits or Limits())
    for number in range(steps):
        run.did(f"step {number}")
    if used:
        run.append(e.UsageSpent(epoch=1, usage=used))
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
    return run.state, book.sheet()


def said(door: str, run: tuple[RunState, RunSheet], later: float = 0.0) -> str:
    """What stands behind clock and step, without the mark of a warning."""
    state, sheet = run
    now = sheet.updated_at + later
    line = (
        looks.meter(sheet, state, now)
        if door == "terminal"
        else meters(Standing(sheet, place(state), now)).strip("`")
    )
    return line.partition(place(state))[2].strip().removesuffix(" ⚠")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("spent", "limits", "words"),
    [
        (Usage(tokens=9, usd=0.421), Limits(usd=2.0), "$0.42 of $2.00"),
        (Usage(tokens=9, usd=0.421), Limits(), "$0.42"),
        (Usage(tokens=9, usd=0.001), Limits(), "<$0.01"),
        (Usage(tokens=9), Limits(usd=2.0), "$0.00 of $2.00 + unpriced"),
        (Usage(tokens=1), Limits(), "1 token"),
        (Usage(tokens=12_345), Limits(tokens=2_000_000), "12.3k of 2.0M tokens"),
        (None, Limits(), ""),
    ],
)
def test_what_was_spent_reads_the_same_at_every_door(
    door: str, spent: Usage | None, limits: Limits, words: str
) -> None:
    assert said(door, after(limits, used=spent)) == words


@pytest.mark.parametrize("door", DOORS)
def test_a_sum_with_a_price_that_nobody_knows_is_never_shown_as_exact(door: str) -> None:
    run = running(limits=Limits())
    run.append(e.UsageSpent(epoch=1, usage=Usage(tokens=10, usd=0.5)))
    run.append(e.UsageSpent(epoch=1, usage=Usage(tokens=7)))
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)

    assert said(door, (run.state, book.sheet())) == "$0.50 + unpriced"


def test_of_a_cap_on_money_it_is_said_too_that_a_price_is_not_known() -> None:
    _, sheet = after(Limits(usd=2.0, steps=3), used=Usage(tokens=7))

    assert [cap_words(meter, sheet.spent) for meter in sheet.meters] == [
        "0 of 3 steps",
        "$0.00 of $2.00 + unpriced",
    ]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("limits", "steps", "words"),
    [
        (Limits(steps=2, usd=2.0), 2, "$0.00 of $2.00  2 of 2 steps"),
        (Limits(steps=2, usd=2.0), 1, "$0.00 of $2.00  1 of 2 steps"),
        (Limits(steps=50, usd=2.0), 1, "$0.00 of $2.00"),
        (Limits(steps=50, tokens=900), 1, "0 of 900 tokens"),
        (Limits(steps=50), 1, "1 of 50 steps"),
    ],
    ids=["reached", "half full", "hardly used", "hardly used beside tokens", "the only one"],
)
def test_the_cap_that_is_nearest_is_named_beside_what_was_spent_once_it_is_half_full(
    door: str, limits: Limits, steps: int, words: str
) -> None:
    assert said(door, after(limits, steps=steps)) == words


@pytest.mark.parametrize("door", DOORS)
def test_a_cap_on_time_comes_nearer_by_itself(door: str) -> None:
    run = after(Limits(seconds=100, usd=2.0))

    assert said(door, run) == "$0.00 of $2.00"
    assert said(door, run, later=85).endswith(" of 100 s")


def test_a_chat_marks_the_cap_that_is_nearly_reached() -> None:
    state, sheet = after(Limits(steps=2), steps=2)

    assert meters(Standing(sheet, place(state), sheet.updated_at)).endswith("2 of 2 steps ⚠`")


def test_time_goes_on_while_the_run_moves() -> None:
    moving: dict[str, Any] = {"meters": [Meter("seconds", 0, 100)], "moving_since": 1.0}
    sheet = replace(after(Limits(seconds=100))[1], **moving)
    spent = sheet.spent.seconds

    assert not is_near(nearest(sheet, sheet.updated_at + 79 - spent))
    assert is_near(nearest(sheet, sheet.updated_at + 80 - spent))


def test_what_calls_in_flight_have_reserved_counts_as_near() -> None:
    sheet = replace(after(Limits(usd=1.0))[1], meters=[Meter("usd", 0.9, 1.0)])
    assert is_near(nearest(sheet, sheet.updated_at))


@pytest.mark.parametrize(
    ("meter", "words"),
    [
        (Meter("usd", 4.1, 5), "$4.10 of $5.00"),
        (Meter("usd", 0.001, 5), "<$0.01 of $5.00"),
        (Meter("seconds", 58.7, 60), "58 of 60 s"),
        (Meter("seconds", 0.25, 0.5), "0.2 of 0.5 s"),
        (Meter("seconds", 580, 600), "time 09:40 of 10:00"),
        (Meter("seconds", 3600, 7200), "time 1:00:00 of 2:00:00"),
        (Meter("steps", 0, 1), "0 of 1 step"),
        (Meter("tool_calls", 1, 1), "1 of 1 tool call"),
        (Meter("tool_calls", 3, 40), "3 of 40 tool calls"),
        (Meter("tokens", 12_345, 50_000), "12.3k of 50.0k tokens"),
        (Meter("tokens", 19_999, 20_000), "19.9k of 20.0k tokens"),
    ],
)
def test_a_cap_reads_as_people_write_it(meter: Meter, words: str) -> None:
    assert figure(meter) == words


def test_a_count_is_short_and_never_rounded_up() -> None:
    shown = [count(number) for number in (0, 9_999, 10_000, 999_999, 1_000_000, 2_960_000)]
    assert shown == ["0", "9999", "10.0k", "999.9k", "1.0M", "2.9M"]


def test_a_clock_keeps_its_width_for_an_hour() -> None:
    assert [clock(seconds) for seconds in (-1, 0, 121.9, 3599, 3721)] == [
        "00:00",
        "00:00",
        "02:01",
        "59:59",
        "1:02:01",
    ]


def test_a_little_money_is_not_nothing() -> None:
    assert [money(usd) for usd in (0, 0.0049, 0.005, 1.5)] == ["$0.00", "<$0.01", "$0.01", "$1.50"]
