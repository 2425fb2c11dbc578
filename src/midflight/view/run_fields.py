"""Views of a run or a thread as it stands, put together from its state."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from midflight.control.descendants import offers
from midflight.journal.events import QuestionOpened
from midflight.journal.limits import meters
from midflight.journal.phases import Cause
from midflight.journal.preview import NOT_AT_HAND, Below
from midflight.journal.receipt import receipt
from midflight.journal.record import NULL
from midflight.journal.requests import HANDED_OVER
from midflight.journal.state import Attempt, RunState, Spent, seconds_in_motion
from midflight.journal.status import status, undoing
from midflight.journal.threads.thread import ThreadState
from midflight.view.data import Asked, InFlight, UnreadMessage
from midflight.view.proposals import CAP, cap_in
from midflight.view.question_form import all_facts, ways

STEP_FAILED: Final = re.compile(r"^StepFailed: step (['\"]).*?\1 failed: ", re.DOTALL)
"""The beginning of a run's error that names its step. A journal keeps the error as one text."""

SETTLED_BY: Final = {CAP: "raise limits", HANDED_OVER: "hand back"}
"""Kinds of questions that take no answer -> the verb that settles them."""


def accounted(state: RunState, below: Below = NOT_AT_HAND) -> dict[str, Any]:
    """The two fields of ``RunView`` for which every effect of the run is looked at."""
    return {"preview": offers(state, below), "receipt": receipt(state)}


def viewed(
    state: RunState, now: float, questions: list[Asked], undriven_since: float | None = None
) -> dict[str, Any]:
    """The other fields of ``RunView``, as of a time."""
    alone = undriven_since is not None
    return {
        "run": state.journal,
        "head": state.head,
        "thread": state.thread,
        "agent": state.agent,
        "title": state.title,
        "brief": state.brief,
        "profile": state.profile,
        "parent": state.parent,
        "fork_of": state.fork_of,
        "mode": state.mode,
        "phase": state.phase,
        "status": status(state, now, alone=alone),
        "holds": sorted(state.holds),
        "human": state.human,
        "created_at": state.created_at,
        "updated_at": state.at,
        "plan": state.plan,
        "limits": state.limits,
        "spent": _spent(state, now, alone),
        "meters": meters(state, now, alone=alone),
        "questions": questions,
        "in_flight": [_in_flight(attempt) for attempt in state.open.values()],
        "children": dict(state.children),
        "notices": list(state.notices),
        "error": state.error,
        "undriven_since": undriven_since,
        "reads_messages": state.reads_messages,
        "parked_for": state.parked_for if Cause.PARKED in state.holds else "",
        "undoing": undoing(state),
        "cause": STEP_FAILED.sub("", state.error),
    }


def _spent(state: RunState, now: float, alone: bool) -> Spent:
    """Return what the run has spent, with its seconds in motion counted up to now."""
    spent = state.spent
    return Spent(
        spent.steps,
        spent.tool_calls,
        spent.tokens,
        spent.usd,
        spent.unpriced,
        seconds_in_motion(state, now, alone=alone),
    )


def asked(position: int, event: QuestionOpened) -> Asked:
    """A question with its schema, which is in the journal only."""
    cap, why = cap_in(event) if event.kind == CAP else ("", "")
    schema = msgspec.json.decode(event.schema or NULL)
    verb = SETTLED_BY.get(event.kind, "answer")
    return Asked(
        cap=cap,
        why=why,
        question=position,
        kind=event.kind,
        message=event.message,
        schema=event.schema or NULL,
        about=event.about,
        expires_at=event.expires_at,
        answerers=event.answerers,
        facts=tuple(all_facts(schema)),
        verb=verb,
        ways=ways(schema) if verb == "answer" else (),
        skip="It goes on without an answer" if event.kind == "ask" else "",
    )


def _in_flight(attempt: Attempt) -> InFlight:
    return InFlight(
        position=attempt.position,
        name=attempt.name,
        noun=attempt.label,
        effect=attempt.effect,
        irreversible=attempt.irreversible,
        can_be_stopped=attempt.can_be_stopped,
    )


def unread(talk: ThreadState) -> list[UnreadMessage]:
    """Return the messages of a thread that no run has read yet."""
    return [
        UnreadMessage(m.position, m.text, m.who.by, m.who.role, m.choice, m.at)
        for m in talk.unread.values()
    ]
