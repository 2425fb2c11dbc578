"""The signals to a run's function, and the gate that decides whether anything may begin.

A redirect is delivered once and at one place: to the calls that waited when it was recorded, or
else to the next call. A signal that ends the function is delivered to every call, whatever the
function catches.

Every step and every other call of the function passes the gate: nothing begins while the run is
held, belongs to another driver, or is not yet where it was before a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from midflight.journal.limits import is_metered
from midflight.journal.phases import Phase
from midflight.journal.state import RunState
from midflight.run import Redirected, Signal, Stopped
from midflight.runtime.in_flight import InFlight, OpenStep, Waiting
from midflight.runtime.run_journal import RunJournal
from midflight.stores.protocol import Lease


class Signals:
    """One run's signals. ``number`` counts the redirects that were told; a call notes its own."""

    __slots__ = (
        "_in_flight", "_journal", "_on_redirect", "brief", "delivering", "heard", "number",
        "profile", "signalled", "told",
    )  # fmt: skip

    def __init__(self, journal: RunJournal, in_flight: InFlight) -> None:
        self._journal = journal
        self._in_flight = in_flight
        self._on_redirect: Callable[[str], None] | None = None
        self.delivering = False  # a redirect is being written down
        self.number = 0
        self.heard = 0  # the newest that the function knows of
        self.brief = ""  # as the function sees it
        self.profile = ""
        self.told: Signal | None = None
        self.signalled = False  # the function was given a signal since it was last entered

    @contextmanager
    def delivery(self) -> Iterator[Callable[[], None]]:
        """Give a function that says: a redirect is being written down, until the end of this."""

        def begin() -> None:
            self.delivering = True

        try:
            yield begin
        finally:
            self.delivering = False
            self._journal.stir()

    def on_redirect(self, tell: Callable[[str], None] | None) -> None:
        """Have somebody told of each redirect as it is told to the function."""
        self._on_redirect = tell

    def enter(self) -> None:
        """The function is called (again), and knows everything that was told."""
        self.signalled = False
        self._take()

    def is_stopped(self) -> bool:
        """Return whether the function was told to end, or must be: its calls are not waited for."""
        return self._journal.lost or self.told is not None

    def is_told(self, number: int) -> bool:
        """Return whether a call made on this course has something to hear."""
        return self.told is not None or number != self.number

    def raise_if_told(self, number: int) -> None:
        """Raise what the function has to know."""
        if self.told is not None:
            self.signalled = True
            raise self.told
        if number != self.number:
            self._take()
            self.signalled = True
            raise Redirected(self.brief)

    def _take(self) -> None:
        history = self._journal.history
        self.heard, self.brief, self.profile = self.number, history.brief, history.profile

    def tell(self, signal: Signal) -> None:
        """From here on every call of the function raises this, whatever it catches."""
        if not isinstance(self.told, Stopped):
            self.told = signal
        self._journal.stir()

    def forget(self) -> None:
        """Take the signal back: the function is called anew, or will never be again.

        An exception that was raised knows every frame that it has passed, so it must not be kept.
        """
        self.told = None

    def redirect(self) -> None:
        """The calls that waited raise it, or else the next one; the others are not disturbed."""
        history = self._journal.history
        told = history.redirect()
        if self._on_redirect is not None:
            self._on_redirect(told.brief)  # layer redirect-reaches-function-has-just
        self.number += 1
        if told.calls:
            self.heard = self.number
        in_flight = self._in_flight
        waiting: list[OpenStep | Waiting] = [*in_flight.steps, *in_flight.waiting.values()]
        for call in waiting:
            waited = not history.is_done(call.identity)
            if not (call.identity in told.calls if told.calls else waited):
                call.follow(self.number)
        self._journal.stir()

    async def note_call(self) -> None:
        """The function makes a call. At replay it hears of a redirect at the same one.

        So none is made while it is being written down which calls wait, and how many there were.
        """
        history = self._journal.history
        if self.delivering:
            await self._journal.until(lambda: not self.delivering or self.told is not None)
        moves = self._journal.state.phase is Phase.RUNNING
        if moves and history.tells and history.redirect_due(self._in_flight.calls):
            self.redirect()
        history.count_call()


class Gate:
    """One run's gate. ``waiting`` counts the calls that want to begin something and may not yet."""

    __slots__ = ("_fresh", "_journal", "_lease", "_signals", "draining", "returns", "waiting")

    def __init__(self, journal: RunJournal, signals: Signals, lease: Lease) -> None:
        self._journal = journal
        self._signals = signals
        self._lease = lease
        self._fresh = False
        self.returns = 0  # how often the run has come back
        self.waiting = 0
        self.draining = False  # the process is about to end

    def drain(self) -> None:
        """Let the run come to rest: the process is about to end."""
        self.draining = True

    # ── the world ────────────────────────────────────────────────────────────────────────────

    @property
    def fresh(self) -> bool:
        """True if everything that the run relies on was looked at since it has come back."""
        return self._fresh or not self._journal.state.guards

    def look_again(self) -> None:
        """The run comes back: nothing is known of the world outside."""
        self._fresh = False
        self.returns += 1

    def be_fresh(self) -> None:
        """Everything that the run relies on is as it was."""
        self._fresh = True

    # ── starting ─────────────────────────────────────────────────────────────────────────────

    @property
    def undisturbed(self) -> bool:
        """True if the run works and nothing is wanted, asked or waited for: no move is due."""
        journal, state, entry = self._journal, self._journal.state, self._journal.history.entry
        wanted = state.pending or state.holds or state.questions or state.timers or self.draining
        replays = journal.history.unclaimed or entry.left or entry.told < len(entry.redirects)
        ours = state.phase is Phase.RUNNING and not journal.lost
        return ours and not (wanted or replays) and (self._fresh or not state.guards)

    @property
    def opens_to_all(self) -> bool:
        """True if an undisturbed run has nothing that may be in the way of a plain step.

        Nothing is to be told, counted, guarded, or done instead of the step.
        """
        signals, state, history = self._signals, self._journal.state, self._journal.history
        silent = signals.told is None and signals.heard == signals.number
        watched = state.guards or is_metered(state.limits)  # layer where-cap-counts-record-first
        before = state.fork_of or state.entered_course or history.left_over
        return silent and not (signals.delivering or watched or before)

    @property
    def moves(self) -> bool:
        """True while the run is driven here, and nothing holds it."""
        state = self._journal.state
        return (  # layer not-sure-of-lease-starts-nothing
            not self._journal.lost
            and self._lease.held
            and (state.phase is Phase.RUNNING or state.phase is Phase.WAITING)
            and not state.pending
        )

    def _moves(self, course: int) -> bool:
        """Return whether the run moves, and a call on this course has nothing to be told."""
        signals = self._signals
        return signals.told is None and course == signals.number and self.moves

    def may_start(self, course: int, *, replaying: bool = False) -> bool:
        """Return whether something may begin now; a repeated read waits for no other record.

        Every step asks this several times, so it is written out in one piece.
        """
        journal, signals = self._journal, self._signals
        state, history = journal.state, journal.history
        if signals.told is not None or course != signals.number or state.pending:
            return False
        if journal.lost or not (state.phase is Phase.RUNNING or state.phase is Phase.WAITING):
            return False
        if not replaying:
            entry = history.entry
            if history.unclaimed or entry.told < len(entry.redirects):
                return False
            if state.guards and not self._fresh:
                return False
        return self._lease.held

    def may_ask(self, course: int) -> bool:
        """Return whether a new question may be asked: the function is where it was, and moves."""
        return self._moves(course) and not self._journal.history.unfinished

    def movable(self, course: int, *, replaying: bool = False) -> bool:
        """Return whether a call at the gate has something to do: start, or be told."""
        return self._signals.is_told(course) or self.may_start(course, replaying=replaying)

    async def wait(self, course: int) -> None:
        """Wait until something may begin. Raises what the function has to be told."""
        await self.wait_until(lambda: self.movable(course))
        self._signals.raise_if_told(course)

    async def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait here, where the pilot sees that somebody wants to go on."""
        if ready():
            return
        self.waiting += 1
        self._journal.stir()
        try:
            await self._journal.until(ready)
        finally:
            self.waiting -= 1


def still_moves(state: RunState, epoch: int) -> bool:
    """For a decision inside the store: whether the run, as it is there, is ours and moves.

    It needs no gate: a store that has taken a decision makes it, also when its driver has left.
    """
    moving = state.phase in {Phase.RUNNING, Phase.WAITING} and not state.pending
    return moving and state.epoch == epoch
