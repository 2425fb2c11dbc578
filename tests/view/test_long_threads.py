"""A long thread: what one more record costs does not grow with the lines before it."""

from __future__ import annotations

from typing_extensions import override

from midflight.control.transcript import lines_of
from midflight.journal.record import Actor, Recorded
from midflight.journal.threads.thread import HUNG_UP, Said, SpeechHeard

ANN = Actor("ann", channel="voice")


class Name(str):
    """The name of a run, which counts how often any is compared with another."""

    __slots__ = ()
    compared = 0

    @override
    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def calls(count: int) -> list[Recorded]:
    """Runs whose listeners hang up, or cut them short, and which say the rest of it."""
    events = []
    for number in range(count):
        run = Name(f"r-{number}")
        events += [
            SpeechHeard(who=ANN, run=run, text="In the", how=HUNG_UP),
            Said(text="In the EU it was worse.", kind="text", run=run),
            SpeechHeard(who=ANN, run=run, text="And"),
            Said(text="And in the US", kind="partial", run=run),
        ]
    return [Recorded("t-phone", at, 0.0, event) for at, event in enumerate(events, 1)]


def compared_for(count: int) -> int:
    records, before = calls(count), Name.compared
    lines = lines_of(records)
    marked = [line for line in lines if line.status == "not heard"]
    assert len(lines) == 4 * count
    assert [line.kind for line in marked] == ["said: text", "said: partial"] * count
    return Name.compared - before


def test_a_thread_of_twice_the_calls_costs_twice_as_much_and_not_its_square() -> None:
    assert compared_for(80) <= 2 * compared_for(40)
