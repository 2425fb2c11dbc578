"""The run and its thread: what people have written, and what the function says to them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from midflight.conversation import BACKGROUND, Message, Spoken
from midflight.executor.front import read_report
from midflight.executor.gate import still_moves
from midflight.executor.host import Host
from midflight.kernel import events as e
from midflight.kernel.front import readable
from midflight.kernel.phases import Phase
from midflight.kernel.record import Recorded
from midflight.kernel.state import RunState
from midflight.kernel.thread import (
    HUNG_UP,
    WHOLE,
    AsideAsked,
    MessageEdited,
    MessageSent,
    MessageTriaged,
    MessageWithdrawn,
    Said,
    SpeechHeard,
    ThreadState,
    goes_on,
    is_further,
)
from midflight.stores.base import PAGE, Draft, Submit, View
from midflight.stores.waiting import Journals

NOTHING: Final = "nothing unread"
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


class Inbox:
    """The messages of a thread, as the function of one run reads them."""

    __slots__ = ("_host", "_read_upto")

    def __init__(self, host: Host) -> None:
        self._host = host
        self._read_upto = 0  # how far the thread is known to hold nothing unread

    async def take(self, step: str, course: int) -> list[Message]:
        """Return unread messages, which are read from here on; at replay the same ones again.

        A call that found none leaves no record of its own. So while the function is not yet where
        it was, a call without a record found none.
        """
        history = self._host.history
        if history.claim(step) is None:
            if history.unfinished:
                return []
            if not await self._take(step, course):
                await self._note_that_it_looks()
                return []
            history.claim(step)
        return await _texts(self._host, history.taken[step])

    async def _note_that_it_looks(self) -> None:
        """Put on record, once, that the function looks for messages: senders are told so."""
        journal = self._host.journal

        def chosen(state: RunState) -> list[e.InboxOpened]:
            running = state.phase is Phase.RUNNING and not state.pending
            ours = running and state.epoch == journal.epoch and not journal.lost
            return [] if state.reads_messages or not ours else [e.InboxOpened(epoch=journal.epoch)]

        if not journal.state.reads_messages:
            await journal.decide(chosen)

    async def _take(self, step: str, course: int) -> bool:
        """Take what is unread, in one transaction with the thread. False when nothing is."""
        host, journal = self._host, self._host.journal
        run, thread = journal.run, journal.state.thread

        def decided(view: View) -> Draft:
            mine, talk = view.states[run], view.states[thread]
            assert isinstance(mine, RunState)
            assert isinstance(talk, ThreadState)
            if not still_moves(mine, journal.epoch):
                return Draft()
            messages = readable(talk, run, converses=host.agent.converses)
            if not messages:
                return Draft(note=NOTHING)
            taken = e.MessagesTaken(run=run, upto=talk.head, messages=messages, step=step)
            return Draft({run: (*journal.wait_over(mine), taken), thread: (taken,)})

        while step not in journal.history.taken:
            head = (await journal.client.row(thread)).head
            if head <= self._read_upto:
                return False  # nothing was written there since we last looked
            await host.gate.wait(course)
            request = Submit(host.ids(), (run, thread), decided)
            done = await journal.submit(request, unless=host.signals.is_stopped)
            if done.note == NOTHING:
                self._read_upto = head
                return False
        return True


async def _texts(host: Host, taken: e.MessagesTaken) -> list[Message]:
    """The messages as they stood when they were taken, in the order of their writing."""
    found: dict[int, Message] = {}
    after = min(taken.messages) - 1
    while after < taken.upto:
        page: list[Recorded] = await host.journal.client.read(
            host.journal.state.thread, after=after
        )
        if not page:
            break
        for record in page:
            event = record.event
            if isinstance(event, MessageSent) and record.position in taken.messages:
                who = event.who
                found[record.position] = Message(
                    record.position, event.text, who.by, str(who.role), record.at
                )
            if isinstance(event, Said) and record.position in taken.messages:
                text = await read_report(host.journal.client, event)
                found[record.position] = Message(
                    record.position, text, event.run, BACKGROUND, record.at
                )
            in_time = record.position <= taken.upto
            if isinstance(event, MessageEdited) and in_time and event.message in found:
                found[event.message] = found[event.message].with_text(event.text)
            if isinstance(event, MessageTriaged) and in_time and event.message in found:
                found[event.message] = found[event.message].with_choice(event.choice)
        after = page[-1].position
    return [found[position] for position in sorted(found)]


async def say(host: Host, step: str, text: str, course: int) -> None:
    """Say something in the thread, once."""
    run, thread = host.journal.run, host.journal.state.thread
    streamed = host.in_flight.last_words
    host.in_flight.speak(None)
    if streamed is not None and not streamed.begin(text):
        streamed = None

    def decided(view: View) -> Draft:
        mine = view.states[run]
        assert isinstance(mine, RunState)
        if not still_moves(mine, host.journal.epoch):
            return Draft()
        note = e.Spoke(epoch=host.journal.epoch, step=step)
        said = Said(
            run=run,
            text=text,
            kind="aside" if mine.aside_of else "text",
            step=streamed.step if streamed else "",
            attempt=streamed.attempt if streamed else 0,
            untrusted=mine.untrusted,
        )
        return Draft({run: (*host.journal.wait_over(mine), note), thread: (said,)})

    while host.history.claim(step) is None:
        await host.gate.wait(course)
        request = Submit(host.ids(), (run, thread), decided)
        await host.journal.submit(request, unless=host.signals.is_stopped)


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
