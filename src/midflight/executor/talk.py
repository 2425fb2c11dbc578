"""The run and its thread: what people have written, and what the function says to them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from midflight.conversation import BACKGROUND, Message, Spoken
from midflight.executor.front import read_report
from midflight.executor.gate import still_moves
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
from midflight.stores.lookup import Journals
from midflight.stores.protocol import PAGE, Draft, Submit, View

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

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


async def take_messages(driver: Driver, step: str, course: int) -> list[Message]:
    """Unread messages, which are read from here on; at replay the same ones again.

    A call that found none leaves no record of its own. So while the function is not yet where it
    was, a call without a record found none.
    """
    if driver.replay.claim(step) is None:
        if driver.replay.unfinished:
            return []
        if not await _take(driver, step, course):
            await _note_that_it_looks(driver)
            return []
        driver.replay.claim(step)
    return await _texts(driver, driver.replay.taken[step])


async def _note_that_it_looks(driver: Driver) -> None:
    """Put on record, once, that the function looks for messages: senders are told so."""

    def chosen(state: RunState) -> list[e.InboxOpened]:
        running = state.phase is Phase.RUNNING and not state.pending
        ours = running and state.epoch == driver.epoch and not driver.lost
        return [] if state.reads_messages or not ours else [e.InboxOpened(epoch=driver.epoch)]

    if not driver.log.state.reads_messages:
        await driver.log.decide(chosen)


async def _take(driver: Driver, step: str, course: int) -> bool:
    """Take what is unread, in one transaction with the thread. False when there is nothing."""
    run, thread = driver.run, driver.log.state.thread

    def decided(view: View) -> Draft:
        mine, talk = view.states[run], view.states[thread]
        assert isinstance(mine, RunState)
        assert isinstance(talk, ThreadState)
        if not still_moves(mine, driver.epoch):
            return Draft()
        messages = readable(talk, run, converses=driver.agent.converses)
        if not messages:
            return Draft(note=NOTHING)
        taken = e.MessagesTaken(run=run, upto=talk.head, messages=messages, step=step)
        return Draft({run: (*driver.wait_over(mine), taken), thread: (taken,)})

    while step not in driver.replay.taken:
        head = (await driver.journals.row(thread)).head
        if head <= driver.thread_read:
            return False  # nothing was written there since we last looked
        await driver.gate.wait(course)
        request = Submit(driver.ids(), (run, thread), decided)
        done = await driver.log.submit(request, unless=driver.is_stopped)
        if done.note == NOTHING:
            driver.thread_read = head
            return False
    return True


async def _texts(driver: Driver, taken: e.MessagesTaken) -> list[Message]:
    """The messages as they stood when they were taken, in the order of their writing."""
    found: dict[int, Message] = {}
    after = min(taken.messages) - 1
    while after < taken.upto:
        page: list[Recorded] = await driver.journals.read(driver.log.state.thread, after=after)
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
                text = await read_report(driver.journals, event)
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


async def say(driver: Driver, step: str, text: str, course: int) -> None:
    """Say something in the thread, once."""
    run, thread = driver.run, driver.log.state.thread
    streamed, driver.last_words = driver.last_words, None
    if streamed is not None and not streamed.begin(text):
        streamed = None

    def decided(view: View) -> Draft:
        mine = view.states[run]
        assert isinstance(mine, RunState)
        if not still_moves(mine, driver.epoch):
            return Draft()
        note = e.Spoke(epoch=driver.epoch, step=step)
        said = Said(
            run=run,
            text=text,
            kind="aside" if mine.aside_of else "text",
            step=streamed.step if streamed else "",
            attempt=streamed.attempt if streamed else 0,
            untrusted=mine.untrusted,
        )
        return Draft({run: (*driver.wait_over(mine), note), thread: (said,)})

    while driver.replay.claim(step) is None:
        await driver.gate.wait(course)
        request = Submit(driver.ids(), (run, thread), decided)
        await driver.log.submit(request, unless=driver.is_stopped)


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
