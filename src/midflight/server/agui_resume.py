"""Answers to interrupts, given as the verbs that they mean.

All are checked against what was asked before any is given. What is no longer open is not an error:
it was answered elsewhere meanwhile, or by this very request before its answer was lost.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from midflight.control import Accepted, Control
from midflight.errors import InvalidRequest, JournalNotFound, NotAllowed, Refused, ScopeStopped
from midflight.kernel import events as e
from midflight.kernel.decide import ASKED, HANDED_OVER
from midflight.kernel.phases import Phase
from midflight.kernel.record import Who
from midflight.kernel.state import RunState
from midflight.schemas import check_answer
from midflight.server.agui_events import KEY
from midflight.server.agui_input import Resume
from midflight.server.agui_state import HUMAN, PAUSED, Asked, Open, open_interrupts
from midflight.server.problems import Problem
from midflight.stores.waiting import question_at
from midflight.verbs.telling import By

_ID: Final = re.compile(r"(r-.+?):(?:(?P<hold>paused|human):)?(?P<at>\d{1,18})", re.DOTALL)


class Receipt(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What became of one thing that a client asked for: accepted, refused, or left as it was."""

    verb: str
    status: str
    run: str = ""
    position: int = 0
    why: str = ""
    interrupt_id: str = ""


class Answer(Struct, frozen=True):
    """One entry with the run it is about, as that run stands. ``about`` is None: it is not open."""

    entry: Resume
    state: RunState | None = None
    about: Open | None = None
    refusal: str = ""

    @property
    def payload(self) -> Any:
        """What was answered; absent is None."""
        return None if self.entry.payload is UNSET else self.entry.payload


async def questions_of(control: Control, state: RunState) -> dict[int, e.QuestionOpened]:
    """What the open questions of a run ask."""
    found = {}
    for position in state.questions:
        asked = await question_at(control.store, state.journal, position)
        assert asked is not None, f"{state.journal} has an open question at {position}"
        found[position] = asked
    return found


async def understand(control: Control, thread: str, entries: Sequence[Resume]) -> list[Answer]:
    """Find out what each entry is about. Raises ``Problem`` if one does not fit."""
    ids = [entry.interrupt_id for entry in entries]
    if twice := {one for one in ids if ids.count(one) > 1}:
        raise Problem(422, "invalid", f"resume names {sorted(twice)} more than once.")
    now = await control.store.now() if entries else 0.0
    answers = [await _understood(control, thread, entry, now) for entry in entries]
    for answer in answers:
        if answer.about is not None and answer.entry.status == "resolved" and not answer.refusal:
            _check(answer, answer.about)
    return answers


def _check(answer: Answer, about: Open) -> None:
    try:
        check_answer(answer.payload, about.interrupt.response_schema)
    except InvalidRequest as error:
        raise Problem(422, "invalid", f"{about.interrupt.id}: {error}") from None


async def _understood(control: Control, thread: str, entry: Resume, now: float) -> Answer:
    named = _ID.fullmatch(entry.interrupt_id)
    unknown = Answer(entry, refusal="there is no such interrupt in this thread")
    if named is None:
        return unknown
    try:
        state = await control.state(named[1])
    except JournalNotFound:
        return unknown
    if state.thread != thread:
        return unknown
    asked = await questions_of(control, state)
    about = open_interrupts(state, asked).get(entry.interrupt_id)
    if about is None:
        return Answer(entry, state, refusal=_why_closed(state, int(named["at"]), named["hold"]))
    if about.kind == "approval":
        entry = replace(entry, payload=_approval(entry.payload))
    expired = _is_expired(state, asked, about, now) and entry.status == "resolved"
    return Answer(entry, state, about, "it has expired" if expired else "")


def _is_expired(state: RunState, asked: Asked, about: Open, now: float) -> bool:
    if not about.question or state.phase is Phase.PAUSED:
        return False
    expires_at = asked[about.question].expires_at
    return expires_at is not None and expires_at <= now


def _why_closed(state: RunState, at: int, hold: str | None) -> str:
    by = state.answered.get(at)
    return f"it was answered by {by}" if by and not hold else "it is not open any more"


def _approval(payload: Any) -> Any:
    """Clients of other frameworks say ``approved`` and ``editedArgs``: the same in our words."""
    match payload:
        case {"approved": True, "editedArgs": edited}:
            return {"edit": edited}
        case {"approved": bool(approved)} if len(payload) == 1:
            return "approve" if approved else "reject"
        case _:
            return payload


# ── doing it ─────────────────────────────────────────────────────────────────────────────────


async def give(control: Control, answers: Sequence[Answer], run: str, who: Who) -> list[Receipt]:
    """Do what the answers say; ``run`` is the AG-UI run they came with.

    Who may not answer, or is stopped by an operator, is refused as a whole while nothing is done.
    """
    receipts: list[Receipt] = []
    for answer in answers:
        try:
            receipts.append(await _give(control, answer, run, who))
        except (NotAllowed, ScopeStopped) as refused:
            if not any(receipt.status == "accepted" for receipt in receipts):
                raise
            receipts.append(_refused(answer, str(refused)))
        except Refused as refused:
            receipts.append(_refused(answer, str(refused)))
    return receipts


async def _give(control: Control, answer: Answer, run: str, who: Who) -> Receipt:
    state, about, entry = answer.state, answer.about, answer.entry
    key = KEY + entry.interrupt_id
    if state is not None and (who.by, key) in state.keys:
        return await _given_before(control, answer, state, state.keys[who.by, key][0])
    if answer.refusal or state is None or about is None:
        return _refused(answer, answer.refusal)
    verb = _verb(control, answer, about, state, {"who": who, "key": key}, run)
    if verb is None:
        return Receipt("answer", "left open", state.journal, interrupt_id=entry.interrupt_id)
    done = await verb
    return Receipt(done.verb, "accepted", done.run, done.position, done.status, entry.interrupt_id)


async def _given_before(control: Control, answer: Answer, state: RunState, at: int) -> Receipt:
    """The same again is accepted as it was; something else comes too late."""
    (record,) = await control.store.read(state.journal, after=at - 1, limit=1)
    if not _is_same(record.event, answer.entry):
        return _refused(answer, "it was answered before, and otherwise")
    return Receipt(
        "answer", "accepted", state.journal, at, "given before", answer.entry.interrupt_id
    )


def _is_same(given: Any, entry: Resume) -> bool:
    match given:
        case e.QuestionAnswered(declined=True):
            return entry.status == "cancelled"
        case e.QuestionAnswered(payload=payload):
            meant = "reject" if entry.status == "cancelled" else entry.payload
            return msgspec.json.decode(payload) in (meant, _approval(meant))
        case e.RedirectRequested(text=text):
            return bool(entry.payload == {"action": "redirect", "text": text})
        case e.ResumeRequested():
            return bool(entry.payload == {"action": "resume"})
        case _:
            return entry.status == "resolved"


def _verb(
    control: Control, answer: Answer, about: Open, state: RunState, by: By, turn: str
) -> Awaitable[Accepted] | None:
    """The verb that an answer is. To leave it never cancels the run and never decides a doubt."""
    run, kind, question, payload = state.journal, about.kind, about.question, answer.payload
    if answer.entry.status == "cancelled":
        if kind == "approval":
            return control.answer(run, question, "reject", **by)
        return control.decline(run, question, **by) if kind == ASKED else None
    if kind == PAUSED:
        return _move_on(control, run, payload, by, turn)
    if kind in {HUMAN, HANDED_OVER}:
        return control.hand_back(run, payload.get("note", ""), **by)
    if kind == "cap":
        return control.raise_limits(run, replace(state.limits, **payload), **by)
    return control.answer(run, question, payload, **by)


def _move_on(control: Control, run: str, payload: Any, by: By, turn: str) -> Awaitable[Accepted]:
    match payload:
        case {"action": "redirect", "text": text}:
            return control.redirect(run, text, resume=True, **by)
        case {"action": "message", "text": text}:  # it stays paused, so others may follow
            return control.send(run, text, who=by["who"], key=f"{by['key']}:{turn}")
        case _:
            return control.resume(run, **by)


def _refused(answer: Answer, why: str) -> Receipt:
    run = answer.state.journal if answer.state is not None else ""
    return Receipt("answer", "refused", run, why=why, interrupt_id=answer.entry.interrupt_id)
