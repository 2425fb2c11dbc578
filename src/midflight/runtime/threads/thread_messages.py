"""The messages of a thread: heard beside the work, read by the function, and answered.

Messages are heard while a step runs and while the run waits. They are gathered until people have
finished a thought; then the triage chooses about them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Final

import anyio

from midflight.conversation import BACKGROUND, Message
from midflight.errors import JournalNotFound
from midflight.journal import events as e
from midflight.journal.fold import advance
from midflight.journal.phases import Phase
from midflight.journal.record import Recorded
from midflight.journal.state import RunState
from midflight.journal.threads import front
from midflight.journal.threads.front import readable
from midflight.journal.threads.thread import (
    MessageEdited,
    MessageSent,
    MessageTriaged,
    Said,
    ThreadState,
)
from midflight.runtime.host import Host
from midflight.runtime.signals import still_moves
from midflight.runtime.threads.succession import begun_in, read_report, thread_of, to_front
from midflight.runtime.threads.thread_triage import Triage
from midflight.stores.protocol import Draft, Submit, View

RUSH_MAX: Final = 3  # while people keep writing each call waits twice as long; so often
NOTHING: Final = "nothing unread"


class Attention:
    """The attention that a driver pays to the messages of its run's thread."""

    __slots__ = (
        "_arrived", "_arriving", "_heard", "_host", "_rushed", "_talk", "_triage", "choosing",
    )  # fmt: skip

    def __init__(self, host: Host) -> None:
        self._host = host
        self._talk: ThreadState | None = None
        self._arriving = host.agent.converses  # and has not seen the thread yet
        self._triage = Triage(host)
        self._arrived: anyio.Event | None = None
        self.choosing = False  # about messages
        self._heard = 0
        self._rushed = 0

    @property
    def busy(self) -> bool:
        """True while there are messages to look at, or may be, or they are being looked at."""
        return self._arriving or self.choosing or self._due()

    @property
    def has_messages(self) -> bool:
        """True if there are messages for this run about which nothing was chosen yet."""
        talk = self._talk
        in_front = talk is not None and talk.front == self._host.journal.run
        # layer only-run-in-front-looks
        return talk is not None and in_front and bool(front.open_messages(talk))

    def abort(self, why: str) -> None:
        """End the call that is under way."""
        self._triage.abort(why)

    async def stop(self, why: str) -> None:
        """End it and wait until that is on record; the function was told, so none begins anew."""
        self.abort(why)
        await self._host.journal.until(lambda: not self.choosing)

    async def pay_attention(self) -> None:
        """For as long as the run is driven here."""
        host, thread = self._host, self._host.journal.state.thread
        try:
            talk = await host.journal.client.load(thread)
        except JournalNotFound:
            return
        finally:
            self._arriving = False
        assert isinstance(talk, ThreadState)
        self._talk = talk
        if talk.host is None and talk.front == host.journal.run:
            await self._be_host(thread)
        host.journal.watch_also(thread, talk.head, self._hear)
        while True:
            if self.has_messages:
                await host.journal.until(self._due, resting=True)
                await self._let_them_finish()
                await self._look()
            else:
                self._arrived = anyio.Event()
                await self._arrived.wait()

    async def _be_host(self, thread: str) -> None:
        """Make this agent the thread's host: the starter of the run knew only the agent's name."""
        run, agent = self._host.journal.run, self._host.agent

        def decided(view: View) -> Draft:
            talk = thread_of(view, thread)
            ours = talk.host is None and talk.front == run
            return Draft({thread: (to_front(run, agent),)} if ours else {})

        await self._host.journal.submit(Submit(self._host.ids(), (thread,), decided))
        await self._catch_up()

    def _hear(self, record: Recorded) -> None:
        self._fold([record])

    def _fold(self, records: Sequence[Recorded]) -> None:
        talk = self._talk
        assert talk is not None
        before = talk.messages
        for record in records:
            if record.position == talk.head + 1:
                advance(talk, record)
        self._heard += talk.messages - before
        if self.has_messages and self._arrived is not None:
            self._arrived.set()
        self._host.journal.stir()

    async def _catch_up(self) -> None:
        talk = self._talk
        assert talk is not None
        self._fold(await self._host.journal.client.read(talk.journal, after=talk.head))

    def _due(self) -> bool:
        return self.has_messages and self._triage.may_ask

    async def _let_them_finish(self) -> None:
        """People send a thought in pieces. While they keep writing, each call waits longer."""
        after = self._host.agent.triage_after
        until = anyio.current_time() + 2 * after * 2**self._rushed
        while (left := until - anyio.current_time()) > 0:
            heard = self._heard
            with anyio.move_on_after(min(after, left)) as silence:
                await self._host.journal.until(partial(self._more_than, heard))
            if silence.cancelled_caught:
                await self._catch_up()  # a busy process may not have read yet what was written
                if not self._more_than(heard):  # layer not-read-yet-no-silence
                    break
        rushed = anyio.current_time() >= until
        self._rushed = min(self._rushed + 1, RUSH_MAX) if rushed else 0

    def _more_than(self, heard: int) -> bool:
        return self._heard != heard

    async def _look(self) -> None:
        """Choose about all that has gathered."""
        talk = self._talk
        if talk is None or not self._due():
            return
        self.choosing = True
        try:
            messages = [dataclasses.replace(m) for m in front.open_messages(talk)]
            done = await self._triage.choose(messages)
            if done is not None:
                await self._catch_up()
                for run in begun_in(done):
                    await self._host.ensure(run)
        finally:
            self.choosing = False
            self._host.journal.stir()


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
        said = Said(  # layer run-says-marked-if-has
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
