"""The driver of one run: enters its function, hears what people want, and brings it to its end.

One task, the pilot, looks at the folded state and makes the next move; the others only work
(steps), read what was missed, or run the agent's function. Everything they learn goes through the
journal, so the pilot decides on one state and nothing else.
"""

from __future__ import annotations

from typing import Final

import anyio

from midflight.executor import children
from midflight.executor.calls import Call
from midflight.executor.host import Ensure
from midflight.executor.pilot import next_move, until_something_happens
from midflight.executor.session import Session
from midflight.kernel import events as e
from midflight.kernel.fold import BULK
from midflight.kernel.phases import Phase
from midflight.kernel.record import Recorded
from midflight.stores.base import PAGE, Watch

__all__ = ["Driver", "Ensure"]

ENDING: Final = "its process is ending"


class Driver:
    """Drives the run of a session; the session's journal is still to be read."""

    __slots__ = ("_catching_up", "_rested", "_session", "_watch")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rested = False
        self._catching_up = False
        self._watch: Watch
        session.journal.listen(self._hear)

    # ── what an engine asks ──────────────────────────────────────────────────────────────────

    @property
    def has_left(self) -> bool:
        """True if the run was released: what is asked of it now is for the next driver."""
        return self._session.over or not self._session.journal.state.driver

    @property
    def lost(self) -> bool:
        """True if the run was killed or has another driver: nothing may be decided here."""
        return self._session.journal.lost

    def look_again(self) -> None:
        """Look again at what is in no journal: a lease may be sure again."""
        self._session.journal.ask_again()

    def step_making(self, call: Call) -> str:
        """Return the name of the step that makes this call. It is asked in another thread."""
        steps = tuple(self._session.in_flight.steps)
        return next((step.name for step in steps if step.call is call), "")

    def give_notice(self, kind: str, text: str) -> None:
        """Tell person and function, once for each kind."""
        self._session.tasks.begin(self._session.journal.give_notice, kind, text)

    def drain(self) -> None:
        """Come to rest and leave, because this process is about to end."""
        self._session.gate.drain()
        self._session.attention.abort(ENDING)
        self._session.journal.stir()

    def cut_short(self) -> None:
        """End what is inside a tool, effects too: this process ends now, and they with it."""
        self._session.in_flight.cut_short(ENDING)

    def leave_behind(self) -> None:
        """Do not let what would not end keep this process, and put on record that it may act."""
        self._session.in_flight.leave_behind(ENDING)
        self._session.function.abandon()

    # ── the pilot ────────────────────────────────────────────────────────────────────────────

    async def drive(self) -> None:
        """Drive until the run ends, rests for long, or is not ours any more."""
        journal = self._session.journal
        try:
            await self._read()
            journal.clock.set(journal.state.at)
            if journal.state.driver == self._session.lease.driver:
                async with journal.client.watch({journal.run: journal.state.head}) as watch:
                    self._watch = watch
                    journal.drive_on(watch)
                    await self._pilot()
        finally:
            self._session.let_go()

    async def _pilot(self) -> None:
        session = self._session
        async with anyio.create_task_group() as tasks:
            session.tasks.open(tasks)
            self._watch.tap(self._take_in, self._fell_behind)
            await children.look_after(session)
            if session.agent.converses:
                session.tasks.start(session.attention.pay_attention)
            try:
                while not session.over:
                    move = next_move(session)
                    if move is not None:
                        await move(session)
                    else:
                        await until_something_happens(session)
                session.function.abandon()
            finally:
                session.tasks.close()
            tasks.cancel_scope.cancel()

    # ── hearing ──────────────────────────────────────────────────────────────────────────────

    async def _read(self) -> None:
        """Fold the journal and note its records: once, and a page at a time for the loop's sake."""
        journal = self._session.journal
        while True:
            page = await journal.client.read(journal.run, after=journal.state.head)
            if page and isinstance(created := page[0].event, e.RunCreated):
                await self._session.lineage.take_over(created)
            journal.absorb(page)
            if len(page) < PAGE:
                return

    def _fell_behind(self) -> None:
        if not self._catching_up:
            self._catching_up = True
            self._session.tasks.begin(self._catch_up)

    async def _catch_up(self) -> None:
        try:
            await self._watch.catch_up()
        finally:
            self._catching_up = False

    def _take_in(self, record: Recorded) -> None:
        session = self._session
        if record.journal == session.journal.run:
            session.journal.absorb([record])
        elif isinstance(record.event, e.RunFinished | e.Killed):
            session.tasks.begin(children.settle, session, record.journal)

    def _hear(self, record: Recorded) -> None:
        """React at once to the few events that cannot wait for the pilot's turn."""
        if type(record.event) in BULK:
            return  # most of a journal, and none of it is for us
        session = self._session
        rested, self._rested = self._rested, session.journal.state.phase is Phase.PAUSED
        if rested and not self._rested:
            session.gate.look_again()
        match record.event:
            case e.LateOutcome():
                session.in_flight.hear_late()
            case e.EffectStopRequested(attempt=attempt):
                session.in_flight.stop_effect(attempt)
            case e.CancelRequested(now=now):
                session.in_flight.cancel(now=now)
            case _:
                pass
