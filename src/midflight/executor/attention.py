"""Hears messages beside the work: while a step runs, and while the run waits.

Messages are gathered until people have finished a thought; then ``triage`` chooses about them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Final

import anyio

from midflight.errors import JournalNotFound
from midflight.executor.front import begun_in, thread_of, to_front
from midflight.executor.host import Host
from midflight.executor.triage import Triage
from midflight.kernel import front
from midflight.kernel.fold import advance
from midflight.kernel.record import Recorded
from midflight.kernel.thread import ThreadState
from midflight.stores.base import Draft, Submit, View, Watch
from midflight.tasks import owned_tasks

RUSH_MAX: Final = 3  # while people keep writing each call waits twice as long; so often


class Attention:
    """The attention that a driver pays to the messages of its run's thread."""

    __slots__ = ("_arriving", "_choosing", "_heard", "_host", "_rushed", "_talk", "_triage")

    def __init__(self, host: Host) -> None:
        self._host = host
        self._talk: ThreadState | None = None
        self._arriving = host.agent.converses  # and has not seen the thread yet
        self._triage = Triage(host)
        self._choosing = False
        self._heard = 0
        self._rushed = 0

    @property
    def busy(self) -> bool:
        """True while there are messages to look at, or may be, or they are being looked at."""
        return self._arriving or self._choosing or self._due()

    @property
    def has_messages(self) -> bool:
        """True if there are messages for this run about which nothing was chosen yet."""
        talk = self._talk
        in_front = talk is not None and talk.front == self._host.journal.run
        return talk is not None and in_front and bool(front.open_messages(talk))

    def abort(self, why: str) -> None:
        """End the call that is under way."""
        self._triage.abort(why)

    async def stop(self, why: str) -> None:
        """End it and wait until that is on record; the function was told, so none begins anew."""
        self.abort(why)
        await self._host.journal.until(lambda: not self._choosing)

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
        host.journal.listen(self._triage.abort_if_stopped)
        async with host.journal.client.watch({thread: talk.head}) as news, owned_tasks() as tasks:
            tasks.start_soon(self._listen, news)
            while True:
                await host.journal.until(self._due)
                await self._let_them_finish()
                await self._look()

    async def _be_host(self, thread: str) -> None:
        """Make this agent the thread's host: the starter of the run knew only the agent's name."""
        run, agent = self._host.journal.run, self._host.agent

        def decided(view: View) -> Draft:
            talk = thread_of(view, thread)
            ours = talk.host is None and talk.front == run
            return Draft({thread: (to_front(run, agent),)} if ours else {})

        await self._host.journal.submit(Submit(self._host.ids(), (thread,), decided))
        await self._catch_up()

    async def _listen(self, news: Watch) -> None:
        async for record in news:
            self._fold([record])

    def _fold(self, records: Sequence[Recorded]) -> None:
        talk = self._talk
        assert talk is not None
        before = talk.messages
        for record in records:
            if record.position == talk.head + 1:
                advance(talk, record)
        self._heard += talk.messages - before
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
                if not self._more_than(heard):
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
        self._choosing = True
        try:
            messages = [dataclasses.replace(m) for m in front.open_messages(talk)]
            done = await self._triage.choose(messages)
            if done is not None:
                await self._catch_up()
                for run in begun_in(done):
                    await self._host.ensure(run)
        finally:
            self._choosing = False
            self._host.journal.stir()
