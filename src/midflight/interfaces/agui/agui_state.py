"""A run in the words of AG-UI: its state, its open questions, and how its stream ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    ToolMessage,
)
from msgspec import Struct

from midflight.interfaces.agui.agui_approvals import APPROVAL, described, shown
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase
from midflight.journal.preview import preview
from midflight.journal.requests import ASKED, HANDED_OVER
from midflight.journal.state import RunState, about_step, seconds_in_motion
from midflight.journal.status import receipt
from midflight.journal.threads.thread import ThreadState
from midflight.view.control_bar import PHASE_WORDS

MESSAGES_BYTES_MAX: Final = 1024 * 1024  # of the messages in a snapshot; a larger one goes alone
FRAME: Final = 100  # bytes of a message beside its words
MESSAGES_LEFT_OUT: Final = (
    "this conversation is longer than is sent at once: its oldest messages are left out, and "
    "GET /v1/threads/ID/transcript has them"
)
CANCELLED: Final = "midflight:cancelled"
"""The custom event that tells of a cancelled run."""

Asked = Mapping[int, e.QuestionOpened]
"""The questions of a run, by position: a state keeps what they are about, not their schemas."""

REASONS: Final = {ASKED: "input_required", "approval": "confirmation"}
PAUSED: Final = "midflight:paused"
HUMAN: Final = "midflight:human"


def _action(name: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"action": {"const": name}} | more,
        "required": ["action", *more],
        "additionalProperties": False,
    }


_WORDS: Final = {"type": "string", "minLength": 1, "pattern": r"\S"}
WHAT_NOW: Final = {
    "oneOf": [
        _action("resume"),
        _action("redirect", text=_WORDS),
        _action("message", text=_WORDS),
        _action("cancel"),
    ]
}
HAND_BACK: Final = {
    "type": "object",
    "properties": {"note": {"type": "string"}},
    "additionalProperties": False,
}
_COUNT: Final = {"type": "integer", "minimum": 0}
_AMOUNT: Final = {"type": "number", "minimum": 0}
NEW_CAPS: Final = {
    "type": "object",
    "properties": {
        "steps": _COUNT,
        "seconds": _AMOUNT,
        "tokens": _COUNT,
        "usd": _AMOUNT,
        "tool_calls": _COUNT,
        "repeats": _COUNT,
    },
    "minProperties": 1,
    "additionalProperties": False,
}
INSTEAD: Final = {"cap": NEW_CAPS, HANDED_OVER: HAND_BACK}
"""Questions that a verb answers: a cap is raised, a run is handed back."""


class Open(Struct, frozen=True):
    """Something that a person is asked, and what an answer to it would be about.

    ``schema`` is what the answer is checked against: for an approval not what a client is shown.
    """

    interrupt: Interrupt
    kind: str
    schema: Any
    question: int = 0


def is_at_rest(state: RunState, asked: Asked) -> bool:
    """Return whether nothing more happens before a person acts, so that the stream ends."""
    if state.phase is Phase.PAUSED:
        return bool(open_interrupts(state, asked))  # else the next start lifts it, or a todo's turn
    return not state.alive or state.phase is Phase.WAITING


def open_interrupts(state: RunState, asked: Asked) -> dict[str, Open]:
    """All that the run asks a person now, by interrupt id."""
    found = [_question(state, position, asked[position]) for position in state.questions]
    if state.phase is Phase.PAUSED:
        found += _holds(state)
    return {one.interrupt.id: one for one in found}


def _question(state: RunState, position: int, asked: e.QuestionOpened) -> Open:
    schema = msgspec.json.decode(asked.schema)
    step = about_step(asked)
    expires = None if state.phase is Phase.PAUSED else asked.expires_at  # time stands still there
    about: dict[str, Any] = {"run": state.journal, "question": position, "kind": asked.kind}
    takes = INSTEAD.get(asked.kind) or (schema if isinstance(schema, dict) else None)
    if asked.kind == APPROVAL:
        takes, about = described(schema), about | shown(schema)
    if asked.answerers:
        about["answerers"] = list(asked.answerers)
    interrupt = Interrupt(
        id=f"{state.journal}:{position}",
        reason="tool_call" if step else REASONS.get(asked.kind, f"midflight:{asked.kind}"),
        message=asked.message,
        tool_call_id=f"{state.journal}:{step}" if step else None,
        response_schema=takes,
        expires_at=None if expires is None else datetime.fromtimestamp(expires, UTC).isoformat(),
        metadata=about,
    )
    checked = schema if asked.kind == APPROVAL else takes
    return Open(interrupt, asked.kind, checked, position)


def _holds(state: RunState) -> list[Open]:
    """Return the holds that only a person lifts and that ask nothing: a pause, a takeover."""
    run, found, offers = state.journal, [], preview(state)
    if Cause.USER in state.holds:
        since = int(state.held_at * 1000)
        words = f"{PHASE_WORDS[Phase.PAUSED]}. {offers['resume'].consequence}."
        found.append(_hold(run, PAUSED, f"paused:{since}", words, WHAT_NOW))
    asks = any(question.kind == HANDED_OVER for question in state.questions.values())
    if Cause.HUMAN in state.holds and not asks:
        taken = (p for p, d in state.deliveries.items() if d.verb == "take over")
        since = max(taken, default=0)
        words = f"{state.human or 'A person'} has taken it over. {offers['hand back'].consequence}."
        found.append(_hold(run, HUMAN, f"human:{since}", words, HAND_BACK))
    return found


def _hold(run: str, reason: str, name: str, words: str, schema: dict[str, Any]) -> Open:
    interrupt = Interrupt(
        id=f"{run}:{name}",
        reason=reason,
        message=words,
        response_schema=schema,
        metadata={"run": run, "kind": reason},
    )
    return Open(interrupt, reason, schema)


# ── state ────────────────────────────────────────────────────────────────────────────────────


def snapshot(
    state: RunState | None,
    talk: ThreadState | None,
    asked: Asked,
    undriven_since: float | None = None,
) -> dict[str, Any]:
    """All of it, as plain data. ``position`` is what a control may be given as ``expect``.

    ``undriven_since`` is since when nobody drives the run, which its journal does not say.
    """
    todos = talk.next_todos if talk is not None else []
    shown: dict[str, Any] = {
        "thread": talk.journal if talk is not None else None,
        "threadPosition": talk.head if talk is not None else 0,
        "todos": [{"id": todo.position, "kind": todo.kind, "text": todo.text} for todo in todos],
        "unread": len(talk.unread) if talk is not None else 0,
    }
    return shown if state is None else shown | _run(state, asked, undriven_since)


def _run(state: RunState, asked: Asked, undriven_since: float | None) -> dict[str, Any]:
    spent, seconds = state.spent, state.spent.seconds
    if undriven_since is not None:
        seconds = seconds_in_motion(state, undriven_since, alone=True)
    return {
        "run": state.journal,
        "agent": state.agent,
        "phase": str(state.phase),
        "undrivenSince": undriven_since,
        "position": state.relevant,
        "brief": state.brief,
        "holds": sorted(state.holds),
        "human": state.human,
        "plan": list(state.plan),
        "steps": {
            "done": spent.steps,
            "ofPlan": max(0, spent.steps - state.plan_from),
            "inFlight": [attempt.name for attempt in state.open.values()],
        },
        "limits": {k: v for k, v in msgspec.structs.asdict(state.limits).items() if v is not None},
        "spend": {
            "steps": spent.steps,
            "toolCalls": spent.tool_calls,
            "tokens": spent.tokens,
            "usd": spent.usd,
            "unpricedTokens": spent.unpriced,
            "seconds": round(seconds, 3),
            "movingSince": state.moving_since if undriven_since is None else None,
        },
        "questions": [
            one.interrupt.model_dump(by_alias=True)
            for one in open_interrupts(state, asked).values()
        ],
        "notices": [{"kind": kind, "text": text} for kind, text in state.notices],
        "preview": {verb: msgspec.structs.asdict(offer) for verb, offer in preview(state).items()},
        "receipt": [line.text for line in receipt(state).lines],
        "saved": list(state.saved),
        "error": state.error,
    }


def patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Any]:
    """A JSON Patch, member by member: they are small, and a client applies it without a search."""
    gone = [{"op": "remove", "path": f"/{name}"} for name in before if name not in after]
    changed = [
        {"op": "replace" if name in before else "add", "path": f"/{name}", "value": value}
        for name, value in after.items()
        if name not in before or before[name] != value
    ]
    return gone + changed


# ── the end of a stream ──────────────────────────────────────────────────────────────────────


def ending(
    thread: str, run: str, state: RunState | None, asked: Asked, result: Any = None
) -> BaseEvent:
    """The terminal event for a run at rest, or for a thread where nothing is to be done."""
    phase = state.phase if state is not None else Phase.DONE
    match phase:
        case Phase.FAILED:
            assert state is not None
            return RunErrorEvent(message=state.error or "the run has failed", code="failed")
        case Phase.KILLED:
            assert state is not None
            by = f" by {state.ended_by.by}" if state.ended_by else ""
            return RunErrorEvent(
                message=f"run {state.journal} was stopped by the kill switch{by}; nothing was "
                "cleaned up, and its receipt lists what is in doubt",
                code="killed",
            )
        case Phase.CANCELLED:
            outcome: Any = RunFinishedCancelledOutcome()
        case Phase.DONE:
            outcome = RunFinishedSuccessOutcome()
        case _:
            assert state is not None
            asks = [one.interrupt for one in open_interrupts(state, asked).values()]
            outcome = RunFinishedInterruptOutcome(interrupts=asks)
    return RunFinishedEvent(thread_id=thread, run_id=run, outcome=outcome, result=result)


def old_endings(
    thread: str, run: str, ending: BaseEvent, *, resumed: bool
) -> tuple[BaseEvent, ...]:
    """Return the events that end a stream for a client of version 0.

    ``resumed``: the client has sent answers, so it has interrupts that it would keep for ever
    after a ``RUN_ERROR``. A ``RUN_FINISHED`` without an outcome, which may stand before it, makes
    it forget them.
    """
    match ending:
        case RunErrorEvent() if resumed:
            return RunFinishedEvent(thread_id=thread, run_id=run), ending
        case RunFinishedEvent(outcome=RunFinishedCancelledOutcome()):
            return (ending.model_copy(update={"outcome": None}),)  # layer client-of-version-0
        case RunFinishedEvent(outcome=RunFinishedInterruptOutcome(interrupts=asked)):
            lasting = [one.model_copy(update={"expires_at": None}) for one in asked]
            outcome = RunFinishedInterruptOutcome(interrupts=lasting)
            return (ending.model_copy(update={"outcome": outcome}),)
        case _:
            return (ending,)


def cancelled_words(state: RunState) -> str:
    """Return what a person reads of a cancelled run: who has cancelled it, and what is left."""
    by = f" by {state.ended_by.by}" if state.ended_by else ""
    lines = [f"- {line.text}" for line in receipt(state).lines]
    return "\n".join([f"{PHASE_WORDS[Phase.CANCELLED]}{by}.", *lines])


def said_again(event: RunFinishedEvent, misfits: Mapping[str, str]) -> RunFinishedEvent:
    """Return the end of a stream; interrupts that are open still say which answer did not fit."""
    outcome = event.outcome
    if not misfits or not isinstance(outcome, RunFinishedInterruptOutcome):
        return event
    general = misfits.get("", "")
    again = [
        _with_words(one, misfits.get(one.id) or (general if place == 0 else ""))
        for place, one in enumerate(outcome.interrupts)
    ]
    changed: dict[str, Any] = {"outcome": RunFinishedInterruptOutcome(interrupts=again)}
    return event.model_copy(update=changed)


def _with_words(interrupt: Interrupt, why: str) -> Interrupt:
    if not why:
        return interrupt
    words = f"{interrupt.message or ''}\n\nYour answer was not taken: {why}".strip()
    return interrupt.model_copy(update={"message": words})


# ── the messages ─────────────────────────────────────────────────────────────────────────────


def snapshot_of(messages: Sequence[Message], left_out: list[str]) -> MessagesSnapshotEvent:
    """Return a snapshot of the newest messages; what is left out is noted once in ``left_out``."""
    shown = newest_within(messages, MESSAGES_BYTES_MAX)
    if len(shown) < len(messages) and MESSAGES_LEFT_OUT not in left_out:
        left_out.append(MESSAGES_LEFT_OUT)
    return MessagesSnapshotEvent(messages=shown)


def newest_within(messages: Sequence[Message], most: int) -> list[Message]:
    """Return the newest messages, as many as ``most`` bytes hold, or one; no result without a call.

    The newest one is always there.
    """
    size, first = 0, len(messages)
    for place in range(len(messages) - 1, -1, -1):
        size += _bytes_of(messages[place])
        if size > most and first < len(messages):
            break
        first = place
    if first:
        while first < len(messages) - 1 and isinstance(messages[first], ToolMessage):
            first += 1
    return list(messages[first:])


def _bytes_of(message: Message) -> int:
    words = [message.content] if isinstance(message.content, str) else []
    if isinstance(message, AssistantMessage):
        words += [call.function.arguments for call in message.tool_calls or ()]
    return FRAME + sum(len(text.encode()) for text in words)
