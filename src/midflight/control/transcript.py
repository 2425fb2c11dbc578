"""A thread as people read it: messages, choices, and work that was put off and came back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from midflight.journal.events import MessagesTaken
from midflight.journal.record import Recorded
from midflight.journal.threads import thread as t


class Line(Struct, frozen=True):
    """One line. ``kind`` says what it is; a message's ``status`` is its delivery receipt.

    That is ``stored``, then ``read``, ``put off`` or ``withdrawn``, with ``settled`` as the place.
    Words that were spoken and ``cut short`` are those that were heard. Work that was saved from a
    run which was cut short while it spoke is ``not heard``: it is kept, and was not said. So is an
    answer that came after its listener had hung up in the midst of it: it is there to be read.
    """

    position: int
    at: float
    kind: str
    text: str = ""
    by: str = ""
    role: str = ""
    run: str = ""
    message: int = 0
    choice: str = ""
    why: str = ""
    todo: int = 0
    status: str = ""
    settled: int = 0
    said: str = ""  # of words that a run has said: their kind, such as text, aside or partial


CUT: Final = "cut short"
"""The status of spoken words that were cut short: their text is the part that was heard."""

UNHEARD: Final = "not heard"
"""The status of saved work and answers whose words were spoken and not heard to the end."""

ABOUT_TODOS: Final = {
    t.TodoTaken: "todo taken",
    t.TodoDropped: "todo dropped",
    t.TodoRemoved: "todo removed",
    t.TodoWanted: "todo wanted",
}


def lines_of(records: Iterable[Recorded]) -> list[Line]:
    """The lines of a thread's journal, in its order."""
    lines = Lines()
    for record in records:
        lines.take(record)
    return lines.all()


class Lines:
    """The lines of one thread, from its records one by one; a line may change with a later one.

    The line that a record changes is found by its place or its run: threads are long, and read
    often.
    """

    def __init__(self) -> None:
        self._found: dict[int, Line] = {}
        self._said: defaultdict[str, list[int]] = defaultdict(list)  # places of words, by run
        self._left: dict[str, list[int]] = {}  # of these, what somebody has hung up on

    def all(self) -> list[Line]:
        """All of them, in order."""
        return list(self._found.values())

    def at(self, position: int) -> Line | None:
        """Return the line that a reader sees for the record at a position, if there is one."""
        return self._found.get(position)

    def take(self, record: Recorded) -> None:
        """Add what one more record of the journal says."""
        _settle(self._found, record)
        line = _line(record)
        if line is None:
            return
        self._found[line.position] = self._after_hanging_up(line)
        if isinstance(record.event, t.Said | t.SpeechHeard):
            self._said[line.run].append(line.position)
            self._mark_unheard(line)
            if line.why == t.HUNG_UP:
                self._left.setdefault(line.run, []).append(line.position)

    def _mark_unheard(self, new: Line) -> None:
        """Mark partial words of a run that was cut short while it spoke as not heard.

        The record of the words and the record of the cut may come in either order.
        """
        if new.kind != "said: partial" and (new.kind, new.status) != ("said: text", CUT):
            return
        of_run = [self._found[at] for at in self._said[new.run]]
        if any(line.status == CUT and not line.settled for line in of_run):
            for line in of_run:
                if line.kind == "said: partial":
                    self._found[line.position] = replace(line, status=UNHEARD)

    def _after_hanging_up(self, new: Line) -> Line:
        """Mark an answer as not heard if it goes on from words on which somebody has hung up."""
        if new.said != "text" or new.status:
            return new
        goes_on = False
        for at in self._left.pop(new.run, ()):
            line = self._found[at]
            if not line.settled:
                goes_on |= t.goes_on(line.text, new.text)
                self._found[at] = replace(line, settled=new.position)
        return replace(new, status=UNHEARD) if goes_on else new


def _settle(found: dict[int, Line], record: Recorded) -> None:
    """Add to an earlier line what a later event says about it."""
    event, at = record.event, record.position
    match event:
        case t.MessageEdited() if event.message in found:
            found[event.message] = replace(found[event.message], text=event.text)
        case t.MessageWithdrawn() if event.message in found:
            line = found[event.message]
            found[event.message] = replace(line, status="withdrawn", settled=at)
        case t.MessageTriaged() if event.message in found:
            found[event.message] = replace(found[event.message], choice=event.choice)
        case MessagesTaken():
            for message in event.messages:
                if message in found:
                    line = found[message]
                    found[message] = replace(line, status="read", run=event.run, settled=at)
        case t.TodoAdded() if event.message in found:
            found[event.message] = replace(found[event.message], status="put off", settled=at)
        case t.SpeechHeard() if event.of in found:
            found[event.of] = _as_heard(found[event.of], event, at)
        case _:
            pass


def _as_heard(line: Line, heard: t.SpeechHeard, at: int) -> Line:
    """Return spoken words as the listener heard them who heard the most; the line is settled."""
    whole = heard.how == t.WHOLE
    if line.settled and not whole and (line.status != CUT or len(heard.text) <= len(line.text)):
        return line
    return replace(line, text=heard.text, status="" if whole else CUT, settled=at)


def _line(record: Recorded) -> Line | None:
    event, place = record.event, (record.position, record.at)
    match event:
        case t.MessageSent():
            by, role = event.who.by, str(event.who.role)
            return Line(*place, "message", event.text, by, role, status="stored")
        case t.AsideAsked():
            by, role = event.who.by, str(event.who.role)
            return Line(*place, "question aside", event.text, by, role, run=event.run)
        case t.Said():
            kind = f"said: {event.kind}"
            return Line(*place, kind, event.text, run=event.run, said=event.kind)
        case t.SpeechHeard() if not event.of:
            cut = Line(*place, "said: text", event.text, run=event.run, status=CUT, said="text")
            return replace(cut, why=event.how)
        case t.MessageTriaged():
            chose = Line(*place, "choice", run=event.run, message=event.message)
            return replace(chose, choice=event.choice, why=event.why)
        case t.ChoiceOverruled():
            by, role = event.who.by, str(event.who.role)
            wanted = Line(*place, "overruled", by=by, role=role, message=event.message)
            return replace(wanted, choice=event.choice)
        case t.TodoAdded():
            return Line(*place, f"todo: {event.kind}", event.text, run=event.run, why=event.note)
        case t.TodoTaken() | t.TodoDropped() | t.TodoRemoved() | t.TodoWanted():
            who = getattr(event, "who", None)
            kind, by = ABOUT_TODOS[type(event)], who.by if who else ""
            return Line(*place, kind, by=by, run=getattr(event, "run", ""), todo=event.todo)
        case t.FrontChanged():
            return Line(*place, "in front", run=event.run)
        case _:
            return None
