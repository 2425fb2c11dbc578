"""Messages that people write: sent, corrected, overruled.

Each is one transaction with what follows from it: a message and the run that it starts, a stop word
and the pause, “never mind, do that instead” and the redirect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Unpack

from msgspec.structs import replace

from midflight.conversation import new_course, stop_word
from midflight.errors import JournalNotFound
from midflight.kernel import events as e
from midflight.kernel import front
from midflight.kernel import thread as t
from midflight.kernel.machine import TRANSITIONS
from midflight.kernel.phases import LIVE, Cause
from midflight.kernel.preview import preview
from midflight.kernel.record import Actor
from midflight.kernel.state import RunState
from midflight.kernel.status import answer
from midflight.runtime.threads.succession import finder
from midflight.stores.codec import check_readable
from midflight.stores.protocol import RUN_PREFIX, THREAD_PREFIX, Query, View
from midflight.verbs.auditing import audited
from midflight.verbs.covering import Ack, below, cover
from midflight.verbs.driven import is_alone
from midflight.verbs.overruling import Overruling
from midflight.verbs.telling import By, Telling, bring_along
from midflight.verbs.transcript import Line, lines_of

REDIRECTED: Final = "redirected"
BROUGHT_ABOUT: Final = {"": "started", "pause": "paused", "redirect": REDIRECTED}
"""The choice on record for a message that has acted at once -> what it has brought about."""


class Messages(Telling):
    """The part of ``Control`` that is about what people write."""

    @audited("send")
    async def send(self, to: str, text: str, *, who: Actor | None = None, key: str = "") -> Ack:
        """Write a message into a thread, or into that of a run. When accepted it is stored.

        Where an agent converses and nothing is in front it starts the next run. Of somebody who may
        control, a stop word that is the whole message pauses at once, and never cancels by itself;
        “never mind, do that instead” redirects.
        """
        run = "" if to.startswith(THREAD_PREFIX) else to
        thread = (await self.store.row(run)).thread if run else to
        message = t.MessageSent(who=self._asks(who), key=key, text=text)
        check_readable(thread, message)
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
        """List the runs of a thread that live; children are left out whose parents live too."""
        rows = await self.store.rows(Query(thread=thread, phases=LIVE))
        alive = {row.journal for row in rows}
        return [row.journal for row in rows if row.parent not in alive]

    async def _answer(self, run: str, *, hosted: bool, heard: bool = False) -> str:
        try:
            state = await self.store.load(run) if run else None
        except JournalNotFound:  # it has ended long ago, and was purged
            return ""
        if not isinstance(state, RunState):
            return ""
        alone = await is_alone(self.store, state)
        return answer(state, await self.store.now(), hosted=hosted, heard=heard, alone=alone)

    @audited("edit")
    async def edit_message(self, thread: str, message: int, text: str, **by: Unpack[By]) -> Ack:
        """Give a message that nobody has read yet another text. Its sender only."""
        return await self._tell(
            thread, "edit", self._by(t.MessageEdited, message=message, text=text, **by)
        )

    @audited("withdraw")
    async def withdraw_message(self, thread: str, message: int, **by: Unpack[By]) -> Ack:
        """Take a message back that nobody has read yet. Its sender only."""
        return await self._tell(
            thread, "withdraw", self._by(t.MessageWithdrawn, message=message, **by)
        )

    @audited("overrule")
    async def overrule(self, thread: str, message: int, choice: str, **by: Unpack[By]) -> Ack:
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

    @audited("heard")
    async def heard(
        self, thread: str, text: str, *, run: str, of: int = 0, how: str = "", **by: Unpack[By]
    ) -> Ack:
        """Note how much of what ``run`` has said a listener heard before cutting it short.

        ``of`` is the place of the words in the thread; 0 if the run was still speaking. From here
        on the conversation holds what was heard, for people and for models. ``how="hung up"``: the
        run speaks on, without them; its words are marked when they come. Of several listeners
        the one counts who has heard the most; ``how="whole"``: they have heard it to its end.
        """
        try:
            state = await self.store.load(run)
        except JournalNotFound:
            untrusted = True  # nobody can tell what it had read
        else:
            untrusted = isinstance(state, RunState) and state.untrusted
        said = self._by(
            t.SpeechHeard, text=text, run=run, of=of, how=how, untrusted=untrusted, **by
        )
        return await self._tell(thread, "heard", said)

    async def transcript(self, thread: str) -> list[Line]:
        """All that was said and chosen in a thread, in order."""
        found: list[Any] = []
        while page := await self.store.read(thread, after=len(found)):
            found += page
        return lines_of(found)


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
        return {"status": f"stopped by operator {switch.by}, your message is kept"}
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
        told = t.Said(run=target, text=f"Paused. {asks}", kind="cancel?", untrusted=read)
        moves.add(talk.journal, told)
    return {"did": "paused", "target": target, "in_flight": tuple(flying), "status": asks}
