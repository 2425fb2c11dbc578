"""Messages that people write: sent, corrected, overruled.

Each is one transaction with what follows from it: a message and the run that it starts, a stop word
and the pause, “never mind, do that instead” and the redirect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from midflight.control.ack import Ack
from midflight.control.recorder import Recorder, below, bring_along, cover
from midflight.control.todos import Overruling
from midflight.conversation import new_course, stop_word
from midflight.engines.sweep import is_alone
from midflight.errors import JournalNotFound
from midflight.journal import events as e
from midflight.journal.phases import LIVE, Cause
from midflight.journal.preview import preview
from midflight.journal.record import Actor, Request
from midflight.journal.state import RunState
from midflight.journal.status import doing, read_by, status
from midflight.journal.threads import front
from midflight.journal.threads import thread as t
from midflight.journal.transition_table import TRANSITIONS
from midflight.runtime.threads.succession import finder
from midflight.stores.codec import check_readable
from midflight.stores.protocol import THREAD_PREFIX, Query, View

REDIRECTED: Final = "redirected"
BROUGHT_ABOUT: Final = {"": "started", "pause": "paused", "redirect": REDIRECTED}
"""The choice on record for a message that has acted at once -> what it has brought about."""


class Messages:
    """Does the verbs about what people write."""

    def __init__(self, record: Recorder) -> None:
        self.record = record

    async def send(self, to: str, text: str, *, who: Actor, key: str) -> Ack:
        """Store a message, with the run that it starts, the pause or the redirect that it is."""
        run = "" if to.startswith(THREAD_PREFIX) else to
        thread = (await self.record.store.row(run)).thread if run else to
        message = t.MessageSent(who=who, key=key, text=text)
        check_readable(thread, message)
        steers = message.who.role.steers
        # layer only-may-steer-redirects
        word, course = (stop_word(text), new_course(text)) if steers else ("", "")
        live = await self._live(thread) if word else []
        new, seen = self.record.new_run(), {}

        def then(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
            seen[thread] = talk
            sent = t.Message(talk.head + 1, text, message.who, at=view.now)
            if word:
                return _stopped(view, talk, moves, sent, word, [run or talk.front, *live])
            turned = _redirected(view, talk, moves, sent, course, run or talk.front)
            return turned or _started(view, talk, moves, sent, new)

        accepted = await self.record.tell(thread, "send", message, then, read_at_once=bool(word))
        talk = seen.get(thread) or await self.record.thread(thread)
        if not seen:  # it was sent before
            accepted = replace(accepted, **_brought_about(talk, accepted.position))
        hosted, reads = (
            talk.host is not None,
            accepted.target or run or await self.record.front(talk),
        )
        if hosted and talk.front and not accepted.did:
            await self.record.engine.ensure(talk.front)  # it may have been evicted while it waits
        heard = bool(word) or accepted.did == REDIRECTED
        stands = await self._stands(reads, hosted=hosted, heard=heard)
        note = "; ".join(filter(None, [stands.pop("note", ""), accepted.status]))
        line = "; ".join(filter(None, [stands.pop("status", ""), note]))
        return replace(accepted, status=line, note=note, **stands)

    async def _live(self, thread: str) -> list[str]:
        """List the runs of a thread that live; children are left out whose parents live too."""
        rows = await self.record.store.rows(Query(thread=thread, phases=LIVE))
        alive = {row.journal for row in rows}
        return [row.journal for row in rows if row.parent not in alive]

    async def _stands(self, run: str, *, hosted: bool, heard: bool = False) -> dict[str, str]:
        """Return the fields of an acknowledgement that tell how the run stands."""
        try:
            state = await self.record.store.load(run) if run else None
        except JournalNotFound:  # it has ended long ago, and was purged
            return {}
        if not isinstance(state, RunState):
            return {}
        alone = await is_alone(self.record.store, state)
        now = await self.record.store.now()
        return {
            "status": status(state, now, alone=alone),
            "note": read_by(state, hosted=hosted, heard=heard),
            "phase": state.phase,
            "doing": doing(state, now, alone=alone),
        }

    def telling(self, verb: str, kind: type[Request]) -> Callable[..., Awaitable[Ack]]:
        """Return the handler of a verb over a thread that is one request and nothing else."""

        async def tell(thread: str, **fields: Any) -> Ack:
            return await self.record.tell(thread, verb, kind(**fields))

        return tell

    async def overrule(
        self, thread: str, message: int, choice: str, *, who: Actor, key: str
    ) -> Ack:
        """Have something else done about a message than was chosen."""
        request = t.ChoiceOverruled(who=who, key=key, message=message, choice=choice)
        new = self.record.new_run()

        def then(view: View, talk: t.ThreadState, moves: front.Moves) -> dict[str, Any]:
            overruling = Overruling(view, talk, moves, who=request.who, new=new)
            return {"status": overruling.overrule(request)}

        return await self.record.tell(thread, "overrule", request, then)

    async def heard(
        self, thread: str, text: str, run: str, of: int, how: str, *, who: Actor, key: str
    ) -> Ack:
        """Note how much of what a run has said a listener heard."""
        try:
            state = await self.record.store.load(run)
        except JournalNotFound:
            untrusted = True  # nobody can tell what it had read
        else:
            untrusted = isinstance(state, RunState) and state.untrusted
        said = t.SpeechHeard(
            who=who, key=key, text=text, run=run, of=of, how=how, untrusted=untrusted
        )
        return await self.record.tell(thread, "heard", said)


def _brought_about(talk: t.ThreadState, message: int) -> dict[str, Any]:
    """Return the control that a message had brought about when it was sent, and its run."""
    read = talk.read.get(message)
    if read is None or not read.run or read.choice not in BROUGHT_ABOUT:
        return {}
    return {"did": BROUGHT_ABOUT[read.choice], "target": read.run}


def _started(
    view: View, talk: t.ThreadState, moves: front.Moves, sent: t.Message, new: str
) -> dict[str, Any]:
    """Begin a run for a message, where an agent converses and nothing is in front."""
    if talk.host is None or not sent.who.role.steers or not front.is_free(talk, finder(view)):
        return {}
    for switch in view.switches:
        kept = f"stopped by operator {switch.by}, your message is kept"
        return {"status": kept, "kept": kept}
    messages = [*front.left_messages(talk, finder(view)), sent]
    front.begin(moves, talk, finder(view), new=new, messages=messages)
    front.take(moves, talk, new, messages)
    return {"did": "started", "target": new}


def _redirected(
    view: View, talk: t.ThreadState, moves: front.Moves, sent: t.Message, course: str, run: str
) -> dict[str, Any]:
    """Redirect the run that was spoken to, if it takes a redirect now; else do nothing.

    It does not resume the run: one that a person holds takes the new course when they let it go on.
    """
    state = finder(view)(run) if course and run else None
    if state is None or e.RedirectRequested not in TRANSITIONS[state.phase]:
        return {}
    if Cause.PARKED in state.holds or view.switches:
        return {}
    draft = cover(view, run, "redirect", e.RedirectRequested(who=sent.who, text=course))
    bring_along(moves, draft)
    moves.add(
        talk.journal,
        t.MessageTriaged(message=sent.position, choice="redirect", run=run, why="its own words"),
        # layer message-has-redirected-not-read
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
    """Pause the run in front, or all runs at work if none is in front: a pause costs nothing."""
    there = [state for state in map(finder(view), dict.fromkeys(filter(None, runs))) if state]
    working = [state for state in there if state.alive and Cause.PARKED not in state.holds]
    working = [s for s in working if e.PauseRequested in TRANSITIONS[s.phase] and not s.aside_of]
    if working and working[0].journal in {talk.front, runs[0]}:
        working = working[:1]
    flying: list[str] = []
    for state in working:
        if Cause.USER not in state.holds:
            draft = cover(view, state.journal, "pause", e.PauseRequested(who=sent.who))
            bring_along(moves, draft)
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
    offers = [preview(s, below(s.journal, view))["cancel"].consequence for s in working]
    asks = f"Cancel? {'; '.join(offers)}." if word == "cancel?" else ""
    if asks:
        read = any(state.untrusted for state in working)  # nouns of effects that it has planned
        said = t.Said(run=target, text=f"Paused. {asks}", kind="cancel?", untrusted=read)
        moves.add(talk.journal, said)
    told = {"in_flight": tuple(flying), "status": asks, "asks": asks}
    return {"did": "paused", "target": target, **told}
