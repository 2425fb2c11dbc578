"""The state that a journal adds up to, and how long its run was driven. ``fold`` builds it.

Everybody else only reads it. At the top are the names that a journal gives to steps, to the
questions about them, and to their timers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from midflight.journal.events import QuestionOpened
from midflight.journal.phases import ENDS, Cause, Effect, Mode, Outcome, Phase
from midflight.journal.record import Actor, Keys, Limits

APPROVE: Final = "approve:"  # before the step's identity, and after it what it would do
SETTLE: Final = "settle:"  # before the position of an attempt that is looked up again
REPEAT: Final = "repeat"  # kind of the question before an effect is done a second time
AGAIN: Final = "again"  # kind of the question before something like an earlier effect is done
KEYED: Final = "key="  # identities that a user chose; a snapshot does not forget them
RETRY: Final = "retry:"  # before it, in the timers of steps that wait before they try again


def about_step(asked: QuestionOpened) -> str:
    """Return the identity of the step that is to be approved; empty for any other question."""
    is_step = asked.kind == "approval" and asked.step.startswith(APPROVE)
    return asked.step.removeprefix(APPROVE).rpartition(":")[0] if is_step else ""


def asking_step(asked: QuestionOpened) -> str:
    """Return the identity of the step that asks before it begins; empty for any other question.

    A question of kind ``repeat`` or ``again`` is also ``about`` an earlier effect. That effect is
    done: the step that would do it once more is the one that waits for the answer.
    """
    if asked.kind in {REPEAT, AGAIN} and asked.step.startswith(f"{asked.kind}:"):
        return asked.step.removeprefix(f"{asked.kind}:")
    return about_step(asked)


def turn(step: str) -> tuple[str, int]:
    """Split an identity into a name and its turn: ``what#2`` is asked for the second time."""
    what, mark, number = step.rpartition("#")
    return (what, int(number)) if mark else (step, 1)


WORKER_LOST: Final = "worker lost"  # why nobody knows how something ended
CUT_OFF: Final = "cut off"  # the same, where its worker lives, and may still be at it
LOST: Final = frozenset({WORKER_LOST, CUT_OFF})
UNTRUSTED: Final = "untrusted"  # the kind of the notice that it has read words of strangers
NOT_SEEN: Final = "checked, not seen yet"  # what was sent may still arrive


@dataclass(slots=True)
class Attempt:
    """One try at a step that had to be recorded before it began, or a spawned child."""

    position: int
    step: str
    name: str
    noun: str
    label: str  # this one among all that the noun stands for
    effect: Effect
    key: str
    undoable: bool
    irreversible: bool
    release_always: bool
    in_thread: bool = False
    is_step: bool = True  # not the choice what becomes of a message
    counted: bool = False  # its step is: a worker that was lost has done it, too
    reserved_tokens: int = 0
    reserved_usd: float = 0.0
    child: str = ""
    outcome: Outcome | None = None
    why: str = ""
    looked_up: bool = False  # its outcome is what somebody else has found
    learned: int = 0  # where it became known that it had happened, after it had been in doubt
    at_work: bool = False  # it was left behind, and may still act
    undo_at_work: bool = False  # so was its undo
    unseen: bool = False  # its check has not seen it, when what was sent might still arrive
    undo: int = 0  # position of the undo under way
    undone: bool | None = None
    undo_why: str = ""  # why it is not undone, after all that was tried so far
    course: int = 0  # how many redirects had been delivered when it began
    reused: int = 0  # the course in which it was last asked for again

    @property
    def can_be_undone(self) -> bool:
        """True if it happened, or may have, and has an undo that has not worked yet."""
        happened = self.outcome in {Outcome.DONE, Outcome.UNKNOWN}
        return self.undoable and happened and not self.undone

    @property
    def can_be_stopped(self) -> bool:
        """True if *Stop it* is offered: a pause aborts reads and model calls without asking."""
        return self.effect.touches_world and not (self.irreversible or self.in_thread)


@dataclass(slots=True)
class Question:
    """Something the run asks; bound to one attempt if it is about one."""

    position: int
    kind: str
    message: str
    about: int
    expires_at: float | None
    answerers: tuple[str, ...]


@dataclass(slots=True)
class Delivery:
    """The fate of a request: accepted, then applied or superseded at a position."""

    verb: str
    status: str = "accepted"
    at: int = 0


@dataclass(slots=True)
class Spent:
    """Spending so far. ``unpriced`` counts tokens whose price is not known."""

    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class RunState:
    """A run, folded up to ``head``."""

    journal: str
    head: int = 0
    at: float = 0.0
    created_at: float = 0.0
    agent: str = ""
    thread: str = ""
    title: str = ""
    brief: str = ""
    profile: str = ""
    parent: str = ""
    fork_of: str = ""
    fork_at: int = 0
    inherited: tuple[str, ...] = ()
    code: str = ""
    converses: bool = False
    asides: bool = False  # its agent answers side questions itself
    aside_of: str = ""
    thread_at: int = 0
    has_read: bool = False  # its function has looked for messages
    parked_for: str = ""  # why it is parked, in words
    mode: Mode = Mode.IMMEDIATE
    limits: Limits = field(default_factory=Limits)
    phase: Phase = Phase.QUEUED
    holds: set[Cause] = field(default_factory=set)
    entered: bool = False
    waiting: bool = False
    stirred: bool = False  # an answer has come since the run began to wait
    opaque: bool = False  # holds an event that must be understood and is not
    epoch: int = 0
    driver: str = ""
    open: dict[int, Attempt] = field(default_factory=dict)
    effects: dict[int, Attempt] = field(default_factory=dict)
    undos: dict[int, int] = field(default_factory=dict)  # undo under way -> its effect
    undo_wanted: set[int] = field(default_factory=set)
    questions: dict[int, Question] = field(default_factory=dict)
    answered: dict[int, str] = field(default_factory=dict)
    pending: dict[int, str] = field(default_factory=dict)  # requests not yet applied -> verb
    redirect: tuple[str, str] | None = None  # (text, profile) of the last unapplied one
    deliveries: dict[int, Delivery] = field(default_factory=dict)
    keys: Keys = field(default_factory=dict)
    asked: int = 0  # bytes of what people have asked
    relevant: int = 0  # last position at which what a person decides on has changed
    plan: tuple[str, ...] = ()
    plan_from: int = 0  # steps done when it was made
    spent: Spent = field(default_factory=Spent)
    done: int = 0  # steps of its own that have a result; what counts towards a cap is in spent
    moving_since: float | None = None  # while it runs or pauses
    stretch: tuple[float, float] = (0.0, 0.0)  # when it last moved: both ends, as counted
    driven_at: float = 0.0  # when its driver last wrote something
    timers: dict[str, float] = field(default_factory=dict)
    windows: dict[str, tuple[str, float]] = field(default_factory=dict)  # step -> noun, until
    guards: dict[str, tuple[str, str]] = field(default_factory=dict)
    children: dict[str, str] = field(default_factory=dict)  # id -> outcome, "" while it lives
    allotments: dict[str, Limits] = field(default_factory=dict)  # of children that live
    course: int = 0  # redirects delivered
    entered_course: int = 0  # how many of them when the function last began from the top
    held_since: tuple[str, Limits] | None = None  # brief and caps when the person held it
    held_at: float = 0.0  # and when that was
    answers: list[str] = field(default_factory=list)  # given while the person held it
    human: str = ""  # the person who has taken it over
    notices: list[tuple[str, str]] = field(default_factory=list)  # (kind, text)
    cancel_at: int = 0
    cancel_now: bool = False
    cancel_tree: bool = True
    saved: list[str] = field(default_factory=list)
    finished: int = 0  # where its end is on record
    error: str = ""
    ended_by: Actor | None = None

    @property
    def alive(self) -> bool:
        """True while the run has not ended."""
        return self.phase not in ENDS

    @property
    def never_begun(self) -> bool:
        """True if nobody has begun it or is about to, so that nothing of it can be under way."""
        rests = self.phase in {Phase.QUEUED, Phase.PAUSED}
        return rests and not (self.entered or self.driver or self.effects or self.opaque)

    def repeated(self, effect: Attempt) -> bool:
        """Return whether another attempt under its key accounts for this one, too.

        A repeat accounts for an effect that is or was in doubt, also when that becomes known later:
        a provider that honours keys did it once for both.
        """
        in_doubt = effect.outcome is Outcome.UNKNOWN
        return (
            (in_doubt or effect.learned > 0)
            and effect.effect is Effect.WRITE
            and any(
                other.key == effect.key and self._tells_of(other, effect, in_doubt)
                for other in self.effects.values()
            )
        )

    def _tells_of(self, other: Attempt, effect: Attempt, in_doubt: bool) -> bool:
        """A repeat in doubt says nothing of what is known, unless it can have come since."""
        if other.position > effect.position:
            # layer repeat-in-doubt-does-not-hide
            vague = other.outcome is Outcome.UNKNOWN and (in_doubt or self._unsettled(other))
            return vague or other.outcome is Outcome.DONE
        known = other.position < effect.position and other.learned > 0
        tells = known and in_doubt and not self._unsettled(effect)
        # layer several-tries-under-key
        return tells and not self.repeated(other)  # or nobody would tell of any

    def _unsettled(self, effect: Attempt) -> bool:
        """Its worker may still be at it, or its undo was tried, or is wanted."""
        undo = effect.undo or effect.undone is not None or effect.undo_why
        return bool(undo) or effect.why in LOST or effect.position in self.undo_wanted

    @property
    def reads_messages(self) -> bool:
        """True if the run is known to read messages while it works; else that is not known."""
        return self.converses or self.has_read

    @property
    def untrusted(self) -> bool:
        """True if the run has read words of strangers; what it says afterwards is marked so."""
        return any(kind == UNTRUSTED for kind, _ in self.notices)

    @property
    def unseen(self) -> list[Attempt]:
        """Attempts whose check has not seen them, and that are looked up again after a while."""
        if not self.timers:
            return []
        return [x for x in self.effects.values() if f"{SETTLE}{x.position}" in self.timers]

    @property
    def can_undo(self) -> list[int]:
        """The positions of the effects that an undo can be asked for."""
        return [p for p, x in self.effects.items() if x.can_be_undone and not self.repeated(x)]

    @property
    def still_to_undo(self) -> set[int]:
        """The effects that a person wants undone and that are still there to be undone.

        A check may have shown since that one was never done. The wish stays on record: if that
        effect turns out to have been done after all, it is undone then.
        """
        effects = ((position, self.effects.get(position)) for position in self.undo_wanted)
        return {p for p, x in effects if x and x.can_be_undone and not self.repeated(x)}

    @property
    def wants_driver(self) -> bool:
        """True if somebody must drive the run for anything further to happen."""
        if self.phase in ENDS:
            return bool(self.undos or self.still_to_undo)  # layer never-done-not-waited
        if self.phase is Phase.PAUSED:
            asks = any(question.kind == "stale" for question in self.questions.values())
            answered = Cause.STALE in self.holds and not asks
            return answered or self.holds == {Cause.DRAIN}  # lifted by the next start
        return self.phase is not Phase.WAITING or self.stirred

    @property
    def due_at(self) -> float | None:
        """The next time at which time alone changes something: an expiry, a window, a back-off.

        A question of a paused run does not expire: nobody could see what its answer would do.
        """
        if self.phase in ENDS or not (self.questions or self.timers or self.windows):
            return None
        asked = () if self.phase is Phase.PAUSED else self.questions.values()
        times = [q.expires_at for q in asked if q.expires_at is not None]
        times += self.timers.values()
        times += (until for _, until in self.windows.values())
        return min(times, default=None)


CLAIM_S: Final = 5.0  # a run without a driver is claimed within a sweep, which is 2 s


def seconds_in_motion(state: RunState, now: float, *, alone: bool = False) -> float:
    """Return the seconds in motion up to ``now``; ``alone`` says that nobody drives the run."""
    counted, since = state.spent.seconds, state.moving_since
    if not alone:
        return counted + _between(since, now)
    until = state.driven_at
    return counted - overcounted(state, until) + _between(since, min(now, until))


def overcounted(state: RunState, driven_until: float) -> float:
    """Return how long the last stretch was counted after the driver's last sign of life."""
    began, ended = state.stretch
    return max(0.0, ended - max(began, driven_until))


def _between(since: float | None, until: float) -> float:
    return max(0.0, until - since) if since is not None else 0.0


def needs_driver(state: RunState) -> bool:
    """Return whether nothing happens unless somebody drives it; a queued run says so itself.

    A run that has ended needs a driver, too, if something of it is to be undone.
    """
    return state.wants_driver and state.phase is not Phase.QUEUED


def alone_from(state: RunState) -> float:
    """Return since when a run without a driver needs one; after its end, since the last wish."""
    return state.driven_at if state.alive else state.at


def undriven_since(state: RunState, *, gone: bool, now: float) -> float | None:
    """Return since when nobody drives a run that needs it, or None if that is not so.

    ``gone`` says that the lease of its driver is gone. A run whose driver has left in good order is
    given a moment to be claimed.
    """
    if not needs_driver(state):
        return None
    if state.driver:
        return alone_from(state) if gone else None
    return state.at if now - state.at >= CLAIM_S else None
