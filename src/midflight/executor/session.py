"""One run while it is driven here: its parts, each with one owner.

Steps and other work get the session as their ``Host``. Only the driver's transitions see all of it:
they also need the agent's function and the attention that is paid to messages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from midflight.executor.alarms import Alarms
from midflight.executor.asking import Questions
from midflight.executor.attention import Attention
from midflight.executor.function import AgentCall
from midflight.executor.gate import Gate
from midflight.executor.guarding import Guards
from midflight.executor.host import Afterwards, Ensure, Tasks
from midflight.executor.in_flight import InFlight
from midflight.executor.journal_client import JournalClient
from midflight.executor.line import Lineage
from midflight.executor.logbook import RunJournal
from midflight.executor.replay import Replay
from midflight.executor.signals import Signals
from midflight.inputs import Clock, Ids
from midflight.kernel.phases import Phase
from midflight.kernel.state import RunState
from midflight.run import Agent
from midflight.stores.base import Lease


async def _nobody_else(_run: str) -> None:
    """Other runs are found by a sweep."""


def _nothing_afterwards(*_work: Any) -> None:
    """Do nothing: nobody is there to do the work."""


class Session:
    """The parts of a run that was claimed for the holder of ``lease``. See ``Host``."""

    __slots__ = (
        "_over", "afterwards", "agent", "alarms", "attention", "clock", "ensure", "function",
        "gate", "guards", "history", "ids", "in_flight", "journal", "lease", "lineage",
        "questions", "signals", "tasks", "workdir",
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
        self.history: Replay = self.journal.history
        self.in_flight = InFlight(self.journal, immediate=agent.mode == "immediate")
        self.signals = Signals(self.journal, self.in_flight)
        self.gate = Gate(self.journal, self.signals, lease)
        self.questions = Questions(self.journal, self.signals, self.gate, self.in_flight)
        self.lineage = Lineage(self.journal)
        self.guards = Guards(self)
        self.function = AgentCall(self)
        self.attention = Attention(self)
        self._over = False

    @property
    def over(self) -> bool:
        """True if nothing is left to do here."""
        return self._over

    def be_over(self) -> None:
        """Nothing is left to do here."""
        self._over = True

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
        del self.function, self.guards, self.attention

    @property
    def wakes(self) -> bool:
        """It waits without its function and has something to do: an answer, a timer, its end."""
        state = self.journal.state
        if state.phase is not Phase.WAITING or self.function.running:
            return False
        due = any(self.journal.left_of_timer(timer) <= 0 for timer in state.timers)
        return due or state.stirred or self.function.ended is not None

    @property
    def rests(self) -> bool:
        """True if nothing happens until somebody outside does something."""
        at_rest = self.journal.state.phase in {Phase.PAUSED, Phase.WAITING}
        return at_rest and self.in_flight.quiet and not self.attention.busy
