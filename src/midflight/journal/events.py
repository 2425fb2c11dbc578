"""Every event of a run's journal. Their stored names and fields are on people's disks for ever."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Raw

from midflight.journal.phases import Cause, Effect, Mode, Outcome
from midflight.journal.record import (
    NULL,
    Blob,
    Decision,
    Earlier,
    Event,
    Fact,
    Limits,
    Request,
    Usage,
)

# ── the life of a run ────────────────────────────────────────────────────────────────────────


class RunCreated(Request, frozen=True, kw_only=True, tag="run.created"):
    """Started from a brief, spawned by ``parent``, or forked from ``fork_of`` at a position.

    A fork takes over what was recorded before that position; ``inherited`` names the effects among
    it, which stay the other run's. ``thread_at`` is how far the thread had come: what was said
    there before is what the run has heard of. ``messages`` are those that it was begun for,
    ``aside_of`` the run that it answers a side question about.
    """

    agent: str
    thread: str
    brief: str
    title: str = ""
    input: Raw = NULL
    mode: Mode = Mode.IMMEDIATE
    limits: Limits = Limits()
    profile: str = ""
    parent: str = ""
    fork_of: str = ""
    fork_at: int = 0
    inherited: tuple[str, ...] = ()
    code: str = ""
    converses: bool = False
    asides: bool = False
    aside_of: str = ""
    thread_at: int = 0
    messages: tuple[int, ...] = ()


class DriverClaimed(Decision, frozen=True, kw_only=True, tag="driver.claimed"):
    """A driver takes the run. ``epoch`` is one higher than the last: older drivers decide nothing.

    ``driven_until`` is the last sign of life of the driver before: the run's clock counts up to
    then. It is absent where the same driver goes on, and in older journals: those count the time up
    to the claim.
    """

    driver: str
    driven_until: float | None = None


class DriverReleased(Decision, frozen=True, kw_only=True, tag="driver.released"):
    """The only way a living driver leaves."""

    why: str = ""


class DriverRevoked(Event, frozen=True, kw_only=True, tag="driver.revoked"):
    """The kill switch took the driver away; to move again the run must be claimed anew."""

    scope: str


class RunEntered(Decision, frozen=True, kw_only=True, tag="run.entered"):
    """The agent function is called (again).

    ``mode`` is named where the creator of the run did not know it. ``digest_bytes`` is the length
    of the digests in the identities of the run's steps; a run keeps the length that it began with.
    """

    why: str = "start"
    mode: Mode | None = None
    digest_bytes: int = 6  # as before releases wrote it down; stored journals rely on what this is


class RunFinished(Decision, frozen=True, kw_only=True, tag="run.finished"):
    """The end: ``done``, ``failed`` or, from cancelling only, ``cancelled``."""

    outcome: str
    result: Raw = NULL
    blob: Blob | None = None
    error: str = ""


class PlanSet(Decision, frozen=True, kw_only=True, tag="plan.set"):
    """The steps the run intends to take, in the words a person reads."""

    MUST_UNDERSTAND: ClassVar[bool] = False
    steps: tuple[str, ...]


# ── steps and attempts ───────────────────────────────────────────────────────────────────────


class StepSettled(Fact, frozen=True, kw_only=True, tag="step.settled"):
    """A plain read has its result; it is repeatable, so its start needs no record.

    An effect has one only if its step ended without an attempt of its own. ``earlier`` is the
    effect whose result it took over, instead of doing the same again. ``input`` is what ``tool``
    was called with, unless that is large: nothing but what people see depends on it.
    """

    step: str
    name: str
    result: Raw = NULL
    blob: Blob | None = None
    error: str = ""
    earlier: Earlier | None = None
    tool: str = ""
    input: Raw = NULL


class StepReused(Fact, frozen=True, kw_only=True, tag="step.reused"):
    """After a redirect the effect of an earlier brief was asked for again, and stands."""

    MUST_UNDERSTAND: ClassVar[bool] = False
    step: str


class StepLeft(Fact, frozen=True, kw_only=True, tag="step.left"):
    """The function has given up waiting for a step, by a timeout of its own.

    Whatever became of the step, the function has not learnt it: at replay it waits there again.
    """

    step: str
    name: str
    waited: float = 0.0


class RecordsDropped(Decision, frozen=True, kw_only=True, tag="records.dropped"):
    """The function as it is now does not ask for these; a person said to go on without them.

    Should it ask for one after all, it is still on record: nothing is done twice for it. With
    ``take_over`` an effect among them also counts for a step of another name that would do the
    same: the same tool with the same arguments.
    """

    steps: tuple[str, ...]
    take_over: bool = False


class AttemptStarted(Decision, frozen=True, kw_only=True, tag="attempt.started"):
    """Committed before the first line of the attempt runs: what is not recorded does not begin.

    ``noun`` is what a person calls such effects, ``label`` what they call this one.
    """

    step: str
    name: str
    effect: Effect
    idempotency_key: str
    tool: str = ""
    noun: str = ""
    input: Raw = NULL
    attempt: int = 1
    undoable: bool = False
    irreversible: bool = False
    release_always: bool = False
    in_thread: bool = False  # which nobody can stop
    timeout: float = 600.0  # it does not go on after; stored journals rely on what this is
    reserved: Usage = Usage()
    label: str = ""


class AttemptSettled(Fact, frozen=True, kw_only=True, tag="attempt.settled"):
    """The attempt that started at ``attempt`` has ended; ``left`` is how its object looked then.

    ``at_work``: it would not end, is not waited for any more, and may still act. ``said`` is what
    a model has streamed on the way, as people have seen it; its result may hold more, or less.
    ``told`` is the time at which the function learnt it, where that was before this record.
    """

    attempt: int
    outcome: Outcome
    result: Raw = NULL
    blob: Blob | None = None
    error: str = ""
    usage: Usage = Usage()
    left: str = ""
    at_work: bool = False
    said: str = ""
    told: float = 0.0


class LateOutcome(Fact, frozen=True, kw_only=True, tag="outcome.late"):
    """An outcome that became known after the fact: from an old driver, a check, or a person."""

    attempt: int
    outcome: Outcome
    result: Raw = NULL
    blob: Blob | None = None
    error: str = ""
    how: str = "late"
    usage: Usage = Usage()
    left: str = ""


class TextStreamed(Fact, frozen=True, kw_only=True, tag="text.streamed"):
    """Partial text of an attempt (or of a read, by step), so that a stop loses none of it."""

    MUST_UNDERSTAND: ClassVar[bool] = False
    step: str
    offset: int
    text: str
    attempt: int = 0


class UsageSpent(Fact, frozen=True, kw_only=True, tag="usage.spent"):
    """Spending that belongs to no attempt (triage, an aside, a child's allotment)."""

    usage: Usage


class WindowOpened(Decision, frozen=True, kw_only=True, tag="window.opened"):
    """An irreversible action waits until ``until``; a cancel before then still wins."""

    step: str
    noun: str
    until: float


class TimerSet(Decision, frozen=True, kw_only=True, tag="timer.set"):
    """Wake me at ``until``, evicted or not: back-off, snooze.

    ``tries`` is how often the step that backs off is tried in all; 0 where that is not known.
    """

    MUST_UNDERSTAND: ClassVar[bool] = False
    name: str
    until: float
    tries: int = 0


class TimerCleared(Decision, frozen=True, kw_only=True, tag="timer.cleared"):
    """The timer has fired or is not wanted any more."""

    MUST_UNDERSTAND: ClassVar[bool] = False
    name: str


class StateSaved(Decision, frozen=True, kw_only=True, tag="state.saved"):
    """``run.snapshot``: replay begins after the last of these."""

    state: Raw = NULL
    blob: Blob | None = None


class GuardSet(Decision, frozen=True, kw_only=True, tag="guard.set"):
    """Something outside that the run relies on, and how it looked.

    ``why`` is empty when the function asked for it. No fingerprint: it is not relied on any more.
    """

    name: str
    kind: str
    fingerprint: str
    why: str = ""


class NoticeGiven(Decision, frozen=True, kw_only=True, tag="notice.given"):
    """Person and function are told: a cap is near, the run goes in circles, a step stalls."""

    MUST_UNDERSTAND: ClassVar[bool] = False
    kind: str
    text: str


class Spoke(Decision, frozen=True, kw_only=True, tag="run.spoke"):
    """The function has said something in the thread; this is how it is not said twice."""

    step: str


# ── questions ────────────────────────────────────────────────────────────────────────────────


class QuestionOpened(Decision, frozen=True, kw_only=True, tag="question.opened"):
    """The run asks. Its position is its id; ``about`` binds it to one attempt for good."""

    kind: str
    message: str
    schema: Raw = NULL
    step: str = ""
    about: int = 0
    expires_at: float | None = None
    answerers: tuple[str, ...] = ()


class QuestionAnswered(Request, frozen=True, kw_only=True, tag="question.answered"):
    """The first answer wins. ``declined``: the person will not answer, and nobody need wait."""

    question: int
    payload: Raw = NULL
    declined: bool = False


class QuestionClosed(Event, frozen=True, kw_only=True, tag="question.closed"):
    """A question was withdrawn, has expired, or was replaced because its subject has changed."""

    question: int
    why: str


class WaitBegan(Decision, frozen=True, kw_only=True, tag="wait.began"):
    """Something asks and nothing is in flight."""


class WaitEnded(Decision, frozen=True, kw_only=True, tag="wait.ended"):
    """Work goes on although a question is still open."""


# ── control ──────────────────────────────────────────────────────────────────────────────────


class PauseRequested(Request, frozen=True, kw_only=True, tag="pause.requested"):
    """Hold it, and with ``scope="tree"`` its children."""

    scope: str = "tree"


class ResumeRequested(Request, frozen=True, kw_only=True, tag="resume.requested"):
    """Go on; ``diff`` is the one line that says what the person changed meanwhile."""

    diff: str = ""
    scope: str = "tree"


class RedirectRequested(Request, frozen=True, kw_only=True, tag="redirect.requested"):
    """Change course; with ``resume`` also let go of the person's hold."""

    text: str
    profile: str = ""
    resume: bool = False


class CancelRequested(Request, frozen=True, kw_only=True, tag="cancel.requested"):
    """Stop, undo, save. ``in_flight`` is the acknowledgement's list, fixed at this position."""

    now: bool = False
    scope: str = "tree"
    in_flight: tuple[int, ...] = ()
    why: str = ""


class EffectStopRequested(Request, frozen=True, kw_only=True, tag="effect.stop_requested"):
    """*Stop it*: abort the effect that a pause is waiting for; its outcome becomes unknown."""

    attempt: int


class UndoRequested(Request, frozen=True, kw_only=True, tag="undo.requested"):
    """Undo these effects of an ended run; naming none means all that can be."""

    effects: tuple[int, ...] = ()


class LimitsRaised(Request, frozen=True, kw_only=True, tag="limits.raised"):
    """New caps, over those ``kept`` from before; lifts the hold for the cap.

    ``no_caps`` takes all of them away. Where it is missing and no cap is named, that was meant too.
    """

    limits: Limits
    kept: Limits = Limits()
    no_caps: bool = False


class TakenOver(Request, frozen=True, kw_only=True, tag="run.taken_over"):
    """A person does this themselves now; the run holds until they hand it back."""


class HandedBack(Request, frozen=True, kw_only=True, tag="run.handed_back"):
    """The person is done with it; ``note`` is what the run is told."""

    note: str = ""


class HoldPlaced(Event, frozen=True, kw_only=True, tag="hold.placed"):
    """The run is held for a cause other than the person's own pause."""

    cause: Cause
    why: str = ""


class HoldLifted(Event, frozen=True, kw_only=True, tag="hold.lifted"):
    """The owner of ``cause`` lets go."""

    cause: Cause
    why: str = ""


class Paused(Decision, frozen=True, kw_only=True, tag="run.paused"):
    """Nothing is in flight any more; covers every request up to ``upto`` and none after it."""

    upto: int


class RedirectDelivered(Decision, frozen=True, kw_only=True, tag="redirect.delivered"):
    """The calls that waited are told; the brief changes there.

    If none did, the next one is: ``after`` says how many the function had made by then.
    """

    upto: int
    brief: str
    profile: str = ""
    diff: str = ""
    calls: tuple[str, ...] = ()
    after: int = 0


class Killed(Request, frozen=True, kw_only=True, tag="run.killed"):
    """The operator's switch: no code of this run runs again."""

    scope: str
    in_flight: tuple[int, ...] = ()


class Recovered(Request, frozen=True, kw_only=True, tag="run.recovered"):
    """The one edge out of an end: a killed run, held until someone resumes it."""


class MessagesTaken(Event, frozen=True, kw_only=True, tag="messages.taken"):
    """``run`` has read all unread messages up to ``upto``; stands in both journals at once."""

    run: str
    upto: int
    messages: tuple[int, ...] = ()
    step: str = ""


class InboxOpened(Decision, frozen=True, kw_only=True, tag="inbox.opened"):
    """The function has looked for messages and found none: it is known to read them.

    Once for a run, and only of an agent that does not converse.
    """

    MUST_UNDERSTAND: ClassVar[bool] = False


# ── undoing, saving, children ────────────────────────────────────────────────────────────────


class UndoStarted(Decision, frozen=True, kw_only=True, tag="undo.started"):
    """One effect is being undone, under its own key so that a repeat is harmless."""

    effect: int
    idempotency_key: str


class UndoSettled(Fact, frozen=True, kw_only=True, tag="undo.settled"):
    """The undo that started at ``undo`` has ended; ``undone`` says whether it worked.

    ``at_work``: it would not end, is not waited for any more, and may still act.
    """

    undo: int
    undone: bool
    why: str = ""
    final: bool = True
    at_work: bool = False


class WorkSaved(Decision, frozen=True, kw_only=True, tag="work.saved"):
    """Partial work has been put into the thread, in the words of the receipt."""

    what: tuple[str, ...]


class ChildSpawned(Decision, frozen=True, kw_only=True, tag="child.spawned"):
    """A background run; for a cancel it counts as one effect at this position."""

    child: str
    agent: str
    brief: str
    allotment: Limits = Limits()
    step: str = ""


class ChildSettled(Fact, frozen=True, kw_only=True, tag="child.settled"):
    """The child has ended, and spent this much of its allotment.

    What its own children that still work may spend counts as spent. ``unpriced`` are tokens of
    ``usage`` whose price is not known.
    """

    child: str
    outcome: str
    usage: Usage = Usage()
    steps: int = 0
    tool_calls: int = 0
    unpriced: int = 0
