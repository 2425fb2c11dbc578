"""The verbs over a thread: write, correct, overrule, put todos in order, ask aside.

Each is one transaction with what follows from it: a message and the run that it starts, a stop word
and the pause, “never mind, do that instead” and the redirect, a todo and the run that is cancelled
with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from midflight.conversation import new_course, stop_word
from midflight.engines.base import Engine
from midflight.errors import InvalidRequest, JournalNotFound
from midflight.executor.front import begun_in, drafted, finder, thread_of, transact
from midflight.executor.talk import spoken
from midflight.inputs import Ids
from midflight.kernel import events as e
from midflight.kernel import front
from midflight.kernel import thread as t
from midflight.kernel.decide import ASIDE, Known, decide, refuse_if_stopped
from midflight.kernel.machine import TRANSITIONS
from midflight.kernel.phases import ENDS, Cause, Phase
from midflight.kernel.preview import preview
from midflight.kernel.record import Request, Who
from midflight.kernel.state import RunState
from midflight.kernel.status import answer, status
from midflight.overruling import Overruling
from midflight.stores.base import (
    RUN_PREFIX,
    THREAD_PREFIX,
    Draft,
    Query,
    Store,
    View,
)
from midflight.transcript import Line, lines_of
from midflight.verbs import Accepted, cover

LIVE: Final = tuple(phase for phase in Phase if phase not in ENDS)
REDIRECTED: Final = "redirected"
BROUGHT_ABOUT: Final = {"": "started", "pause": "paused", "redirect": REDIRECTED}
"""By what is on record as the choice about a message that has acted at once."""
TAIL: Final = 20  # lines of the conversation that a side question is answered from

Then = Callable[[View, t.ThreadState, front.Moves], dict[str, Any]]
"""What follows from a request, in the same transaction; gives what its receipt says of that."""


class TodoOffer(Struct, frozen=True):
    """A todo, and what would happen if it were done now, or removed."""

    todo: int
    kind: str
    text: str
    note: str
    run: str
    message: int
    now: str = ""
    remove: str = ""


class Talks:
    """The part of ``Control`` that is about threads."""

    store: Store
    _engine: Engine
    _who: Who
    _ids: Ids

    # ── messages ─────────────────────────────────────────────────────────────────────────────

    async def send(self, to: str, text: str, *, who: Who | None = None, key: str = "") -> Accepted:
        """Write a message into a thread, or into that of a run. When accepted it is stored.

        Where an agent converses and nothing is in front it starts the next run. Of somebody who may
        control, a stop word that is the whole message pauses at once, and never cancels by itself;
        “never mind, do that instead” redirects.
        """
        run = "" if to.startswith(THREAD_PREFIX) else to
        thread = (await self.store.row(run)).thread if run else to
        message = t.MessageSent(who=who or self._who, key=key, text=text)
        steers = message.who.role.steers
        word, course = (stop_word(text), new_course(text)) if steers else ("", "")
        live = await self._live(thread) if word else []
        new, seen = RUN_PREFIX + self._ids(), {}

        def then(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
            seen[thread] = talk
            sent = t.Message(talk.head + 1, text, message.who, at=view.now)
            if word:
                return _stopped(view, talk, moves, sent, word, [run or talk.front, *live])
            turned = _redirected(view, talk, moves, sent, course, run or talk.front)
            return turned or _started(view, talk, moves, sent, new)

        accepted = await self._tell(thread, "send", message, then, read_at_once=bool(word))
        talk = seen.get(thread) or await self._thread(thread)
        if not seen:  # it was sent before
            accepted = replace(accepted, **_brought_about(talk, accepted.position))
        hosted, reads = talk.host is not None, accepted.target or run or await self._front(talk)
        if hosted and talk.front and not accepted.did:
            await self._engine.ensure(talk.front)  # it may have been evicted while it waits
        heard = bool(word) or accepted.did == REDIRECTED
        said = await self._answer(reads, hosted=hosted, heard=heard)
        return replace(accepted, status="; ".join(filter(None, [said, accepted.status])))

    async def _live(self, thread: str) -> list[str]:
        """What lives there; children whose parents live are covered by those."""
        rows = await self.store.rows(Query(thread=thread, phases=LIVE))
        alive = {row.journal for row in rows}
        return [row.journal for row in rows if row.parent not in alive]

    async def _front(self, talk: t.ThreadState) -> str:
        """The run that a thread is about; the newest that nobody has spawned, if none is named."""
        if talk.front:
            return talk.front
        runs = await self.store.rows(Query(thread=talk.journal))
        return next((row.journal for row in runs if not row.parent), "")

    async def _answer(self, run: str, *, hosted: bool, heard: bool = False) -> str:
        try:
            state = await self.store.load(run) if run else None
        except JournalNotFound:  # it has ended long ago, and was purged
            return ""
        if not isinstance(state, RunState):
            return ""
        return answer(state, await self.store.now(), hosted=hosted, heard=heard)

    async def edit_message(self, thread: str, message: int, text: str, **by: Any) -> Accepted:
        """Give a message that nobody has read yet another text. Its sender only."""
        return await self._tell(
            thread, "edit", self._by(t.MessageEdited, message=message, text=text, **by)
        )

    async def withdraw_message(self, thread: str, message: int, **by: Any) -> Accepted:
        """Take a message back that nobody has read yet. Its sender only."""
        return await self._tell(
            thread, "withdraw", self._by(t.MessageWithdrawn, message=message, **by)
        )

    async def overrule(self, thread: str, message: int, choice: str, **by: Any) -> Accepted:
        """Want something else done about a message than was chosen.

        ``incorporate``: into the work in front. ``switch``: do it now, and park what is in front.
        ``defer``: keep it as a todo. ``back``: go back now to what was parked for it. ``undo``: the
        run that has read it goes back to its brief.
        """
        request = self._by(t.ChoiceOverruled, message=message, choice=choice, **by)
        new = RUN_PREFIX + self._ids()

        def then(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
            overruling = Overruling(view, talk, moves, who=request.who, new=new)
            return {"status": overruling.overrule(request)}

        return await self._tell(thread, "overrule", request, then)

    async def heard(self, thread: str, text: str, *, run: str, of: int = 0, **by: Any) -> Accepted:
        """Note how much a listener has heard of what ``run`` has said, who cut it short.

        ``of`` is the place of the words in the thread; 0 if the run was still speaking. From here
        on the conversation holds what was heard, for people and for models.
        """
        return await self._tell(
            thread, "heard", self._by(t.SpeechHeard, text=text, run=run, of=of, **by)
        )

    # ── todos ────────────────────────────────────────────────────────────────────────────────

    async def todos(self, thread: str) -> list[t.Todo]:
        """What is still to be done in a thread, in the order in which it will be."""
        return (await self._thread(thread)).next_todos

    async def preview_todos(self, thread: str) -> list[TodoOffer]:
        """The same, with what it would mean now to do each at once or to remove it."""
        talk = await self._thread(thread)
        found = []
        for todo in talk.next_todos:
            now = "Does it now; what is in front is parked and comes back"
            remove = "It will not be done"
            if todo.kind == "parked":
                now = "Comes back now; what is in front is parked in its turn"
                remove = await self._cost_of_removing(todo)
            about = (todo.kind, todo.text, todo.note, todo.run, todo.message)
            found.append(TodoOffer(todo.position, *about, now=now, remove=remove))
        return found

    async def _cost_of_removing(self, todo: t.Todo) -> str:
        state = await self.store.load(todo.run)
        assert isinstance(state, RunState)
        offer = preview(state)["cancel"]
        return f"Cancels that run: {offer.consequence}" if offer.enabled else "Its run has ended"

    async def do_now(self, thread: str, todo: int, **by: Any) -> Accepted:
        """Take a todo now: a parked run comes back, a deferred message is done."""
        request = self._by(t.TodoWanted, todo=todo, **by)
        new = RUN_PREFIX + self._ids()

        def then(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
            taken = talk.todos[todo]
            overruling = Overruling(view, talk, moves, who=request.who, new=new)
            done = overruling.do_now(taken)
            return {"status": done, "target": taken.run or new}

        return await self._tell(thread, "do now", request, then)

    async def reorder(self, thread: str, order: Sequence[int], **by: Any) -> Accepted:
        """Put todos in the person's order; what is left out follows in the usual one."""
        return await self._tell(
            thread, "reorder", self._by(t.TodosReordered, order=tuple(order), **by)
        )

    async def remove_todo(self, thread: str, todo: int, **by: Any) -> Accepted:
        """Do not want it any more. A parked run is cancelled with its todo, and undone."""
        request = self._by(t.TodoRemoved, todo=todo, **by)

        def then(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
            removed = talk.todos[todo]
            if removed.kind != "parked" or not front.is_parked(removed, finder(view)):
                return {}
            draft = cover(view, removed.run, "cancel", e.CancelRequested(who=request.who))
            _add(moves, draft)
            return {"did": "cancelled", "target": removed.run, "in_flight": draft.note.in_flight}

        return await self._tell(thread, "remove todo", request, then)

    # ── looking and asking ───────────────────────────────────────────────────────────────────

    async def transcript(self, thread: str) -> list[Line]:
        """All that was said and chosen in a thread, in order."""
        found: list[Any] = []
        while page := await self.store.read(thread, after=len(found)):
            found += page
        return lines_of(found)

    async def ask_aside(
        self, to: str, text: str, *, who: Who | None = None, key: str = ""
    ) -> Accepted:
        """Ask something about a run without touching it, also while it is paused.

        Answered in the thread: by a run of the agent's ``aside``, or at once with how it stands.
        """
        about = to if not to.startswith(THREAD_PREFIX) else ""
        about = about or await self._front(await self._thread(to))
        if not about:
            raise InvalidRequest(f"no run was ever started in {to}. Nothing was changed.")
        state = await self.store.load(about)
        assert isinstance(state, RunState)
        asked = t.AsideAsked(who=who or self._who, key=key, text=text, run=about)
        stands = status(state, await self.store.now())
        talk = await self._thread(state.thread)
        hosts = talk.host is not None and front.is_host(talk, state) and talk.host.asides
        if not ((state.asides or hosts) and asked.who.role.steers):

            def answered(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
                moves.add(talk.journal, t.Said(run=about, text=stands, kind="aside"))
                return {"status": stands}

            return await self._tell(state.thread, "ask aside", asked, answered)
        return await self._begin_aside(state, asked, stands)

    async def _begin_aside(self, about: RunState, asked: t.AsideAsked, stands: str) -> Accepted:
        new, agent, thread = RUN_PREFIX + self._ids(), f"{about.agent}{ASIDE}", about.thread
        said = await spoken(self.store, thread, (await self.store.row(thread)).head, TAIL)
        given = {
            "status": stands,
            "brief": about.brief,
            "plan": about.plan,
            "transcript": said,
        }

        def then(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
            host = talk.host
            created = e.RunCreated(
                who=asked.who,
                agent=agent,
                thread=thread,
                brief=asked.text,
                input=Raw(msgspec.json.encode(given)),
                mode=about.mode,
                limits=host.limits if host and host.agent == about.agent else about.limits,
                aside_of=about.journal,
                thread_at=talk.head,
            )
            refuse_if_stopped(view.switches)
            moves.add(new, created)
            return {"status": stands, "did": "started", "target": new}

        return await self._tell(thread, "ask aside", asked, then, agent=about.agent)

    # ── their common part ────────────────────────────────────────────────────────────────────

    def _by(self, kind: Callable[..., Any], *, who: Who | None = None, **asked: Any) -> Any:
        return kind(who=who or self._who, **asked)

    async def _thread(self, thread: str) -> t.ThreadState:
        talk = await self.store.load(thread)
        if not isinstance(talk, t.ThreadState):
            raise JournalNotFound(thread)
        return talk

    async def _tell(
        self,
        thread: str,
        verb: str,
        request: Request,
        then: Then | None = None,
        *,
        agent: str = "",
        read_at_once: bool = False,
    ) -> Accepted:
        """Record a request over a thread, with what follows from it."""

        def decided(covered: str, view: View) -> Draft:
            talk = thread_of(view, thread)
            verdict = decide(talk, request, read_at_once=read_at_once)
            if isinstance(verdict, Known):
                return Draft(note=Accepted(thread, verb, verdict.position))
            moves = front.Moves()
            moves.add(thread, *verdict)
            told = then(view, talk, moves) if then is not None else {}
            accepted = Accepted(thread, verb, talk.head + 1, **told)
            return drafted(view, moves, covered=covered, note=accepted)

        if not thread.startswith(THREAD_PREFIX):
            raise JournalNotFound(thread)
        done = await transact(
            self.store.submit, self._ids, (thread,), decided, thread=thread, agent=agent
        )
        for run in begun_in(done):
            await self._engine.ensure(run)
        accepted: Accepted = done.note
        return accepted


def _add(moves: front.Moves, draft: Draft) -> None:
    for journal, events in draft.events.items():
        moves.add(journal, *events)


def _brought_about(talk: t.ThreadState, message: int) -> dict[str, Any]:
    """What a message had brought about at once when it was sent."""
    read = talk.read.get(message)
    if read is None or not read.run or read.choice not in BROUGHT_ABOUT:
        return {}
    return {"did": BROUGHT_ABOUT[read.choice], "target": read.run}


def _started(
    view: View, talk: t.ThreadState, moves: front.Moves, sent: t.Message, new: str
) -> dict[str, Any]:
    """Where an agent converses and nothing is in front, a message begins its next run."""
    if talk.host is None or not sent.who.role.steers or not front.is_free(talk, finder(view)):
        return {}
    for switch in view.switches:
        return {"status": f"stopped by operator {switch.by}, your message is kept"}
    messages = [*front.left_messages(talk, finder(view)), sent]
    front.begin(moves, talk, finder(view), new=new, messages=messages)
    front.take(moves, talk, new, messages)
    return {"did": "started", "target": new}


def _redirected(
    view: View, talk: t.ThreadState, moves: front.Moves, sent: t.Message, course: str, run: str
) -> dict[str, Any]:
    """The run that was spoken to is redirected. One that takes none now has a message like others.

    As every redirect it does not resume: what a person holds goes that way when they let it go on.
    """
    state = finder(view)(run) if course and run else None
    if state is None or e.RedirectRequested not in TRANSITIONS[state.phase]:
        return {}
    if Cause.PARKED in state.holds or view.switches:
        return {}
    draft = cover(view, run, "redirect", e.RedirectRequested(who=sent.who, text=course))
    _add(moves, draft)
    moves.add(
        talk.journal,
        t.MessageTriaged(message=sent.position, choice="redirect", run=run, why="its own words"),
        e.MessagesTaken(run=run, upto=sent.position, messages=(sent.position,)),
    )
    then = "taken when you resume" if Cause.USER in state.holds else ""
    return {
        "did": REDIRECTED,
        "target": run,
        "in_flight": draft.note.in_flight,
        "status": "; ".join(filter(None, [f"redirected to: {front.short(course)}", then])),
    }


def _stopped(
    view: View,
    talk: t.ThreadState,
    moves: front.Moves,
    sent: t.Message,
    word: str,
    runs: Sequence[str],
) -> dict[str, Any]:
    """Pause what is in front, or all that is at work if nothing is; it costs nothing."""
    there = [state for state in map(finder(view), dict.fromkeys(filter(None, runs))) if state]
    working = [state for state in there if state.alive and Cause.PARKED not in state.holds]
    working = [s for s in working if e.PauseRequested in TRANSITIONS[s.phase] and not s.aside_of]
    if working and working[0].journal in {talk.front, runs[0]}:
        working = working[:1]
    flying: list[str] = []
    for state in working:
        if Cause.USER not in state.holds:
            draft = cover(view, state.journal, "pause", e.PauseRequested(who=sent.who))
            _add(moves, draft)
            flying += draft.note.in_flight
    target = working[0].journal if working else ""
    taken = (sent.position,)
    moves.add(
        talk.journal,
        t.MessageTriaged(message=sent.position, choice="pause", run=target, why="a stop word"),
        e.MessagesTaken(run=target, upto=sent.position, messages=taken),
    )
    if not working:
        return {"status": "nothing is at work here"}
    offers = [preview(state)["cancel"].consequence for state in working]
    asks = f"Cancel? {'; '.join(offers)}." if word == "cancel?" else ""
    if asks:
        moves.add(talk.journal, t.Said(run=target, text=f"Paused. {asks}", kind="cancel?"))
    return {"did": "paused", "target": target, "in_flight": tuple(flying), "status": asks}
