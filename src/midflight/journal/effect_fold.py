"""Folds the events about effects and their undoing, with one small function per event.

The other events are in ``fold``, which knows when each is applied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from midflight.journal import events as e
from midflight.journal.phases import Effect, Outcome
from midflight.journal.record import Earlier, Event, Usage
from midflight.journal.state import SETTLE, WORKER_LOST, Attempt, RunState
from midflight.journal.transition_table import TRIAGE

AFTER_ALL: Final = "It was done after all, by a worker that was lost"
AT_IT: Final = frozenset({None, Outcome.DONE, Outcome.UNKNOWN})
Apply = Callable[[RunState, Any, int], None]
"""Changes the state by an event at a position."""


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
        effect.undone, effect.undo_why = None, WORKER_LOST


def _done_late(s: RunState, effect: Attempt) -> None:
    """Count the step once, although others may be at it now or may have been at it before."""
    others = [o for o in s.effects.values() if o.step == effect.step and o is not effect]
    if effect.outcome is Outcome.NOT_DONE:
        at_it = any(other.outcome in AT_IT for other in others)
        twice = ", and may have been done twice" if at_it else ""
        s.notices.append(("after all", f"{effect.label}: {AFTER_ALL}{twice}."))
    effect.counted = any(other.outcome is Outcome.DONE for other in others)
    for other in others:
        other.counted |= other.outcome is None
    s.windows.pop(effect.step, None)  # nobody begins it any more
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


EFFECTS: Final[dict[type[Event], Apply]] = {
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
}
