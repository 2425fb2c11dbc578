"""Messages are looked at beside the work: while a step runs, and while the run waits.

One call chooses about everything that has gathered, and its end and what follows from it are one
transaction over thread and run. Nobody is asked what to do while a person holds the run; a stop
aborts the call as it does every model call, and the messages are looked at again afterwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import msgspec
from msgspec import Raw

from midflight.conversation import (
    Choice,
    Message,
    TriageView,
    rule_triage,
)
from midflight.errors import JournalNotFound
from midflight.executor import values
from midflight.executor.calls import GRACE_S, Aborted, Call, Raised, Returned
from midflight.executor.choosing import Chosen, Purse, apply_choices, is_open, valid_choices
from midflight.executor.detach import detachable
from midflight.executor.front import begun_in, drafted, thread_of, to_front
from midflight.executor.logbook import AGAIN_S, TROUBLE
from midflight.executor.talk import spoken
from midflight.kernel import events as e
from midflight.kernel import front
from midflight.kernel.fold import advance
from midflight.kernel.limits import at_cap
from midflight.kernel.machine import TRIAGE
from midflight.kernel.phases import Effect, Outcome, Phase
from midflight.kernel.record import NULL, Event, Recorded
from midflight.kernel.state import RunState
from midflight.kernel.status import status
from midflight.kernel.thread import Message as Unread
from midflight.kernel.thread import ThreadState
from midflight.stores.base import RUN_PREFIX, Draft, Submit, View, Watch
from midflight.tasks import owned_tasks
from midflight.tools.base import Tool

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

T = TypeVar("T")
TRIAGE_S: Final = 20.0  # a triage that takes longer has nothing to say
RUSH_MAX: Final = 3  # while people keep writing each call waits twice as long; so often
TRANSCRIPT: Final = 20  # lines of the conversation that a triage sees
STOPPED: Final = "stopped"
LATE: Final = f"no end within {TRIAGE_S:g} s"


class Attention:
    """What a driver pays to the messages of its run's thread."""

    __slots__ = ("_arriving", "_call", "_choosing", "_driver", "_heard", "_rushed", "_talk")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._talk: ThreadState | None = None
        self._arriving = driver.agent.converses  # and has not seen the thread yet
        self._call: Call | None = None
        self._choosing = False
        self._heard = 0
        self._rushed = 0

    @property
    def busy(self) -> bool:
        """Whether there are messages to be looked at, or may be, or they are being looked at."""
        return self._arriving or self._choosing or self._due()

    @property
    def has_messages(self) -> bool:
        """Whether there are messages for this run about which nothing was chosen yet."""
        talk = self._talk
        in_front = talk is not None and talk.front == self._driver.run
        return talk is not None and in_front and bool(front.open_messages(talk))

    def abort(self, why: str) -> None:
        """End the call that is under way."""
        if self._call is not None:
            self._call.abort(why)

    def _abort_if_stopped(self, _record: Recorded) -> None:
        """Whoever holds, redirects or cancels the run is heard here at once, in both modes."""
        if self._call is None or self._may():
            return
        state = self._driver.log.state
        redirected = "redirect" in state.pending.values()
        cancelled = state.phase is Phase.CANCELLING
        self.abort("redirected" if redirected else "cancelled" if cancelled else "paused")

    async def stop(self, why: str) -> None:
        """End it and wait until that is on record; the function was told, so none begins anew."""
        self.abort(why)
        await self._driver.log.until(lambda: not self._choosing)

    async def pay_attention(self) -> None:
        """For as long as the run is driven here."""
        driver, thread = self._driver, self._driver.log.state.thread
        try:
            talk = await self._patiently(lambda: driver.store.load(thread))
        except JournalNotFound:
            return
        finally:
            self._arriving = False
        assert isinstance(talk, ThreadState)
        self._talk = talk
        if talk.host is None and talk.front == driver.run:
            await self._be_host(thread)
        driver.log.heard.append(self._abort_if_stopped)
        async with driver.store.watch({thread: talk.head}) as news, owned_tasks() as tasks:
            tasks.start_soon(self._listen, news)
            while True:
                await driver.log.until(self._due)
                await self._let_them_finish()
                await self._look()

    async def _be_host(self, thread: str) -> None:
        """Who started the run knew only its agent's name: say here that it converses."""
        run, agent = self._driver.run, self._driver.agent

        def decided(view: View) -> Draft:
            talk = thread_of(view, thread)
            ours = talk.host is None and talk.front == run
            return Draft({thread: (to_front(run, agent),)} if ours else {})

        await self._driver.log.submit(Submit(self._driver.ids(), (thread,), decided))
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
        self._driver.log.stir()

    async def _catch_up(self) -> None:
        talk = self._talk
        assert talk is not None
        store = self._driver.store
        self._fold(await self._patiently(lambda: store.read(talk.journal, after=talk.head)))

    async def _patiently(self, read: Callable[[], Awaitable[T]]) -> T:
        """A store that is out of reach for a while must not cost the run its driver."""
        while True:
            try:
                return await read()
            except TROUBLE:
                await anyio.sleep(AGAIN_S)

    def _due(self) -> bool:
        return self.has_messages and self._may()

    def _may(self) -> bool:
        """Whether a call may begin: nobody holds or stops the run, and it is driven here."""
        driver, state = self._driver, self._driver.log.state
        moves = state.phase in {Phase.RUNNING, Phase.WAITING} and not state.pending
        ours = (
            driver.course.told is None
            and not driver.lost
            and driver.lease.held
            and not driver.draining
        )
        return moves and ours

    async def _let_them_finish(self) -> None:
        """People send a thought in pieces. While they keep writing, each call waits longer."""
        after = self._driver.agent.triage_after
        until = anyio.current_time() + 2 * after * 2**self._rushed
        while (left := until - anyio.current_time()) > 0:
            heard = self._heard
            with anyio.move_on_after(min(after, left)) as silence:
                await self._driver.log.until(partial(self._more_than, heard))
            if silence.cancelled_caught:
                await self._catch_up()  # who was busy may not have read yet what was written
                if not self._more_than(heard):
                    break
        rushed = anyio.current_time() >= until
        self._rushed = min(self._rushed + 1, RUSH_MAX) if rushed else 0

    def _more_than(self, heard: int) -> bool:
        return self._heard != heard

    # ── choosing ─────────────────────────────────────────────────────────────────────────────

    async def _look(self) -> None:
        """Choose about all that has gathered."""
        talk = self._talk
        if talk is None or not self._due():
            return
        self._choosing = True
        try:
            messages = [dataclasses.replace(m) for m in front.open_messages(talk)]
            chosen = await self._chosen([m for m in messages if m.who.role.steers])
            if chosen is not None:
                await self._apply(messages, chosen)
        finally:
            self._choosing = False
            self._driver.log.stir()

    async def _chosen(self, messages: list[Unread]) -> Chosen | None:
        """Only those who may steer are listened to. None when it was stopped on the way."""
        driver = self._driver
        if not messages:
            return Chosen(0)
        view = await self._view(messages)
        if driver.agent.triage is None:
            return Chosen(0, tuple(await rule_triage(view)))
        caps = msgspec.structs.replace(driver.log.state.limits, steps=None, tool_calls=None)
        if (meter := at_cap(driver.log.state, driver.clock(), caps=caps)) is not None:
            return Chosen(0, error=f"the cap on {meter.name} is reached")
        return await self._asked(view, messages[-1].position)

    async def _view(self, messages: list[Unread]) -> TriageView:
        driver, state = self._driver, self._driver.log.state
        before = messages[0].position - 1
        said = await self._patiently(lambda: spoken(driver.store, state.thread, before, TRANSCRIPT))
        return TriageView(
            brief=state.brief,
            status=status(state, driver.clock()),
            plan=state.plan,
            messages=[Message(m.position, m.text, m.who.by, m.who.role, m.at) for m in messages],
            transcript=said,
        )

    async def _asked(self, view: TriageView, upto: int) -> Chosen | None:
        """Ask the agent's own triage, on record like every call of a model."""
        driver = self._driver
        written = await driver.log.decide(partial(self._started, upto))
        if not written:
            return None
        attempt, purse = written[-1].position, Purse()
        declared = Tool(name=TRIAGE, function=self._triage, effect=Effect.MODEL, timeout=TRIAGE_S)
        if not self._may():  # no await from here to the first line of the call
            await self._settle(Chosen(attempt, outcome=Outcome.NOT_STARTED))
            return None
        self._call = call = Call(declared, (view,), {}, driver.alarms, purse)
        deaf = driver.alarms.loop.call_later(TRIAGE_S + GRACE_S, call.abort, LATE)
        try:
            ending = await call.run()
        finally:
            deaf.cancel()
            self._call = None
        match ending:
            case Returned(value=value):
                choices = valid_choices(value)
                error = "" if choices else "it has chosen nothing"
                return Chosen(attempt, choices, error=error, usage=purse.usage)
            case Raised(error=raised):
                failed, words = Outcome.FAILED, values.words(raised)
                return Chosen(attempt, outcome=failed, error=words, usage=purse.usage)
            case Aborted(why=why):
                ended = Chosen(attempt, outcome=Outcome.ABORTED, error=why, usage=purse.usage)
                if why == LATE:
                    return ended  # it would be as deaf the next time
                await self._settle(ended)
                return None

    async def _triage(self, view: TriageView) -> Sequence[Choice]:
        """The agent's own. It has no effects, so one that ignores its end is left behind."""
        triage, call = self._driver.agent.triage, self._call
        assert triage is not None
        assert call is not None

        async def choose() -> Sequence[Choice]:
            return await triage(view)

        return await detachable(choose(), lambda: call.stubborn)

    def _started(self, upto: int, state: RunState) -> list[Event]:
        if not self._may():
            return []
        return [
            e.AttemptStarted(
                epoch=self._driver.epoch,
                step=f"triage:{upto}",
                name="Read messages",
                tool=TRIAGE,
                effect=Effect.MODEL,
                idempotency_key=f"{state.journal}:triage:{upto}",
            )
        ]

    def _settled(self, chosen: Chosen) -> e.AttemptSettled:
        return e.AttemptSettled(
            epoch=self._driver.epoch,
            attempt=chosen.attempt,
            outcome=chosen.outcome,
            result=Raw(msgspec.json.encode(chosen.choices)) if chosen.choices else NULL,
            error=chosen.error if chosen.outcome is not Outcome.DONE else "",
            usage=chosen.usage,
        )

    async def _settle(self, chosen: Chosen) -> None:
        if chosen.attempt:
            await self._driver.log.settle(self._settled(chosen))

    # ── applying ─────────────────────────────────────────────────────────────────────────────

    async def _apply(self, messages: list[Unread], chosen: Chosen) -> None:
        """What was chosen becomes true, in one transaction with the end of the call."""
        driver, thread = self._driver, self._driver.log.state.thread
        new = RUN_PREFIX + driver.ids()

        def decided(view: View) -> Draft:
            mine, talk = view.states[driver.run], thread_of(view, thread)
            assert isinstance(mine, RunState)
            if not driver.still_moves(mine) or talk.front != driver.run:
                return Draft(note=STOPPED)
            moves = front.Moves()
            if chosen.attempt:
                moves.add(driver.run, self._settled(chosen))
            still = [m for m in messages if is_open(talk, m)]
            apply_choices(moves, view, talk, mine, still, chosen, new=new)
            return drafted(view, moves, covered=mine.agent)  # killed, we would not drive it

        request = Submit(driver.ids(), (driver.run, thread), decided)
        done = await driver.log.submit(request)
        if done.note == STOPPED:
            await self._settle(
                msgspec.structs.replace(chosen, outcome=Outcome.ABORTED, error="not needed")
            )
        await self._catch_up()
        for run in begun_in(done):
            await driver.ensure(run)
