"""Tells a run or a model about a thread: its messages, questions and answers.

A new run is not told what others have still to do, or it would be done twice: messages that nobody
has read, todos, and what was said to runs that live. All of it is as of the run's beginning, so
that a replay is told the same.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from midflight.conversation import Spoken
from midflight.errors import JournalNotFound
from midflight.journal import events as e
from midflight.journal.record import Actor, Recorded
from midflight.journal.state import RunState
from midflight.journal.threads import thread as t
from midflight.journal.threads.thread import (
    HUNG_UP,
    WHOLE,
    AsideAsked,
    MessageEdited,
    MessageSent,
    MessageWithdrawn,
    Said,
    SpeechHeard,
    goes_on,
    is_further,
)
from midflight.stores.lookup import Journals
from midflight.stores.protocol import PAGE

CUT: Final = "[The person has cut you short here and has heard no more.]"
NOT_SAID: Final = (
    "[This was saved when it was cancelled, and not said: you were cut short, and the person has "
    "heard no more of it than they had by then.]"
)
NOT_HEARD: Final = (
    "[The person has hung up while you said this, and has heard no more of it than stands above. "
    "All of it is in the thread, where they can read it.]"
)
EARLIER: Final = 200  # lines of a conversation that the next run is told
MESSAGE: Final = "message"


async def spoken(journals: Journals, thread: str, upto: int, limit: int) -> list[Spoken]:
    """Return the last lines that were said in a thread up to a position."""
    found: dict[int, Spoken] = {}
    cut: set[str] = set()
    left: dict[str, str] = {}
    heard: dict[int, SpeechHeard] = {}
    for record in await journals.read(thread, after=max(0, upto - PAGE)) if upto else ():
        event, at = record.event, record.at
        if record.position > upto:
            break
        match event:
            case MessageSent() | AsideAsked():
                kind = "message" if isinstance(event, MessageSent) else "question aside"
                role = str(event.who.role)
                found[record.position] = Spoken(event.who.by, role, event.text, kind, "", at)
            case MessageEdited() if event.message in found:
                was = found[event.message]
                found[event.message] = Spoken(was.by, was.role, event.text, was.kind, "", was.at)
            case MessageWithdrawn():
                found.pop(event.message, None)
            case Said():
                found[record.position] = as_said(event, at, left)
            case SpeechHeard():
                place = event.of if event.of in found else record.position
                if is_further(event, heard.get(place)):
                    heard[place] = event
                    found[place] = cut_short(event, at)
                cut.update(cut_while_speaking(event))
                left |= hung_up_on(event)
            case _:
                pass
    return [not_said(line, cut) for line in list(found.values())[-limit:]]


def as_said(said: Said, at: float, left: dict[str, str]) -> Spoken:
    """Return what was said, as a model is told of it.

    ``left`` has what was heard of runs on which listeners had hung up. That was of the next answer
    of the run and of none after it, so it is taken from there.
    """
    heard = left.pop(said.run, None) if said.kind == "text" else None
    text = said.text
    if heard is not None and goes_on(heard, text):
        text = f"{text}\n\n{NOT_HEARD}"
    return Spoken("agent", "agent", text, said.kind, said.run, at, said.untrusted)


def hung_up_on(heard: SpeechHeard) -> dict[str, str]:
    """Return the run that goes on speaking to nobody, and what was heard of it."""
    return {heard.run: heard.text} if heard.how == HUNG_UP and not heard.of else {}


def cut_short(heard: SpeechHeard, at: float) -> Spoken:
    """Return the words that were heard, as a model is told of them: the rest was said to nobody."""
    text = heard.text if heard.how == WHOLE else f"{heard.text.rstrip()} {CUT}".lstrip()
    return Spoken("agent", "agent", text, "text", heard.run, at, heard.untrusted)


def cut_while_speaking(heard: SpeechHeard) -> tuple[str, ...]:
    """Return the run if its words were on no record yet: nobody knows how they would have ended."""
    return () if heard.of else (heard.run,)


def not_said(line: Spoken, cut: Collection[str]) -> Spoken:
    """Mark words saved from a run that was cut short while it spoke: not all were heard."""
    if line.kind != "partial" or line.run not in cut:
        return line
    return replace(line, text=f"{line.text}\n\n{NOT_SAID}")


async def earlier(journals: Journals, run: RunState, begun_for: tuple[int, ...]) -> list[Spoken]:
    """The last of it, without the messages that the run was begun for."""
    tale = Tale(run.journal, run.thread_at)
    after = max(0, run.thread_at - PAGE)
    for record in await journals.read(run.thread, after, 2 * PAGE) if run.thread_at else ():
        if tale.is_told(record):
            break
    live = tale.live(beside=not run.aside_of)
    for other, at in tale.fronted.items():
        if other not in live and (brief := await _brief(journals, other)) is not None:
            tale.lines[at] = brief
    for message, reader in tale.readers.items():
        if reader in live:
            tale.lines.pop(message, None)
    left_out = tale.open | set(begun_for)
    told = [line for at, line in sorted(tale.lines.items()) if at not in left_out]
    return [not_said(line, tale.cut) for line in told[-EARLIER:]]


async def _brief(journals: Journals, run: str) -> Spoken | None:
    """Return a run's brief as a message, if a person began the run with it and not by messages.

    A child and a fork were not begun so. A run that was purged has no brief any more.
    """
    try:
        (record,) = await journals.read(run, limit=1)
    except JournalNotFound:  # it has ended long ago, and was purged
        return None
    created = record.event
    assert isinstance(created, e.RunCreated)
    if created.messages or created.parent or created.fork_of:
        return None
    return _of_person(created.who, created.brief, record.at)


def _of_person(who: Actor, text: str, at: float, kind: str = MESSAGE) -> Spoken:
    return Spoken(who.by, str(who.role), text, kind, "", at)


class Tale:
    """A thread up to the beginning of a run, whose own events may stand after ``upto``."""

    def __init__(self, run: str, upto: int) -> None:
        self._run = run
        self._upto = upto
        self.lines: dict[int, Spoken] = {}
        self.open: set[int] = set()  # messages that nobody has done anything about
        self.readers: dict[int, str] = {}
        self.fronted: dict[str, int] = {}  # runs, and since when
        self.cut: set[str] = set()  # runs that were cut short while they spoke
        self.heard: dict[int, t.SpeechHeard] = {}  # by place: what was heard the furthest
        self.left: dict[str, str] = {}  # runs that spoke on when somebody hung up: what was heard
        self._front = ""
        self._in_front = False
        self._todos: dict[int, int] = {}  # and their messages
        self._parked: dict[int, str] = {}  # todos, and their runs

    def is_told(self, record: Recorded) -> bool:
        """Hear the next event; true when there is nothing more to hear."""
        event = record.event
        if record.position <= self._upto:
            self._hear(record)
            return False
        if isinstance(event, t.TodoAdded) and event.until == self._run:
            self._parked[record.position] = event.run
        self._in_front = isinstance(event, t.FrontChanged) and event.run == self._run
        return self._in_front

    def live(self, *, beside: bool) -> set[str]:
        """The runs that had still something to do, as far as the thread can tell."""
        at_work = {self._front} if beside and self._front and not self._in_front else set()
        return at_work | set(self._parked.values())

    def _hear(self, record: Recorded) -> None:
        event, place, at = record.event, record.position, record.at
        match event:
            case t.MessageSent():
                self.lines[place] = _of_person(event.who, event.text, at)
                self.open.add(place)
            case t.AsideAsked():
                self.lines[place] = _of_person(event.who, event.text, at, "question aside")
            case t.MessageEdited() if event.message in self.lines:
                was = self.lines[event.message]
                self.lines[event.message] = Spoken(
                    was.by, was.role, event.text, was.kind, was.run, was.at
                )
            case t.MessageWithdrawn():
                self.lines.pop(event.message, None)
            case t.Said():
                self.lines[place] = as_said(event, at, self.left)
            case t.SpeechHeard():
                of = event.of if event.of in self.lines else place
                if t.is_further(event, self.heard.get(of)):
                    self.heard[of] = event
                    self.lines[of] = cut_short(event, at)
                self.cut.update(cut_while_speaking(event))
                self.left |= hung_up_on(event)
            case t.FrontChanged() if event.run:
                self._front = event.run
                self.fronted.setdefault(event.run, place)
            case _:
                self._hear_of_work(event, place)

    def _hear_of_work(self, event: object, place: int) -> None:
        """Note which run does what, and what is still to be done."""
        match event:
            case e.MessagesTaken():
                taken = event.messages or [p for p in self.open if p <= event.upto]
                self._belong(event.run, *taken)
            case t.ChoiceOverruled(choice="incorporate") if event.message in self.lines:
                self.open.add(event.message)
            case t.TodoAdded(kind="parked"):
                self._parked[place] = event.run
            case t.TodoAdded():
                self._todos[place] = event.message
                self.open.add(event.message)
            case t.TodoTaken() if event.todo in self._todos:
                self._belong(event.run, self._todos.pop(event.todo))
            case t.TodoTaken() | t.TodoRemoved() | t.TodoDropped():
                self._parked.pop(event.todo, None)
            case _:
                pass

    def _belong(self, run: str, *messages: int) -> None:
        self.open.difference_update(messages)
        self.readers |= dict.fromkeys(messages, run)
