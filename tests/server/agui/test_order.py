"""The order in which a client is told of a thread and its runs, which are journals of their own."""

from __future__ import annotations

from midflight.interfaces.agui.agui_turn import in_order, led_to
from midflight.journal import events as e
from midflight.journal.phases import Outcome
from midflight.journal.record import Actor, Event, Recorded
from midflight.journal.threads.thread import FrontChanged, MessageSent, Said

RUN, NEXT, THREAD = "r-1", "r-2", "t-1"
ANN = Actor(by="ann")


def at(journal: str, time: float, first: int, *events: Event) -> list[Recorded]:
    """Events that came on record at one time."""
    return [Recorded(journal, first + n, time, event) for n, event in enumerate(events)]


SENT = at(THREAD, 1.0, 1, MessageSent(who=ANN, text="count"))
BEGUN = at(RUN, 1.0, 1, e.RunCreated(who=ANN, agent="clerk", thread=THREAD, brief="count"))
CUT = at(
    RUN,
    2.0,
    2,
    e.TextStreamed(epoch=1, step="count", attempt=1, offset=0, text="0 1"),
    e.AttemptSettled(epoch=1, attempt=1, outcome=Outcome.ABORTED),
    e.WorkSaved(epoch=1, what=("0 1",)),
)
END = at(RUN, 2.0, 5, e.RunFinished(epoch=1, outcome="cancelled"), e.DriverReleased(epoch=1))
KEPT = at(THREAD, 2.0, 2, Said(run=RUN, text="Kept: 0 1", kind="partial"), FrontChanged(run=NEXT))
GOES_ON = at(NEXT, 2.0, 1, e.RunCreated(who=ANN, agent="clerk", thread=THREAD, brief="next"))


def test_a_message_is_told_before_the_run_that_it_begins() -> None:
    assert in_order([*BEGUN, *SENT], THREAD) == [*SENT, *BEGUN]


def test_what_is_said_at_the_end_comes_between_what_led_to_it_and_the_end() -> None:
    told = in_order([*SENT, *KEPT, *GOES_ON, *BEGUN, *CUT, *END], THREAD)

    assert told == [*SENT, *BEGUN, *CUT, *KEPT, *GOES_ON, *END]


def test_who_hears_the_last_words_first_is_told_what_led_to_them_and_not_the_end() -> None:
    assert led_to([*CUT, *END], at=2.0) == CUT


def test_what_came_with_words_in_the_middle_of_a_run_is_told_after_them() -> None:
    assert led_to(CUT, at=2.0) == []
