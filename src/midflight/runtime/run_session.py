"""One run while it is driven here: its parts, each with one owner.

Steps and other work get the session as their ``Host``. Only the driver's transitions see all of it:
they also need the agent's function and the attention that is paid to messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from msgspec import Raw

from midflight.agents import Agent
from midflight.errors import SourceGone
from midflight.inputs import Clock, Ids
from midflight.journal.state import RunState
from midflight.run import Redirected, Signal
from midflight.runtime import values
from midflight.runtime.foreign import being_ended, ends_us, tamed, traceback_of
from midflight.runtime.host import Afterwards, Ensure, Host
from midflight.runtime.in_flight import InFlight, Tasks
from midflight.runtime.journal_client import JournalClient
from midflight.runtime.questions import Questions
from midflight.runtime.replay.cursor import Cursor
from midflight.runtime.replay.lineage import Lineage
from midflight.runtime.replay.run_forks import settle_with_the_past
from midflight.runtime.replay.staleness import Guards
from midflight.runtime.run_journal import RunJournal
from midflight.runtime.signals import Gate, Signals
from midflight.runtime.steps.bounds import Alarms, detachable
from midflight.runtime.threads.thread_messages import Attention
from midflight.stores.protocol import Lease
from midflight.tools.secret import clean_logger

UNWIND_S: Final = 5.0  # seconds for a function's own clean-up before it is abandoned
CANCELLED_S: Final = 1.0  # and what it has after a cancel

log: Final = clean_logger(__name__)


async def _nobody_else(_run: str) -> None:
    """Other runs are found by a sweep."""


def _nothing_afterwards(*_work: Any) -> None:
    """Do nothing: nobody is there to do the work."""


class Session:
    """The parts of a run that was claimed for the holder of ``lease``. See ``Host``."""

    __slots__ = (
        "afterwards", "agent", "alarms", "attention", "clock", "ensure", "function",
        "gate", "guards", "history", "ids", "in_flight", "journal", "lease", "lineage",
        "over", "questions", "signals", "tasks", "workdir",
    )  # fmt: skip

    def __init__(
        self,
        client: JournalClient,
        agent: Agent,
        state: RunState,
        lease: Lease,
        *,
        workdir: Path,
        clock: Clock,
        ids: Ids,
        alarms: Alarms,
        ensure: Ensure = _nobody_else,
        afterwards: Afterwards = _nothing_afterwards,
    ) -> None:
        self.agent = agent
        self.lease = lease
        self.workdir = workdir
        self.clock = clock
        self.ids = ids
        self.alarms = alarms
        self.ensure = ensure
        self.afterwards = afterwards
        self.tasks = Tasks(alarms)
        self.journal = RunJournal(client, state, ids)
        self.history: Cursor = self.journal.history
        self.in_flight = InFlight(self.journal, self.tasks, immediate=agent.mode == "immediate")
        self.signals = Signals(self.journal, self.in_flight)
        self.gate = Gate(self.journal, self.signals, lease)
        self.questions = Questions(self.journal, self.signals, self.gate, self.in_flight)
        self.lineage = Lineage(self.journal)
        self.guards = Guards(self)
        self.function = AgentCall(self)
        self.attention = Attention(self)
        self.over = False  # nothing is left to do here

    def be_over(self) -> None:
        """Nothing is left to do here."""
        self.over = True

    def enter(self) -> None:
        """Be ready for the function to be called (again)."""
        self.history.enter()
        self.signals.enter()
        self.guards.enter()

    def let_go(self) -> None:
        """Cut the references between the parts.

        Left to the garbage collector, ten thousand runs would be in memory long after they were let
        go.
        """
        self.signals.forget()
        self.signals.on_redirect(None)
        self.function.forget()
        self.journal.let_go()
        self.history.let_go()
        del self.function, self.guards, self.attention


class AgentCall:
    """One run's agent function. ``ended`` is its value or error once it has come to its end."""

    __slots__ = ("_abandoned", "_host", "_late", "_task", "ended", "running")

    def __init__(self, host: Host) -> None:
        self.running = False
        self.ended: BaseException | Raw | None = None
        self._host = host
        self._task: asyncio.Task[Any] | None = None
        self._abandoned = False
        self._late = False
        host.signals.on_redirect(self._redirected)

    def fail(self, error: Exception) -> None:
        """It cannot be called, for this reason."""
        self.ended = error

    def start(self, context: Any) -> None:
        """Call it (again), in a task of the driver's."""
        self.ended, self.running = None, True
        self._host.tasks.start(self._call, context)

    def _redirected(self, brief: str) -> None:
        """There is a new course; one that had come to its end by then has not heard of it."""
        if self.ended is not None and not isinstance(self.ended, Signal):
            self.ended = Redirected(brief)

    def forget(self) -> None:
        """Its end does not count: the run moves again and it is called anew."""
        self.ended = None

    def abandon(self) -> None:
        """Leave the function behind: a part of it that still runs is not resumed."""
        self._abandoned = True

    async def _call(self, context: Any) -> None:
        self._task = asyncio.current_task()
        host = self._host
        try:
            if host.journal.state.fork_of:
                await settle_with_the_past(host)
            calling = host.agent.function(context)
            if not isinstance(calling, Coroutine):
                raise TypeError(f"agent {host.agent.name} has to be an async def, and is not")
            value = await detachable(calling, lambda: self._abandoned)
            self.ended = values.encode_result("", value)
        except asyncio.CancelledError as error:
            if being_ended():
                raise
            self.ended = host.signals.told or error  # ours, or its own
        except BaseException as error:  # the edge of the agent's own code
            if ends_us(tamed(error), self._task):  # in no variable: it would keep this frame
                raise
            self.ended = self._own(_unwrapped(tamed(error)))
        finally:
            self.running = False
            if host.signals.heard != host.signals.number:
                self._redirected(host.history.brief)
            host.journal.stir()

    def _own(self, error: BaseException) -> BaseException:
        """Return how the function ended; a signal that nobody has given it is a failure.

        After a signal of ours it is called again, and after one of its own it would be for ever.
        """
        course = self._host.signals
        if not isinstance(error, Signal) or course.signalled or course.told is not None:
            return error
        name = type(error).__name__
        failed = RuntimeError(f"the agent's function raised {name}, which only Midflight may raise")
        return failed.with_traceback(error.__traceback__)

    def report_failure(self) -> None:
        """Log where the function has failed: the journal keeps only one line of the error."""
        error, host = self.ended, self._host
        if not isinstance(error, BaseException):
            return
        about = {"action": "agent_failed", "run": host.journal.run, "agent": host.agent.name}
        if isinstance(error, SourceGone):  # which is no fault of the function: it was not called
            gone = {**about, "action": "source_gone", "source": error.source}
            log.warning("Run %s, a fork, has failed: %s", host.journal.run, error, extra=gone)
            return
        words = "The function of agent %s has failed in run %s\n%s"
        log.error(words, host.agent.name, host.journal.run, traceback_of(error), extra=about)

    async def unwind(self) -> None:
        """Wait for the function to end; one that does not is abandoned."""
        await self._within(UNWIND_S)
        if self.running and self._task is not None:
            self._task.cancel()
            await self._within(CANCELLED_S)
        if self.running and self._task is not None:
            host = self._host
            where = {
                "action": "function_abandoned",
                "run": host.journal.run,
                "agent": host.agent.name,
            }
            words = (
                "The function of agent %s in run %s did not end when it was told to: it was left "
                "behind, and the run goes on without it"
            )
            log.warning(words, host.agent.name, host.journal.run, extra=where)
            self.abandon()
            self._task.cancel()
            await host.journal.until(lambda: not self.running)

    async def _within(self, seconds: float) -> None:
        alarms, self._late = self._host.alarms, False
        alarms.set(self, alarms.loop.time() + seconds)
        try:
            await self._host.journal.until(lambda: self._late or not self.running)
        finally:
            alarms.drop(self)

    def ring(self, _now: float) -> None:
        """It has not ended in time."""
        self._late = True
        self._host.journal.stir()


def _unwrapped(error: BaseException) -> BaseException:
    """A signal that came out of a task group is still that signal."""
    while isinstance(error, BaseExceptionGroup):
        signals = [inner for inner in error.exceptions if isinstance(inner, Signal)]
        error = signals[0] if signals else error.exceptions[0]
    return error
