"""Answers to interrupts, given as the verbs that they mean.

All are checked against what was asked before any is given; where one does not fit, none is given
and the stream ends with the interrupts again. What is no longer open is not an error: it was
answered elsewhere meanwhile, or by this very request before its answer was lost.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from midflight import audit
from midflight.audit import Fact, deed
from midflight.control import Ack, Control
from midflight.control.audit_trail import record_undone
from midflight.control.verbs import By
from midflight.errors import InvalidRequest, JournalNotFound, NotAllowed, Refused
from midflight.inputs import new_id
from midflight.interfaces.agui.agui_approvals import (
    APPROVAL,
    TAKES,
    holds_dots,
    in_our_words,
    is_reason_lost,
)
from midflight.interfaces.agui.agui_events import KEY
from midflight.interfaces.agui.agui_input import Misread, Resume
from midflight.interfaces.agui.agui_state import HUMAN, PAUSED, Asked, Open, open_interrupts
from midflight.interfaces.http.responses import questions_of
from midflight.journal import events as e
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor, taken_under
from midflight.journal.requests import ASKED, HANDED_OVER
from midflight.journal.state import RunState
from midflight.schemas import check_answer
from midflight.stores.lookup import question_at
from midflight.tools.declaration import find_tool
from midflight.tools.specs import fitting

_ID: Final = re.compile(r"(r-.+?):(?:(?P<hold>paused|human):)?(?P<at>\d{1,18})", re.DOTALL)
WHY_MAX: Final = 600  # characters that are said about an answer that does not fit
NOT_ALONE: Final = "another answer of this request does not fit, so none of them was given"
DOTS_SENT: Final = (
    "the edited arguments hold dots in place of a secret; leave that argument as it was shown, or "
    "give another value"
)
REASON_LOST: Final = "the reason was not kept: an approval takes none"


class Receipt(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The receipt for one thing that a client asked for: accepted, refused, or left as it was."""

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
    misfit: str = ""
    note: str = ""

    @property
    def question(self) -> int:
        """The position of the question that is named; 0 where none is."""
        named = _ID.fullmatch(self.entry.interrupt_id)
        return int(named["at"]) if named is not None and not named["hold"] else 0

    @property
    def payload(self) -> Any:
        """The payload of the answer; None where the client sent none."""
        return None if self.entry.payload is UNSET else self.entry.payload


async def understand(
    control: Control, thread: str, entries: Sequence[Resume], misread: Sequence[Misread] = ()
) -> list[Answer]:
    """Find out what each entry is about, and whether it fits what was asked there."""
    ids = [entry.interrupt_id for entry in entries]
    now = await control.store.now() if entries else 0.0
    answers = [await _understood(control, thread, entry, now) for entry in entries]
    answers = [
        replace(answer, misfit=await _misfit(answer, ids.count(answer.entry.interrupt_id)))
        for answer in answers
    ]
    strange = [Answer(Resume(one.interrupt_id, "cancelled"), misfit=one.why) for one in misread]
    return answers + strange


async def _misfit(answer: Answer, times: int) -> str:
    """Say why an answer cannot be given; empty if it can."""
    about = answer.about
    if times > 1:
        return "it was answered more than once in one request"
    if about is None or answer.entry.status != "resolved" or answer.refusal:
        return ""
    if about.kind == APPROVAL and holds_dots(answer.payload):  # layer dots-not-approved-as-argument
        return DOTS_SENT
    try:
        await check_answer(answer.payload, about.schema)
    except InvalidRequest as error:
        if about.kind != APPROVAL:
            return str(error)
        return f"{TAKES}. {_cut(str(error))}"
    return _unfit_edit(answer.payload, about.schema) if about.kind == APPROVAL else ""


def _unfit_edit(payload: Any, asked: Any) -> str:
    """Say why the tool does not take edited arguments; empty if it does, or is not known here."""
    match payload, asked:
        case {"edit": dict(edited)}, {"x-tool": str(name), "x-details": dict(shown)}:
            tool = find_tool(name)
            given: dict[str, Any] = {"args": [], "kwargs": {}} | shown | edited
        case _:
            return ""
    try:
        if tool is not None:
            fitting(tool, given)
    except (TypeError, InvalidRequest) as error:
        return f"the tool does not take these arguments: {_cut(str(error))}"
    return ""


def _cut(words: str) -> str:
    """Bound what is said about an answer, for it repeats the answer."""
    return words if len(words) <= WHY_MAX else f"{words[:WHY_MAX]}…"


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
    asked = await questions_of(control.store, state)
    about = open_interrupts(state, asked).get(entry.interrupt_id)
    if about is None:
        return Answer(entry, state, refusal=_why_closed(state, int(named["at"]), named["hold"]))
    note = REASON_LOST if is_reason_lost(entry.payload) and about.kind == APPROVAL else ""
    if about.kind == APPROVAL:
        entry = replace(entry, payload=in_our_words(entry.payload, about.schema))
    expired = _is_expired(state, asked, about, now) and entry.status == "resolved"
    return Answer(entry, state, about, "it has expired" if expired else "", note=note)


def _is_expired(state: RunState, asked: Asked, about: Open, now: float) -> bool:
    if not about.question or state.phase is Phase.PAUSED:
        return False
    expires_at = asked[about.question].expires_at
    return expires_at is not None and expires_at <= now


def _why_closed(state: RunState, at: int, hold: str | None) -> str:
    by = state.answered.get(at)
    return f"it was answered by {by}" if by and not hold else "it is not open any more"


# ── doing it ─────────────────────────────────────────────────────────────────────────────────


async def give(control: Control, answers: Sequence[Answer], run: str, who: Actor) -> list[Receipt]:
    """Do what the answers say; ``run`` is the AG-UI run they came with.

    Where one of them does not fit, none is given. A viewer is refused as a whole.
    """
    if any(answer.misfit for answer in answers):  # layer one-answer-does-not-fit-stops
        for answer in answers:
            await _record(control, answer, who, audit.REFUSED, "does_not_fit")
        return [_refused(answer, _cut(answer.misfit or NOT_ALONE)) for answer in answers]
    receipts: list[Receipt] = []
    for answer in answers:
        try:
            receipts.append(await _give(control, answer, run, who))
        except Refused as refused:
            if isinstance(refused, NotAllowed) and who.role is Role.VIEWER:
                raise
            receipts.append(_refused(answer, str(refused)))
    return receipts


def told_about(answers: Sequence[Answer], receipts: Sequence[Receipt]) -> list[str]:
    """Return what the client is warned of: answers that came too late, and what was not kept."""
    warnings = [f"{answer.entry.interrupt_id}: {answer.note}" for answer in answers if answer.note]
    for answer, receipt in zip(answers, receipts, strict=True):
        if receipt.status == "refused" and answer.state is not None and answer.about is None:
            warnings.append(f"{receipt.interrupt_id}: {receipt.why}; the run goes on without it")
    return warnings


def misfits(answers: Sequence[Answer], receipts: Sequence[Receipt]) -> dict[str, str]:
    """Return what was wrong with answers by interrupt id, under "" what belongs to no open one."""
    found: dict[str, str] = {}
    for answer, receipt in zip(answers, receipts, strict=True):
        closed = answer.state is not None and answer.about is None and not answer.misfit
        if receipt.status == "refused" and not closed:
            found["" if answer.state is None else receipt.interrupt_id] = receipt.why
    return found


async def _give(control: Control, answer: Answer, run: str, who: Actor) -> Receipt:
    state, about, entry = answer.state, answer.about, answer.entry
    key = KEY + entry.interrupt_id
    before = taken_under(state.keys, who.by, key) if state is not None else None
    if state is not None and before is not None:
        return await _given_before(control, answer, state, before, who)
    if answer.refusal or state is None or about is None:
        await _record(control, answer, who, audit.REFUSED, "not_open")
        return _refused(answer, answer.refusal)
    verb = _verb(control, answer, about, state, {"who": who, "key": key}, run)
    if verb is None:
        await _record(control, answer, who, audit.NOTHING)
        return Receipt("answer", "left open", state.journal, interrupt_id=entry.interrupt_id)
    done = await verb
    return Receipt(done.verb, "accepted", done.run, done.position, done.status, entry.interrupt_id)


async def _record(
    control: Control, answer: Answer, who: Actor, outcome: str, why: str = ""
) -> None:
    """Put an answer into the audit for which no verb was called."""
    run = answer.state.journal if answer.state is not None else ""
    about: dict[str, Fact] = {"question": answer.question} if answer.question else {}
    asked = deed("answer", run, id=new_id(), who=who, outcome=outcome, why=why, about=about)
    await record_undone(control, asked)


async def _given_before(
    control: Control, answer: Answer, state: RunState, at: int, who: Actor
) -> Receipt:
    """Accept an answer that was given before in the same words; another one comes too late."""
    (known,) = await control.store.read(state.journal, after=at - 1, limit=1)
    at_question = await question_at(control.store, state.journal, answer.question)
    schema = msgspec.json.decode(at_question.schema) if at_question is not None else None
    if not _is_same(known.event, answer.entry, schema):
        await _record(control, answer, who, audit.REFUSED, "answered_before")
        return _refused(answer, "it was answered before, with another answer")
    await _record(control, answer, who, audit.REPEATED)
    return Receipt(
        "answer", "accepted", state.journal, at, "given before", answer.entry.interrupt_id
    )


def _is_same(given: Any, entry: Resume, schema: Any) -> bool:
    match given:
        case e.QuestionAnswered(declined=True):
            return entry.status == "cancelled"
        case e.QuestionAnswered(payload=payload):
            meant = "reject" if entry.status == "cancelled" else entry.payload
            return msgspec.json.decode(payload) in (meant, in_our_words(meant, schema))
        case e.RedirectRequested(text=text):
            return bool(entry.payload == {"action": "redirect", "text": text})
        case e.ResumeRequested():
            return bool(entry.payload == {"action": "resume"})
        case e.CancelRequested():
            return bool(entry.payload == {"action": "cancel"})
        case _:
            return entry.status == "resolved"


def _verb(
    control: Control, answer: Answer, about: Open, state: RunState, by: By, turn: str
) -> Awaitable[Ack] | None:
    """The verb that an answer is. To leave it never cancels the run and never decides a doubt."""
    run, kind, question, payload = state.journal, about.kind, about.question, answer.payload
    if answer.entry.status == "cancelled":
        if kind == APPROVAL:
            return control.answer(run, question, "reject", **by)
        return control.decline(run, question, **by) if kind == ASKED else None
    if kind == PAUSED:
        return _move_on(control, run, payload, by, turn)
    if kind in {HUMAN, HANDED_OVER}:
        return control.hand_back(run, payload.get("note", ""), **by)
    if kind == "cap":
        return control.raise_limits(run, replace(state.limits, **payload), **by)
    return control.answer(run, question, payload, **by)


def _move_on(control: Control, run: str, payload: Any, by: By, turn: str) -> Awaitable[Ack]:
    match payload:
        case {"action": "redirect", "text": text}:
            return control.redirect(run, text, resume=True, **by)
        case {"action": "message", "text": text}:  # it stays paused, so others may follow
            return control.send(run, text, who=by["who"], key=f"{by['key']}:{turn}")
        case {"action": "cancel"}:
            return control.cancel(run, **by)
        case _:
            return control.resume(run, **by)


def _refused(answer: Answer, why: str) -> Receipt:
    run = answer.state.journal if answer.state is not None else ""
    return Receipt("answer", "refused", run, why=why, interrupt_id=answer.entry.interrupt_id)
