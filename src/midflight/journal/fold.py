"""Folds a journal into a state, one event at a time. ``transition_table`` has judged each.

``advance`` changes the state it is given. The same state and the same record give the same answer:
that is why a replay, a second process and a restart after a crash see one and the same run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from midflight.journal import control_fold
from midflight.journal import events as e
from midflight.journal.control_fold import CONTROLS, Apply, apply_pending
from midflight.journal.phases import ENDS, Effect, Outcome, Phase
from midflight.journal.record import (
    Earlier,
    Event,
    Recorded,
    Request,
    Unknown,
    Usage,
    remember_key,
    size_of,
)
from midflight.journal.state import SETTLE, WORKER_LOST, Attempt, Delivery, RunState, overcounted
from midflight.journal.threads.thread import ThreadState
from midflight.journal.transition_table import EPOCHAL, FACTS, TRANSITIONS, TRIAGE, State, rest

AFTER_ALL: Final = "It was done after all, by a worker that was lost"
AT_IT: Final = frozenset({None, Outcome.DONE, Outcome.UNKNOWN})


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
        control_fold.advance(state, event, record)
        return
    assert type(state) is RunState
    kind = type(event)
    apply = _APPLY.get(kind)
    if apply is not None:
        apply(state, event, record.position)
    if kind not in BULK:
        if isinstance(event, Request):
            if event.key:
                remember_key(state.keys, event, record.position)
            state.asked += size_of(event)
        if kind is e.RunCreated:
            state.created_at = record.at
            state.relevant = record.position
        else:
            cell = TRANSITIONS[state.phase].get(kind, state.phase)
            phase = cell if isinstance(cell, Phase) else rest(state, event)
            if phase is not state.phase:
                _move(state, phase, record)
    if kind in SIGNS_OF_LIFE:
        state.driven_at = record.at


def _move(state: RunState, phase: Phase, record: Recorded) -> None:
    """Change the phase, and count the time in motion up to here."""
    moves = phase in {Phase.RUNNING, Phase.PAUSING}  # the time of undoing is not counted
    if moves and state.moving_since is None:
        state.moving_since = record.at
    elif not moves:
        _count_until(state, record.at)
    came_to_rest = (state.phase, phase) == (Phase.PAUSING, Phase.PAUSED)
    state.phase = phase
    # layer redirect
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
        apply_pending(s, at, at, "cancel")


def _looked_for_messages(s: RunState, _event: e.MessagesTaken | e.InboxOpened, _at: int) -> None:
    s.has_read = True


# ── steps and attempts ───────────────────────────────────────────────────────────────────────


def _step_settled(s: RunState, event: e.StepSettled, _at: int) -> None:
    if event.earlier is not None:
        _taken_over(s, event.earlier)
        return
    s.done += not event.error
    s.spent.steps += 1
    s.spent.tool_calls += 1


def _taken_over(s: RunState, earlier: Earlier) -> None:
    """Note that a step took over an earlier effect, of this run or of another, and did nothing."""
    if earlier.run:
        s.inherited = (*s.inherited, earlier.label)
    elif earlier.position in s.effects:
        s.effects[earlier.position].reused = s.course


def _attempt_started(s: RunState, event: e.AttemptStarted, at: int) -> None:
    attempt = Attempt(
        position=at,
        step=event.step,
        name=event.name,
        noun=event.noun or event.name,
        label=event.label or event.noun or event.name,
        effect=event.effect,
        key=event.idempotency_key,
        undoable=event.undoable,
        irreversible=event.irreversible,
        release_always=event.release_always,
        in_thread=event.in_thread,
        is_step=event.tool != TRIAGE,
        reserved_tokens=event.reserved.tokens,
        reserved_usd=event.reserved.usd or 0.0,
        course=s.course,
    )
    s.open[at] = attempt
    if event.effect is not Effect.MODEL:
        s.effects[at] = attempt
        s.spent.tool_calls += 1
    s.windows.pop(event.step, None)
    if event.irreversible:
        s.relevant = at


def _attempt_settled(s: RunState, event: e.AttemptSettled | e.LateOutcome, at: int) -> None:
    attempt = s.open.pop(event.attempt, None) or s.effects.get(event.attempt)
    if attempt is None:
        return
    attempt.outcome, attempt.why = event.outcome, event.error
    attempt.at_work = isinstance(event, e.AttemptSettled) and event.at_work
    if event.outcome is Outcome.DONE and not attempt.counted:
        s.done += attempt.is_step
        s.spent.steps += attempt.effect is not Effect.MODEL
    _spend(s, event.usage)
    if attempt.irreversible:
        s.relevant = at


def _late_outcome(s: RunState, event: e.LateOutcome, at: int) -> None:
    effect = s.effects.get(event.attempt)
    if effect is not None and event.outcome is Outcome.DONE:
        _done_late(s, effect)
    _attempt_settled(s, event, at)
    if effect is None:
        return
    effect.looked_up = True
    s.timers.pop(f"{SETTLE}{event.attempt}", None)  # it need not be looked up again
    if event.outcome is not Outcome.DONE:
        return
    effect.learned = at
    if effect.undone:  # while it was in doubt: nobody knows which of the two came first
        effect.undone, effect.undo_why = None, WORKER_LOST  # layer undo-in-dark-proves-nothing


def _done_late(s: RunState, effect: Attempt) -> None:
    """Count the step once, although others may be at it now or may have been at it before."""
    others = [o for o in s.effects.values() if o.step == effect.step and o is not effect]
    if effect.outcome is Outcome.NOT_DONE:
        at_it = any(other.outcome in AT_IT for other in others)  # layer done-once-not-said
        twice = ", and may have been done twice" if at_it else ""
        s.notices.append(("after all", f"{effect.label}: {AFTER_ALL}{twice}."))
    effect.counted = any(other.outcome is Outcome.DONE for other in others)
    for other in others:
        other.counted |= other.outcome is None  # layer lost-worker-and-successor
    s.windows.pop(effect.step, None)  # nobody begins it any more
    # layer run-waits-for-approval-of-driven
    s.stirred = True  # nor need anybody agree to it


def _step_reused(s: RunState, event: e.StepReused, _at: int) -> None:
    for effect in s.effects.values():
        if effect.step == event.step:
            effect.reused = s.course


def _notice_given(s: RunState, event: e.NoticeGiven, _at: int) -> None:
    s.notices.append((event.kind, event.text))


def _spend(s: RunState, usage: Usage) -> None:
    s.spent.tokens += usage.tokens
    if usage.usd is None:
        s.spent.unpriced += usage.tokens
    else:
        s.spent.usd += usage.usd


def _usage_spent(s: RunState, event: e.UsageSpent, _at: int) -> None:
    _spend(s, event.usage)


def _window_opened(s: RunState, event: e.WindowOpened, _at: int) -> None:
    s.windows[event.step] = (event.noun, event.until)


def _timer_set(s: RunState, event: e.TimerSet, _at: int) -> None:
    s.timers[event.name] = event.until
    kind, _, attempt = event.name.rpartition(SETTLE)
    if not kind and attempt.isdecimal() and (effect := s.effects.get(int(attempt))) is not None:
        effect.unseen = True


def _timer_cleared(s: RunState, event: e.TimerCleared, _at: int) -> None:
    s.timers.pop(event.name, None)


def _guard_set(s: RunState, event: e.GuardSet, _at: int) -> None:
    s.guards[event.name] = (event.kind, event.fingerprint)
    if not event.fingerprint:
        del s.guards[event.name]


def _plan_set(s: RunState, event: e.PlanSet, at: int) -> None:
    s.plan, s.plan_from = event.steps, s.spent.steps
    s.relevant = at


# ── undoing, saving, children ────────────────────────────────────────────────────────────────


def _undo_started(s: RunState, event: e.UndoStarted, at: int) -> None:
    s.undos[at] = event.effect
    s.effects[event.effect].undo = at


def _undo_settled(s: RunState, event: e.UndoSettled, _at: int) -> None:
    effect = s.effects[s.undos.pop(event.undo)]
    blindly = event.undone and event.undo < effect.learned  # see _late_outcome
    effect.undo, effect.undo_why = 0, WORKER_LOST if blindly else event.why
    effect.undo_at_work = event.at_work
    if (event.undone or event.final) and not blindly:
        effect.undone = event.undone
        s.undo_wanted.discard(effect.position)


def _work_saved(s: RunState, event: e.WorkSaved, _at: int) -> None:
    s.saved.extend(event.what)


def _child_spawned(s: RunState, event: e.ChildSpawned, at: int) -> None:
    s.children[event.child] = ""
    s.allotments[event.child] = event.allotment
    s.effects[at] = Attempt(
        position=at,
        step=event.step,
        name=event.agent,
        noun=f"background run: {event.brief}",
        label=f"background run: {event.brief}",
        effect=Effect.ONCE,
        key="",
        undoable=True,
        irreversible=False,
        release_always=False,
        child=event.child,
        outcome=Outcome.DONE,
        course=s.course,
    )


def _child_settled(s: RunState, event: e.ChildSettled, _at: int) -> None:
    s.children[event.child] = event.outcome
    s.allotments.pop(event.child, None)
    s.spent.steps += event.steps
    s.plan_from += event.steps  # these steps are not in this run's plan
    s.spent.tool_calls += event.tool_calls
    _spend(s, event.usage)
    s.spent.unpriced += event.unpriced


_APPLY: Final[dict[type[Event], Apply]] = {
    e.RunCreated: _run_created,
    e.DriverClaimed: _driver_claimed,
    e.DriverReleased: _driver_released,
    e.DriverRevoked: _driver_revoked,
    e.RunEntered: _run_entered,
    e.RunFinished: _run_finished,
    e.MessagesTaken: _looked_for_messages,
    e.InboxOpened: _looked_for_messages,
    e.StepSettled: _step_settled,
    e.StepReused: _step_reused,
    e.NoticeGiven: _notice_given,
    e.AttemptStarted: _attempt_started,
    e.AttemptSettled: _attempt_settled,
    e.LateOutcome: _late_outcome,
    e.UsageSpent: _usage_spent,
    e.WindowOpened: _window_opened,
    e.TimerSet: _timer_set,
    e.TimerCleared: _timer_cleared,
    e.GuardSet: _guard_set,
    e.PlanSet: _plan_set,
    e.UndoStarted: _undo_started,
    e.UndoSettled: _undo_settled,
    e.WorkSaved: _work_saved,
    e.ChildSpawned: _child_spawned,
    e.ChildSettled: _child_settled,
    **CONTROLS,
}

BULK: Final = {e.StepSettled, e.AttemptStarted, e.AttemptSettled, e.TextStreamed}
"""Most of a journal: no key and never a change of phase, so neither need be looked for.

Of a run's row in a read model they change the counters and, at most, when it is due.
"""

SIGNS_OF_LIFE: Final = EPOCHAL - set(FACTS)
"""Only the driver of a run writes these; how something ended may be told by others, too."""
