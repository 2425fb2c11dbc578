"""Answers requests: from a state, the events that follow, or the reason why none do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from midflight.errors import (
    IllegalEvent,
    InvalidRequest,
    KeyReused,
    NotAllowed,
    Outdated,
    ScopeStopped,
)
from midflight.journal import events as e
from midflight.journal.limits import NO_CAPS, validate
from midflight.journal.phases import ENDS, Cause, Phase, Role, rank
from midflight.journal.record import Actor, Event, Request, body_digest, key_of, size_of
from midflight.journal.state import RunState
from midflight.journal.status import changed_meanwhile
from midflight.journal.threads import thread as t
from midflight.journal.transition_table import State, check, signal

CHOICES: Final = ("incorporate", "switch", "defer", "back", "undo")
"""The choices that a person can make about a message."""


def check_request(state: t.ThreadState, request: Request, *, read_at_once: bool) -> None:
    """Raise, with what is accepted instead, unless the thread takes this request as it is."""
    if isinstance(request, t.WORDED) and not request.text.strip():
        raise InvalidRequest(f"a message to {state.journal} needs a text. It was not stored.")
    if isinstance(request, t.MessageSent) and not read_at_once:
        _room(state, request.who)
    if isinstance(request, t.MessageEdited | t.MessageWithdrawn):
        _own(state, request)
    if isinstance(request, t.ChoiceOverruled):
        _overrulable(state, request)


def _overrulable(state: t.ThreadState, request: t.ChoiceOverruled) -> None:
    if request.choice not in CHOICES:
        raise InvalidRequest(
            f"{request.choice!r} is not a choice; use one of {', '.join(CHOICES)}. Nothing was "
            "changed."
        )
    if request.message not in state.unread and request.message not in state.read:
        raise InvalidRequest(
            f"the choice about message {request.message} of {state.journal} cannot be overruled: "
            "only the choice about a recent message can. Nothing was changed."
        )


def _room(state: t.ThreadState, who: Actor) -> None:
    """Raise ``InvalidRequest`` if too many messages are unread, or too many of those by viewers."""
    unread, whose = len(state.unread), ""
    full = unread >= t.UNREAD_MAX
    if not full and not who.role.steers:
        unread = sum(not message.who.role.steers for message in state.unread.values())
        full, whose = unread >= t.VIEWERS_MAX, f" of {who.role}s"
    if full:
        raise InvalidRequest(
            f"{state.journal} has {unread} unread messages{whose}; wait until the agent has "
            "read some. This one was not stored."
        )


def _own(state: t.ThreadState, request: t.MessageEdited | t.MessageWithdrawn) -> None:
    """Raise ``NotAllowed`` unless the sender asks, with at least the role that the message has."""
    message, who = state.unread.get(request.message), request.who
    if message is None:
        return
    if who.by != message.who.by or rank(who.role) < rank(message.who.role):
        sender = f"its sender, {message.who.by}, as a {message.who.role}"
        raise NotAllowed(who.by, who.role, "changing this message", sender)


class Switch(Struct, frozen=True):
    """An operator's kill switch that is on."""

    scope: str
    by: str
    at: float
    reason: str = ""


class Known(Struct, frozen=True):
    """The request was taken before, at ``position``; its first receipt is its answer."""

    position: int


Verdict = tuple[Event, ...] | Known

STOPS: Final = (e.PauseRequested, e.CancelRequested, e.Killed)
"""Never refused for being decided on an older state: a stop is right whatever has changed."""

MOVES: Final = (e.RunCreated, e.ResumeRequested)
"""The requests that an operator's switch forbids. It forbids a claim, too: see ``facts.claim``."""

WITHDRAWN: Final = "withdrawn"
"""The first word of the reason why a question that needs no answer any more was closed."""

HANDED_OVER: Final = "human"
"""The kind of question with which a run gives itself to a person."""

ASKED: Final = "ask"
"""The kind of question that a function asks for information, and can do without."""

NEVER_BEGUN: Final = "never-begun"
"""Stands as the driver of a run that is cancelled before anybody has driven it."""

OPERATOR_ONLY: Final = (e.Killed, e.Recovered)

REACHING: Final = (e.PauseRequested, e.ResumeRequested, e.CancelRequested)
REACHES: Final = ("tree", "this")
"""The reaches of a verb: the run and all runs below it, or the run alone."""

ASKED_MAX: Final = 16 * 1024 * 1024
"""Bytes of requests that one journal takes: an edit of a message is stored beside what it edits."""

SMALL: Final = 4 * 1024
"""Bytes of a request that is taken also where a journal is full."""

ASIDE: Final = ".aside"
"""The ending of the name of an agent that answers side questions for another agent."""


def scopes(agent: str, thread: str) -> tuple[str, ...]:
    """Return the kill switches that cover a run; an agent's switch also covers its side answers."""
    aside = (f"agent:{agent.removesuffix(ASIDE)}",) if agent.endswith(ASIDE) else ()
    return ("all", f"agent:{agent}", *aside, f"thread:{thread}")


def decide(
    state: State,
    request: Request,
    *,
    expect: int | None = None,
    switches: Iterable[Switch] = (),
    thread: t.ThreadState | None = None,
    read_at_once: bool = False,
) -> Verdict:
    """Answer one request of a person, a front door or another run.

    A resume that is given the run's ``thread`` also tells what was written there meanwhile. A
    message that is ``read_at_once`` is taken however many are unread.
    """
    _may(request)
    if isinstance(request, REACHING):
        check_reach(request.scope)
    if (known := _known(state, request)) is not None:
        return known
    _check_room(state, request)  # layer journal-takes-bounded-amount
    if isinstance(request, MOVES) or getattr(request, "resume", False):  # layer switch-read
        refuse_if_stopped(switches)
    if isinstance(state, RunState):
        if expect is not None and state.relevant > expect and not isinstance(request, STOPS):
            raise Outdated(state.journal, expect, state.relevant)
        verdict = _decide_run(state, request, thread)
    else:
        check_request(state, request, read_at_once=read_at_once)
        verdict = (request,)
    if not isinstance(verdict, Known):
        _check(state, verdict[0])
    return verdict


def _check(state: State, event: Event) -> None:
    try:
        check(state, event)
    except IllegalEvent as illegal:  # a press that came too late, not a driver with a bug
        told = f"{illegal.journal}: {illegal.why}. Nothing was changed."
        raise InvalidRequest(told) from illegal


def _may(request: Request) -> None:
    role, needs = request.who.role, Role.CONTROLLER
    if isinstance(request, OPERATOR_ONLY):
        needs = Role.OPERATOR
    if role not in {needs, Role.OPERATOR} and not isinstance(request, t.SPEAKING):
        raise NotAllowed(request.who.by, role, signal(request), f"the role {needs}")


def require_operator(who: Actor, what: str) -> None:
    """The kill switch is an operator's, whichever door they come through."""
    if who.role is not Role.OPERATOR:  # layer kill-switch-operator
        raise NotAllowed(who.by, who.role, what, f"the role {Role.OPERATOR}")


def check_reach(scope: str) -> None:
    """Refuse an unknown reach: what was meant for a tree would otherwise be done to one run."""
    if scope not in REACHES:  # layer reach-none-refused-and-not-taken
        raise InvalidRequest(
            f"scope {scope!r} is unknown; use one of {', '.join(REACHES)}. Nothing was changed."
        )


def _known(state: State, request: Request) -> Known | None:
    taken = state.keys.get(key_of(request)) if request.key else None
    if taken is None:
        return None
    position, digest = taken
    if digest != body_digest(request):
        raise KeyReused(state.journal, request.key, position)
    return Known(position)


def _check_room(state: State, request: Request) -> None:
    """Refuse a large request where a journal holds enough of them; stops and answers are small."""
    size = size_of(request)
    if size > SMALL and state.asked + size > ASKED_MAX:
        raise InvalidRequest(
            f"this request was not stored: people have written {state.asked:,} bytes to "
            f"{state.journal}, which takes at most {ASKED_MAX:,}. It still takes requests of up "
            f"to {SMALL:,} bytes; for longer ones, go on in a new thread or run."
        )


def refuse_if_stopped(switches: Iterable[Switch]) -> None:
    """Raise ScopeStopped if an operator's switch is on."""
    for switch in switches:
        raise ScopeStopped(switch.scope, switch.by)


def _decide_run(state: RunState, request: Request, thread: t.ThreadState | None) -> Verdict:
    match request:
        case e.ResumeRequested():
            _resumable(state, request)
            return (msgspec.structs.replace(request, diff=meanwhile(state, thread)),)
        case e.RedirectRequested():
            return _redirect(state, request)
        case e.CancelRequested():
            if state.phase is Phase.CANCELLING and (state.cancel_now or not request.now):
                return Known(state.cancel_at)
            asked = msgspec.structs.replace(request, in_flight=tuple(state.open))
            begun = state.entered or not state.never_begun
            return (asked,) if begun else (asked, *_end_at_once(state))  # layer run-never-began
        case e.QuestionAnswered():
            _answerable(state, request)
        case e.RunCreated():
            validate(request.limits)
        case e.LimitsRaised():
            return _raised(state, request)
        case e.UndoRequested():
            _undoable(state, request)
        case e.TakenOver() | e.HandedBack():
            return _human(state, request)
        case _:
            pass
    return (request,)


def _end_at_once(state: RunState) -> tuple[Event, ...]:
    """Cancel a run that never began: there is nothing to abort, undo or save, so it is over."""
    epoch = state.epoch + 1
    return (
        e.DriverClaimed(epoch=epoch, driver=NEVER_BEGUN),
        e.RunFinished(epoch=epoch, outcome="cancelled"),
        e.DriverReleased(epoch=epoch, why="it was never begun"),
    )


def _resumable(state: RunState, request: e.ResumeRequested) -> None:
    if state.phase in {Phase.PAUSING, Phase.PAUSED} and Cause.USER not in state.holds:
        causes = ", ".join(sorted(state.holds))
        raise InvalidRequest(
            f"run {state.journal} was not paused by a person; it is held for another reason "
            f"({causes}), which resume does not lift. The run was not changed."
        )


def meanwhile(state: RunState, thread: t.ThreadState | None = None) -> str:
    """The one line that says what a person has changed since they held the run."""
    if state.held_since is None:
        return ""
    brief, limits = state.held_since
    wanted = state.redirect[0] if state.redirect else state.brief
    unread = thread.unread.values() if thread is not None else ()
    return changed_meanwhile(
        (brief, wanted),
        (limits, state.limits),
        answers=state.answers,
        messages=sum(message.at >= state.held_at for message in unread),
    )


def _raised(state: RunState, request: e.LimitsRaised) -> Verdict:
    """Caps that are not named stay, unless all of them are to go."""
    validate(request.limits)
    named = request.limits != NO_CAPS
    if named == request.no_caps:  # layer all-caps-go-only-where-said
        why = "it names caps and takes all away" if named else "it names no cap"
        raise InvalidRequest(
            f"the caps of run {state.journal} cannot be raised by this request, because {why}; "
            "name those that change, or say no_caps to take all of them away. The run was not "
            "changed."
        )
    kept = NO_CAPS if request.no_caps else state.limits
    asked = (q.position for q in state.questions.values() if q.kind == "cap")
    closed = (e.QuestionClosed(question=question, why="raised") for question in asked)
    return (msgspec.structs.replace(request, kept=kept), *closed)


def _redirect(state: RunState, request: e.RedirectRequested) -> Verdict:
    if not request.text.strip():
        raise InvalidRequest(
            f"a redirect of run {state.journal} needs a text. The run was not changed."
        )
    if not state.waiting:
        return (request,)
    closed = (e.QuestionClosed(question=q, why=f"{WITHDRAWN}: redirected") for q in state.questions)
    return (request, *closed)


def _human(state: RunState, request: e.TakenOver | e.HandedBack) -> Verdict:
    """A person takes the run over, or gives it back with an answer to why it was theirs."""
    asked = [question for question in state.questions.values() if question.kind == HANDED_OVER]
    named = {name for question in asked for name in question.answerers}
    if named and not _may_answer(request.who, named):
        needs = " or ".join(sorted(named))
        raise NotAllowed(request.who.by, request.who.role, signal(request), needs)
    if isinstance(request, e.HandedBack):
        note = msgspec.Raw(msgspec.json.encode(request.note))
        answers = (
            e.QuestionAnswered(who=request.who, question=question.position, payload=note)
            for question in asked
        )
        return (request, *answers)
    if state.human and state.human != request.who.by:
        raise InvalidRequest(
            f"{state.human} has taken run {state.journal} over already. The run was not changed."
        )
    return (request,)


def _answerable(state: RunState, request: e.QuestionAnswered) -> None:
    question = state.questions.get(request.question)
    if question is None and request.question in state.answered:
        raise InvalidRequest(
            f"question {request.question} of run {state.journal} was answered by "
            f"{state.answered[request.question]}. The run was not changed."
        )
    instead = {
        "cap": "is held at a cap: raise the cap",
        HANDED_OVER: "is in a person's hands: hand it back",
    }
    if question is not None and question.kind in instead:
        raise InvalidRequest(
            f"question {request.question} takes no answer, because run {state.journal} "
            f"{instead[question.kind]} instead. The run was not changed."
        )
    if question is not None and request.declined and question.kind != ASKED:
        raise InvalidRequest(
            f"question {request.question} of run {state.journal} cannot be declined, because the "
            "run needs a decision: answer the question. The run was not changed."
        )
    named = question.answerers if question is not None else ()
    if named and not _may_answer(request.who, named):
        needs = " or ".join(named)
        raise NotAllowed(request.who.by, request.who.role, "this answer", needs)


def _may_answer(who: Actor, answerers: Iterable[str]) -> bool:
    """Return whether the answerers name this person, or a role that theirs includes.

    An operator may do what a viewer may. The name of a role is never taken for the name of a
    person: a person who calls themselves ``operator`` gains no right by it.
    """
    roles = [Role(name) for name in answerers if name in set(Role)]
    people = set(answerers) - set(Role)
    return who.by in people or any(rank(who.role) >= rank(role) for role in roles)


def _undoable(state: RunState, request: e.UndoRequested) -> None:
    able = state.can_undo
    wrong = [p for p in request.effects if p not in able]
    if state.phase in ENDS and (wrong or not able):
        what = f"effects {wrong} cannot" if wrong else "nothing can"
        raise InvalidRequest(f"{what} be undone in run {state.journal}. The run was not changed.")
