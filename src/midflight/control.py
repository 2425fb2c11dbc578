"""``Control``: all that a person, a front door or a program can do to runs.

A request is in the journal before it is acknowledged, with the actor who asked. The answer is an
``Ack``: the position of the request in the journal. From there it is applied or superseded,
which ``Control.applied`` waits for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Unpack, cast

import msgspec
from msgspec import Raw

from midflight.agents import Agent
from midflight.engines.base import Engine, NoEngine
from midflight.engines.crew import DRAIN_S
from midflight.engines.leaving import LEAVING
from midflight.engines.local import LocalEngine
from midflight.errors import InvalidRequest, JournalNotFound, NoResult, NoSuchRequest
from midflight.inputs import Ids, new_id
from midflight.kernel import events as e
from midflight.kernel.decide import Switch, check_reach
from midflight.kernel.fold import fold
from midflight.kernel.limits import NO_CAPS
from midflight.kernel.phases import Cause, Phase
from midflight.kernel.record import Actor, Limits, Request
from midflight.kernel.state import Delivery, RunState
from midflight.overriding import override
from midflight.runtime.threads.succession import look_after, transact, with_what_follows
from midflight.schemas import check_answer, check_switch, plain_data
from midflight.stores.codec import check_readable
from midflight.stores.factory import open_store
from midflight.stores.lookup import end_of, question_at, result_of, without_person
from midflight.stores.protocol import (
    PAGE,
    RUN_PREFIX,
    THREAD_PREFIX,
    Draft,
    Killing,
    LiveWatch,
    Row,
    Store,
    View,
    Watch,
)
from midflight.verbs import deliveries
from midflight.verbs.asides import Asides
from midflight.verbs.auditing import asked_for, audited, floods_of_callers, submitting, wrote_record
from midflight.verbs.covering import Ack, cover, offers, says
from midflight.verbs.driven import with_drivers
from midflight.verbs.looking import Looking, cursors_of, scope_of
from midflight.verbs.messages import Messages
from midflight.verbs.starting import Starting, Turn
from midflight.verbs.telling import TAKEN_OF_RUNS, By, RunBy, refuse_unknown
from midflight.verbs.todos import Todos

__all__ = ["LIBRARY", "Ack", "Control", "Turn", "local", "offers"]

LIBRARY: Final = Actor(by="library")


class Control(Starting, Messages, Todos, Asides, Looking):
    """Controls the runs in a store. It executes none: an engine does, such as ``local`` opens.

    Verbs take ``who=``, who asks, and ``key=``: the same request under the same key is done once.
    Those over a run also take ``expect=``, the position that the caller has seen: they are refused
    as ``Outdated`` if something that matters has changed since. A pause and a cancel never are.
    """

    store: Store

    def __init__(
        self, store: Store, engine: Engine | None = None, *, who: Actor = LIBRARY, ids: Ids = new_id
    ) -> None:
        self.store = store
        self._engine = engine or NoEngine()
        self._who = who
        self._ids = ids
        self._floods = floods_of_callers()

    # ── looking ──────────────────────────────────────────────────────────────────────────────

    @override
    async def _with_drivers(self, rows: list[Row]) -> list[Row]:
        return await with_drivers(self.store, rows)

    async def result(self, run: str, *, on_question: str = "wait") -> Any:
        """Wait for the end of a run and give what its agent function returned.

        Raises ``NoResult`` if it has failed, was cancelled or was killed. A run that asks a person
        is waited for until somebody has answered; with ``on_question="raise"`` it is
        ``NeedsPerson`` at once, which says what is asked and by which run: it may be a background
        run below this one. The run itself is not changed by that.
        """
        state = await without_person(self.until, self.store, run, on_question)
        if state.phase is not Phase.DONE:
            raise NoResult(run, state.phase, state.error)
        return msgspec.json.decode(await result_of(self.store, await end_of(self.store, state)))

    def watch(
        self, watched: str | Mapping[str, int], after: int = 0
    ) -> AbstractAsyncContextManager[Watch]:
        """Events of a run or a thread after a position, then new ones as they come.

        Several are watched at once if their ids are given, with a position for each. To stop
        watching changes nothing in the run.
        """
        return self.store.watch(cursors_of(watched, after))

    def watch_live(
        self, watched: str | Mapping[str, int], after: int = 0
    ) -> AbstractAsyncContextManager[LiveWatch]:
        """As ``watch``, with what steps say while they work.

        Who begins in the middle of a step first gets what it has said so far.
        """
        return self.store.watch_live(cursors_of(watched, after))

    async def applied(self, accepted: Ack) -> Delivery:
        """Wait until a verb was applied or superseded; a message until it was read or put off."""
        if accepted.run.startswith(THREAD_PREFIX):
            return await deliveries.settled(self.store, accepted.run, accepted.position)

        def settled(state: RunState) -> bool:
            if accepted.position not in state.deliveries:
                raise NoSuchRequest(accepted.run, accepted.position)
            return state.deliveries[accepted.position].status != "accepted"

        return (await self.until(accepted.run, settled)).deliveries[accepted.position]

    # ── the verbs ────────────────────────────────────────────────────────────────────────────

    @audited("pause")
    async def pause(self, run: str, *, scope: str = "tree", **by: Unpack[RunBy]) -> Ack:
        """Hold a run: nothing further starts, and what is in flight is ended or finishes.

        ``scope="tree"`` is the run with the background runs that it has begun, ``"this"`` it alone.
        """
        return await self._ask(
            run, "pause", lambda who, key: e.PauseRequested(who=who, key=key, scope=scope), **by
        )

    @audited("resume")
    async def resume(self, run: str, *, scope: str = "tree", **by: Unpack[RunBy]) -> Ack:
        """Let a run go on where it was, with ``scope="tree"`` also background runs that were held.

        A run that was parked for another comes back, and the other is parked in its turn.
        """
        check_reach(scope)
        row = await self.store.row(run)
        if row.kind == "thread":
            raise JournalNotFound(run)
        if await self._has_todos(row.thread) and (await self.state(run)).holds == {Cause.PARKED}:
            by.pop("expect", None)
            talk = await self._thread(row.thread)
            todo = next((x for x in talk.todos.values() if x.run == run), None)
            if todo is not None:
                return await self.do_now(talk.journal, todo.position, **cast(By, by))
        return await self._ask(
            run, "resume", lambda who, key: e.ResumeRequested(who=who, key=key, scope=scope), **by
        )

    async def _has_todos(self, thread: str) -> bool:
        """Looked up in the read model: a long run is not to be folded for each resume."""
        try:
            return (await self.store.row(thread)).open_questions > 0
        except JournalNotFound:
            return False

    @audited("redirect")
    async def redirect(
        self, run: str, text: str, *, profile: str = "", resume: bool = False, **by: Unpack[RunBy]
    ) -> Ack:
        """Change course: ``text`` is the new brief. Finished work is kept.

        ``profile`` names another way of working, if the agent has some. A run that a person holds
        stays held, unless ``resume=True``.
        """
        check_switch("resume", resume)
        return await self._ask(
            run,
            "redirect",
            lambda who, key: e.RedirectRequested(
                who=who, key=key, text=text, profile=profile, resume=resume
            ),
            **by,
        )

    @audited("cancel")
    async def cancel(
        self, run: str, *, now: bool = False, scope: str = "tree", **by: Unpack[RunBy]
    ) -> Ack:
        """Stop a run for good: abort, undo, save. The answer lists what is in flight.

        ``now=True`` skips the undoing. ``scope="this"`` leaves its background runs alone.
        """
        check_switch("now", now)
        return await self._ask(
            run,
            "cancel",
            lambda who, key: e.CancelRequested(who=who, key=key, now=now, scope=scope),
            **by,
        )

    @audited("answer")
    async def answer(self, run: str, question: int, payload: Any, **by: Unpack[RunBy]) -> Ack:
        """Answer an open question of the run, by its position. The first answer wins."""
        raw = Raw(plain_data("the answer", payload))
        is_open = question in (await self.state(run)).questions
        asked = await question_at(self.store, run, question) if is_open else None
        if asked is not None:  # a question that is not open is refused below
            await check_answer(msgspec.json.decode(raw), msgspec.json.decode(asked.schema))
        return await self._ask(
            run,
            "answer",
            lambda who, key: e.QuestionAnswered(who=who, key=key, question=question, payload=raw),
            **by,
        )

    @audited("decline")
    async def decline(self, run: str, question: int, **by: Unpack[RunBy]) -> Ack:
        """Leave an open question unanswered for good: the run goes on without an answer."""
        return await self._ask(
            run,
            "decline",
            lambda who, key: e.QuestionAnswered(who=who, key=key, question=question, declined=True),
            **by,
        )

    @audited("raise limits")
    async def raise_limits(
        self, run: str, limits: Limits = NO_CAPS, *, no_caps: bool = False, **by: Unpack[RunBy]
    ) -> Ack:
        """Set new caps; a run that is held at a cap goes on.

        Caps that are not named stay as they are. ``no_caps=True`` takes all of them away.
        """
        check_switch("no_caps", no_caps)
        return await self._ask(
            run,
            "raise limits",
            lambda who, key: e.LimitsRaised(who=who, key=key, limits=limits, no_caps=no_caps),
            **by,
        )

    @audited("take over")
    async def take_over(self, run: str, **by: Unpack[RunBy]) -> Ack:
        """Take a run into one's own hands: it holds, as at a pause, until it is handed back."""
        return await self._ask(
            run, "take over", lambda who, key: e.TakenOver(who=who, key=key), **by
        )

    @audited("hand back")
    async def hand_back(self, run: str, note: str = "", **by: Unpack[RunBy]) -> Ack:
        """Give a run back that a person had taken or was given; ``note`` is what it is told."""
        return await self._ask(
            run, "hand back", lambda who, key: e.HandedBack(who=who, key=key, note=note), **by
        )

    @audited("stop effect")
    async def stop_effect(self, run: str, attempt: int, **by: Unpack[RunBy]) -> Ack:
        """Abort an effect in flight that a pause waits for; its outcome becomes unknown."""
        return await self._ask(
            run,
            "stop effect",
            lambda who, key: e.EffectStopRequested(who=who, key=key, attempt=attempt),
            **by,
        )

    @audited("undo")
    async def undo(self, run: str, effects: Iterable[int] = (), **by: Unpack[RunBy]) -> Ack:
        """Undo effects of a run that has ended; all that can be, if none are named."""
        chosen = tuple(effects)
        return await self._ask(
            run,
            "undo",
            lambda who, key: e.UndoRequested(who=who, key=key, effects=chosen),
            **by,
        )

    @audited("recover")
    async def recover(self, run: str, **by: Unpack[RunBy]) -> Ack:
        """Bring a run back that was killed. It comes back paused. Operators only."""
        return await self._ask(run, "recover", lambda who, key: e.Recovered(who=who, key=key), **by)

    @audited("kill")
    async def kill(self, scope: str, *, who: Actor, reason: str = "") -> Killing:
        """The operator's switch: when this returns, everything in scope has stopped.

        ``scope`` is ``all``, ``agent:NAME`` or ``thread:ID``. Nothing is undone or saved, and
        nothing begins there until it is released.
        """
        scope_of(scope)
        _check_reason(reason)
        killing = await self.store.kill(scope, self._asks(who), reason)
        wrote_record()
        return killing

    @audited("release")
    async def release(self, scope: str, *, who: Actor) -> bool:
        """Take a kill switch back: what is in scope may move again. False if it was not on."""
        scope_of(scope)
        released = await self.store.release(scope, self._asks(who))
        wrote_record()
        for row in await self.store.due() if released else ():
            if row.kind == "thread":
                for run in await look_after(self.store.submit, self._ids, row.journal):
                    await self._engine.ensure(run)
            else:
                await self._engine.ensure(row.journal)
        return released

    async def switches(self) -> list[Switch]:
        """The kill switches that are on."""
        return await self.store.switches()

    async def _ask(
        self,
        run: str,
        verb: str,
        make: Callable[[Actor, str], Request],
        *,
        who: Actor | None = None,
        key: str = "",
        expect: int | None = None,
        **unknown: Any,
    ) -> Ack:
        """Record one verb over a run, and over its children where it covers them."""
        refuse_unknown(unknown, TAKEN_OF_RUNS)
        request = make(self._asks(who), key)
        check_readable(run, request)
        row = await self.store.row(run)

        cancels = isinstance(request, e.CancelRequested)
        new = RUN_PREFIX + self._ids() if cancels else ""  # begins if the cancel frees the front

        def decided(agent: str, view: View) -> Draft:
            draft = cover(view, run, verb, request, expect=expect, thread=row.thread)
            return with_what_follows(view, draft, new=new, covered=agent)

        reads = (row.thread,) if isinstance(request, e.ResumeRequested) else ()
        done = await transact(
            submitting(self.store, asked_for(verb, run, request)),
            self._ids,
            (run, *reads),
            decided,
            thread=row.thread,
            agent=row.agent,
            new=reads,
        )
        for journal in dict.fromkeys([run, *(record.journal for record in done.records)]):
            if journal.startswith(RUN_PREFIX):  # what follows may stand in the thread, too
                await self._engine.ensure(journal)
        accepted: Ack = done.note
        return accepted if done.records else await self._first_answer(accepted)

    async def _first_answer(self, known: Ack) -> Ack:
        """Return the acknowledgement that the first request under this key got."""
        state = RunState(known.run)
        while state.head < known.position - 1:
            left = known.position - 1 - state.head
            fold(state, await self.store.read(known.run, state.head, min(left, PAGE)))
        (taken,) = await self.store.read(known.run, state.head, 1)
        nouns = tuple(attempt.label for attempt in state.open.values())
        said = says([state], taken.event)
        return msgspec.structs.replace(known, in_flight=nouns, status=said)


def _check_reason(reason: str) -> None:
    try:
        str.encode(reason)
    except (TypeError, UnicodeEncodeError):
        raise InvalidRequest(f"reason={reason!r:.80} is no text. Nothing was stopped.") from None


def _check_agents(agents: Iterable[object]) -> None:
    named: dict[str, Agent] = {}
    for each in agents:
        if not isinstance(each, Agent):
            raise InvalidRequest(f"{each!r:.80} is no agent: put @agent() above it.")
        if named.setdefault(each.name, each) is not each:
            raise InvalidRequest(f"two agents are called {each.name}: name one, @agent('another').")


@asynccontextmanager
async def local(
    address: str | Path,
    *agents: Agent,
    workdir: str | Path = ".midflight",
    drain_s: float = DRAIN_S,
    signals: bool = False,
) -> AsyncIterator[Control]:
    """Open a store, drive runs of these agents in this process, and control them.

    With ``signals=True`` SIGTERM, SIGINT and SIGHUP (its terminal has closed) end the block in good
    order: nothing further is claimed, runs are held, steps in flight have ``drain_s`` seconds to
    end, and the program goes on behind the block. The next start takes the runs up again. A second
    SIGTERM or SIGINT ends the process at once, which is as safe as a crash.
    """
    _check_agents(agents)
    async with (
        open_store(str(address)) as store,
        LocalEngine.open(
            store, agents, workdir=workdir, drain_s=drain_s, signals=LEAVING if signals else ()
        ) as engine,
    ):
        yield Control(store, engine)
