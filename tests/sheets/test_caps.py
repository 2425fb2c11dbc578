"""The cap that is nearest, and the line in which a chat names it."""

from __future__ import annotations

import pytest

from kernel.journals import running
from midflight.channels.render import Standing, meters
from midflight.kernel.limits import Meter
from midflight.kernel.record import Limits
from midflight.sheets import RunBook, RunSheet
from midflight.sheets.caps import figure


def after(steps: int, limits: Limits) -> RunSheet:
    """A run that has done so many steps."""
    run = running(limits=limits)
    for number in range(steps):
        run.did(f"step {number}")
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
    return book.sheet()


def said(sheet: RunSheet, later: float = 0.0) -> str:
    """What stands behind clock and step."""
    line = meters(Standing(sheet, "step 1", sheet.updated_at + later)).strip("`")
    return line.partition("step 1")[2].strip()


def test_a_chat_names_the_cap_that_is_nearest_and_warns_of_it_whichever_it_is() -> None:
    assert said(after(2, Limits(steps=2, usd=2.0))) == "$0.00  2 of 2 steps ⚠"
    assert said(after(1, Limits(steps=2, usd=2.0))) == "$0.00  1 of 2 steps"
    assert said(after(1, Limits(steps=50))) == "$0.00  1 of 50 steps"


def test_while_no_cap_is_half_full_it_is_the_one_on_money() -> None:
    assert said(after(1, Limits(steps=50, usd=2.0))) == "$0.00 of $2.00"
    assert said(after(1, Limits())) == "$0.00"


def test_a_cap_on_time_comes_nearer_by_itself() -> None:
    sheet = after(0, Limits(seconds=100, usd=2.0))

    assert said(sheet) == "$0.00 of $2.00"
    assert said(sheet, later=85).endswith(" of 100 s ⚠")


@pytest.mark.parametrize(
    ("meter", "words"),
    [
        (Meter("usd", 4.1, 5), "$4.10 of $5.00"),
        (Meter("seconds", 58.7, 60), "58 of 60 s"),
        (Meter("seconds", 580, 600), "time 9:40 of 10:00"),
        (Meter("seconds", 3600, 7200), "time 1:00:00 of 2:00:00"),
        (Meter("tool_calls", 1, 1), "1 of 1 tool call"),
        (Meter("tokens", 12_345, 50_000), "12,345 of 50,000 tokens"),
    ],
)
def test_a_cap_reads_as_people_write_it(meter: Meter, words: str) -> None:
    assert figure(meter) == words
