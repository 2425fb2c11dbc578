"""Folds a journal into a state, one event at a time. ``transition_table`` has judged each.

``advance`` changes the state it is given. The same state and the same record give the same answer:
that is why a replay, a second process and a restart after a crash see one and the same run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from midflight.journal import events as e
from midflight.journal.effect_fold import EFFECTS, Apply
from midflight.journal.phases import ENDS, Cause, Phase
from midflight.journal.record import Event, Recorded, Request, Unknown, remember_key, size_of
from midflight.journal.state import Delivery, Question, RunState, overcounted
from midflight.journal.threads import thread_fold
from midflight.journal.threads.thread import ThreadState
from midflight.journal.transition_table import EPOCHAL, FACTS, State, next_phase


def fold(state: State, records: Iterable[Recorded]) -> State:
    """Advance the state over all of the records."""
    for record in records:
        advance(state, record)
    return state


def advance(state: State, record: Recorded) -> None:
    """Apply one event of the journal."""
    event = record.event
    state.head = record.position
    state.at = record.at
    if type(event) is Unknown:
        state.opaque |= event.must_understand
        return
    if type(state) is ThreadState:
        thread_fold.advance(state, event, record)
        return
    assert type(state) is RunState
    kind = type(event)
    apply = _APPLY.get(kind)
    if apply is not None:
        apply(state, event, record.position)
    if kind not in BULK:
        remember_key(state.keys, event, record.position)
        if isinstance(event, Request):
            state.asked += size_of(event)
        _move(state, event, record)
    if kind in SIGNS_OF_LIFE:
        state.driven_at = record.at


def _move(state: RunState, event: Event, record: Recorded) -> None:
    """Change the phase, and count the time in motion up to here."""
    if isinstance(event, e.RunCreated):
        state.created_at = record.at
        state.relevant = record.position
        return
    phase = next_phase(state, event)
    if phase is state.phase:
        return
    moves = phase in {Phase.RUNNING, Phase.PAUSING}  # the time of undoing is not counted
    if moves and state.moving_since is None:
        state.moving_since = record.at
    elif not moves:
        _count_until(state, record.at)
    came_to_rest = (state.phase, phase) == (Phase.PAUSING, Phase.PAUSED)
    state.phase = phase
    if not came_to_rest:  # a person who has seen it pause expects that
        state.relevant = record.position
    # Or a question that opens later, while work goes on, would look like one that is waited for.
    state.waiting &= phase in {Phase.WAITING, Phase.PAUSED}
    if phase in ENDS:
        _end(state, record.position)


def _count_until(state: RunState, at: float) -> None:
    """End the stretch in which the run moves, and count its seconds."""
    began = state.moving_since
    if began is not None:
        state.stretch = (began, max(began, at))
        state.spent.seconds += state.stretch[1] - began
        state.moving_since = None


def _end(state: RunState, position: int) -> None:
    for asked in state.pending:
        state.deliveries[asked] = Delivery(state.deliveries[asked].verb, "superseded", position)
    state.pending.clear()
    state.redirect = None
    state.questions.clear()
    state.windows.clear()
    state.timers.clear()


# ── the life of a run ────────────────────────────────────────────────────────────────────────


def _run_created(s: RunState, event: e.RunCreated, _at: int) -> None:
    s.agent, s.thread, s.brief, s.title = event.agent, event.thread, event.brief, event.title
    s.mode, s.limits, s.profile, s.code = event.mode, event.limits, event.profile, event.code
    s.parent, s.fork_of, s.fork_at = event.parent, event.fork_of, event.fork_at
    s.inherited = event.inherited
    s.converses, s.asides, s.aside_of = event.converses, event.asides, event.aside_of
    s.thread_at = event.thread_at


def _driver_claimed(s: RunState, event: e.DriverClaimed, _at: int) -> None:
    if event.driven_until is not None:
        moved = s.moving_since is not None
        _count_until(s, event.driven_until)
        s.spent.seconds -= overcounted(s, event.driven_until)
        s.stretch = (0.0, 0.0)
        s.moving_since = s.at if moved else None
    s.epoch, s.driver = event.epoch, event.driver


def _driver_released(s: RunState, _event: e.DriverReleased, _at: int) -> None:
    s.driver = ""


def _driver_revoked(s: RunState, _event: e.DriverRevoked, _at: int) -> None:
    s.driver = ""
    s.epoch += 1  # anything that the old driver still sends is late from here on


def _run_entered(s: RunState, event: e.RunEntered, _at: int) -> None:
    s.entered = True
    s.mode = event.mode or s.mode
    s.entered_course = s.course
    s.windows.clear()  # a hold window starts again in full


def _run_finished(s: RunState, event: e.RunFinished, at: int) -> None:
    s.error, s.finished = event.error, at
    if s.cancel_at:
        _apply_pending(s, at, at, "cancel")


def _killed(s: RunState, event: e.Killed, _at: int) -> None:
    s.ended_by = event.who
    s.driver = ""
    s.epoch += 1


def _recovered(s: RunState, event: e.Recovered, at: int) -> None:
    s.holds.add(Cause.USER)
    s.ended_by = None
    s.cancel_at, s.cancel_now, s.cancel_tree = 0, False, True
    s.held_since, s.held_at, s.answers = (s.brief, s.limits), s.at, []
    s.deliveries[at] = Delivery("recover", "applied", at)


def _looked_for_messages(s: RunState, _event: e.MessagesTaken | e.InboxOpened, _at: int) -> None:
    s.has_read = True


# ── questions ────────────────────────────────────────────────────────────────────────────────


def _question_opened(s: RunState, event: e.QuestionOpened, at: int) -> None:
    s.questions[at] = Question(
        at, event.kind, event.message, event.about, event.expires_at, event.answerers
    )
    s.relevant = at


def _question_answered(s: RunState, event: e.QuestionAnswered, at: int) -> None:
    s.questions.pop(event.question, None)
    s.answered[event.question] = event.who.by
    if Cause.USER in s.holds:
        words = bytes(event.payload)[:80].decode(errors="replace")
        s.answers.append("declined" if event.declined else words)
    s.deliveries[at] = Delivery("answer", "applied", at)
    s.relevant = at
    s.stirred = True


def _question_closed(s: RunState, event: e.QuestionClosed, at: int) -> None:
    s.questions.pop(event.question, None)
    s.relevant = at
    s.stirred = True


def _wait_began(s: RunState, _event: e.WaitBegan, _at: int) -> None:
    s.waiting, s.stirred = True, False


# ── control ──────────────────────────────────────────────────────────────────────────────────


def _pause_requested(s: RunState, _event: e.PauseRequested, at: int) -> None:
    if Cause.USER not in s.holds:
        s.held_since, s.held_at, s.answers = (s.brief, s.limits), s.at, []
    s.holds.add(Cause.USER)
    at_once = s.phase in {Phase.QUEUED, Phase.WAITING, Phase.PAUSED}
    s.deliveries[at] = Delivery("pause", "applied", at) if at_once else Delivery("pause")
    if not at_once:
        s.pending[at] = "pause"


def _resume_requested(s: RunState, _event: e.ResumeRequested, at: int) -> None:
    _let_go(s, Cause.USER, at)
    s.stirred = True  # what it waits for may not be what it would ask now: it looks again
    s.deliveries[at] = Delivery("resume", "applied", at)


def _let_go(s: RunState, cause: Cause, at: int) -> None:
    s.holds.discard(cause)
    if cause is Cause.USER:
        s.held_since, s.answers = None, []
        _supersede(s, at, "pause")
    if cause is Cause.HUMAN:
        s.human = ""
        _supersede(s, at, "take over")


def _redirect_requested(s: RunState, event: e.RedirectRequested, at: int) -> None:
    _supersede(s, at, "redirect")
    s.redirect = (event.text, event.profile)
    s.pending[at] = "redirect"
    s.deliveries[at] = Delivery("redirect")
    if event.resume:
        _let_go(s, Cause.USER, at)


def _redirect_delivered(s: RunState, event: e.RedirectDelivered, at: int) -> None:
    _apply_pending(s, event.upto, at, "redirect")
    s.brief = event.brief
    s.course += 1
    s.profile = event.profile or s.profile
    s.windows.clear()
    s.relevant = at
    if "redirect" not in s.pending.values():  # one that came after `upto` is still to be told
        s.redirect = None


def _paused(s: RunState, event: e.Paused, at: int) -> None:
    _apply_pending(s, event.upto, at, "pause", "take over")
    s.windows.clear()


def _cancel_requested(s: RunState, event: e.CancelRequested, at: int) -> None:
    _supersede(s, at, "pause", "take over", "redirect", "cancel")
    s.redirect = None
    s.holds.clear()
    s.questions.clear()
    s.windows.clear()
    again = bool(s.cancel_at)
    s.cancel_tree = event.scope == "tree" or (again and s.cancel_tree)
    s.cancel_at = at
    s.cancel_now |= event.now
    s.ended_by = event.who
    s.pending[at] = "cancel"
    s.deliveries[at] = Delivery("cancel")


def _apply_pending(s: RunState, upto: int, at: int, *verbs: str) -> None:
    for asked in [p for p, v in s.pending.items() if v in verbs and p <= upto]:
        s.deliveries[asked] = Delivery(s.pending.pop(asked), "applied", at)


def _supersede(s: RunState, at: int, *verbs: str) -> None:
    for asked in [p for p, verb in s.pending.items() if verb in verbs]:
        s.deliveries[asked] = Delivery(s.pending.pop(asked), "superseded", at)


def _effect_stop_requested(s: RunState, event: e.EffectStopRequested, at: int) -> None:
    s.deliveries[at] = Delivery("stop effect", "applied", at)


def _undo_requested(s: RunState, event: e.UndoRequested, at: int) -> None:
    able = (p for p, a in s.effects.items() if a.can_be_undone and not s.repeated(a))
    s.undo_wanted.update(event.effects or able)
    s.deliveries[at] = Delivery("undo", "applied", at)


def _limits_raised(s: RunState, event: e.LimitsRaised, at: int) -> None:
    s.limits = event.limits.over(event.kept)
    _let_go(s, Cause.CAP, at)
    s.deliveries[at] = Delivery("raise limits", "applied", at)


def _hold_placed(s: RunState, event: e.HoldPlaced, at: int) -> None:
    s.holds.add(event.cause)
    if event.cause is Cause.PARKED:
        s.parked_for = event.why


def _taken_over(s: RunState, event: e.TakenOver, at: int) -> None:
    at_once = s.phase in {Phase.QUEUED, Phase.WAITING, Phase.PAUSED}
    s.holds.add(Cause.HUMAN)
    s.human = event.who.by
    s.deliveries[at] = Delivery("take over", "applied", at) if at_once else Delivery("take over")
    if not at_once:
        s.pending[at] = "take over"
    s.relevant = at


def _handed_back(s: RunState, event: e.HandedBack, at: int) -> None:
    _let_go(s, Cause.HUMAN, at)
    s.stirred = True
    s.deliveries[at] = Delivery("hand back", "applied", at)
    s.relevant = at


def _hold_lifted(s: RunState, event: e.HoldLifted, at: int) -> None:
    _let_go(s, event.cause, at)


_APPLY: Final[dict[type[Event], Apply]] = {
    e.RunCreated: _run_created,
    e.DriverClaimed: _driver_claimed,
    e.DriverReleased: _driver_released,
    e.DriverRevoked: _driver_revoked,
    e.RunEntered: _run_entered,
    e.RunFinished: _run_finished,
    e.Killed: _killed,
    e.Recovered: _recovered,
    e.MessagesTaken: _looked_for_messages,
    e.InboxOpened: _looked_for_messages,
    e.QuestionOpened: _question_opened,
    e.QuestionAnswered: _question_answered,
    e.QuestionClosed: _question_closed,
    e.WaitBegan: _wait_began,
    e.PauseRequested: _pause_requested,
    e.ResumeRequested: _resume_requested,
    e.RedirectRequested: _redirect_requested,
    e.RedirectDelivered: _redirect_delivered,
    e.Paused: _paused,
    e.CancelRequested: _cancel_requested,
    e.EffectStopRequested: _effect_stop_requested,
    e.UndoRequested: _undo_requested,
    e.LimitsRaised: _limits_raised,
    e.HoldPlaced: _hold_placed,
    e.HoldLifted: _hold_lifted,
    e.TakenOver: _taken_over,
    e.HandedBack: _handed_back,
    **EFFECTS,
}

BULK: Final = {e.StepSettled, e.AttemptStarted, e.AttemptSettled, e.TextStreamed}
"""Most of a journal: no key and never a change of phase, so neither need be looked for.

Of a run's row in a read model they change the counters and, at most, when it is due.
"""

SIGNS_OF_LIFE: Final = EPOCHAL - set(FACTS)
"""Only the driver of a run writes these; how something ended may be told by others, too."""
