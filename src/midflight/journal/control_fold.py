"""Folds what people do: the events that steer a run, its questions, and the journal of a thread.

There is one small function per event. The other events of a run are in ``fold``, which knows when
each is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from midflight.journal import events as e
from midflight.journal.events import MessagesTaken
from midflight.journal.phases import Cause, Phase
from midflight.journal.record import Event, Recorded, Request, remember_key, size_of
from midflight.journal.state import Delivery, Question, RunState
from midflight.journal.threads import thread as t
from midflight.journal.threads.thread import ThreadState

Apply = Callable[[RunState, Any, int], None]
"""Changes the state by an event at a position."""


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
    apply_pending(s, event.upto, at, "redirect")
    s.brief = event.brief
    s.course += 1
    s.profile = event.profile or s.profile
    s.windows.clear()
    s.relevant = at
    if "redirect" not in s.pending.values():  # one that came after `upto` is still to be told
        s.redirect = None


def _paused(s: RunState, event: e.Paused, at: int) -> None:
    apply_pending(s, event.upto, at, "pause", "take over")
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


def apply_pending(s: RunState, upto: int, at: int, *verbs: str) -> None:
    """Note that what was asked with these verbs, up to a position, has been done."""
    # layer request-after-upto-not-consumed
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
    s.limits = event.limits.over(event.kept)  # layer cap-not-named-stays
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


CONTROLS: Final[dict[type[Event], Apply]] = {
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
    e.Killed: _killed,
    e.Recovered: _recovered,
}


READ_KEPT: Final = 256  # read messages whose choice can still be overruled
SAID_KEPT: Final = 300  # characters of what was last said, for the note of a parked run


def advance(s: ThreadState, event: Event, record: Recorded) -> None:
    """Change the state by an event. Spoken words and later versions' events leave no mark."""
    apply = _APPLY.get(type(event))
    if apply is not None:
        apply(s, event, record)
    remember_key(s.keys, event, record.position)
    if isinstance(event, Request):
        s.asked += size_of(event)


def _thread_created(s: ThreadState, event: t.ThreadCreated, record: Recorded) -> None:
    s.title, s.created_at = event.title, record.at


# ── messages ─────────────────────────────────────────────────────────────────────────────────


def _message_sent(s: ThreadState, event: t.MessageSent, record: Recorded) -> None:
    s.messages += 1
    at = record.position
    s.unread[at] = t.Message(at, event.text, event.who, at=record.at)


def _message_edited(s: ThreadState, event: t.MessageEdited, _record: Recorded) -> None:
    s.unread[event.message].text = event.text


def _message_withdrawn(s: ThreadState, event: t.MessageWithdrawn, _record: Recorded) -> None:
    s.unread.pop(event.message, None)


def _message_triaged(s: ThreadState, event: t.MessageTriaged, _record: Recorded) -> None:
    message = s.unread.get(event.message) or s.read.get(event.message)
    if message is not None:
        message.choice, message.run = event.choice, event.run


def _choice_overruled(s: ThreadState, event: t.ChoiceOverruled, _record: Recorded) -> None:
    if event.choice == "incorporate" and event.message in s.read:
        s.unread[event.message] = s.read.pop(event.message)


def _messages_taken(s: ThreadState, event: MessagesTaken, _record: Recorded) -> None:
    taken = event.messages or [p for p in s.unread if p <= event.upto]
    _read(s, taken, event.run)
    for report in event.messages:
        s.reports.pop(report, None)


def _said(s: ThreadState, event: t.Said, record: Recorded) -> None:
    """Keep words to another run as a report; other text is what the thread last heard."""
    if event.to:
        s.reports[record.position] = event.to
        while len(s.reports) > READ_KEPT:  # a run that has ended reads none
            del s.reports[next(iter(s.reports))]
    elif event.kind == "text":
        s.last_said = event.text[:SAID_KEPT]


def _read(s: ThreadState, messages: Iterable[int], run: str) -> None:
    """Take messages from the unread ones; the last of them can still be overruled."""
    for position in messages:
        message = s.unread.pop(position, None)
        if message is not None:
            message.run = run or message.run
            s.read[position] = message
    if len(s.read) > READ_KEPT:
        named = {todo.message for todo in s.todos.values()}  # they are still to be done
        for position in [p for p in s.read if p not in named][:-READ_KEPT]:
            del s.read[position]


# ── what is still to be done, and what is in front ───────────────────────────────────────────


def _todo_added(s: ThreadState, event: t.TodoAdded, record: Recorded) -> None:
    about = (event.kind, event.text, event.run, event.message, event.note, event.until)
    s.todos[record.position] = t.Todo(record.position, *about)
    _read(s, [event.message], "")


def _todo_taken(s: ThreadState, event: t.TodoTaken, _record: Recorded) -> None:
    todo = s.todos.pop(event.todo, None)
    if todo is not None and todo.message in s.read:
        s.read[todo.message].run = event.run


def _todo_gone(s: ThreadState, event: t.TodoRemoved | t.TodoDropped, _record: Recorded) -> None:
    s.todos.pop(event.todo, None)


def _todos_reordered(s: ThreadState, event: t.TodosReordered, _record: Recorded) -> None:
    s.order = event.order


def _front_changed(s: ThreadState, event: t.FrontChanged, _record: Recorded) -> None:
    s.front = event.run
    if event.agent:
        s.host = t.Host(event.agent, event.mode, event.limits, event.asides)


_APPLY: Final[dict[type[Event], Callable[[ThreadState, Any, Recorded], None]]] = {
    t.ThreadCreated: _thread_created,
    t.MessageSent: _message_sent,
    t.MessageEdited: _message_edited,
    t.MessageWithdrawn: _message_withdrawn,
    t.MessageTriaged: _message_triaged,
    t.ChoiceOverruled: _choice_overruled,
    MessagesTaken: _messages_taken,
    t.Said: _said,
    t.TodoAdded: _todo_added,
    t.TodoTaken: _todo_taken,
    t.TodoRemoved: _todo_gone,
    t.TodoDropped: _todo_gone,
    t.TodosReordered: _todos_reordered,
    t.FrontChanged: _front_changed,
}
