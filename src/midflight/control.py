"""``Control``: every verb a person, a front door or a program has over runs.

Every verb is on the disk before it is acknowledged, says who asked, is idempotent by its key, and
is answered with a receipt: accepted at a position, and from there applied or superseded.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import blake2b
from pathlib import Path
from signal import Signals
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from midflight import turns
from midflight.engines.base import Engine, NoEngine
from midflight.engines.crew import DRAIN_S
from midflight.engines.local import LocalEngine
from midflight.errors import InvalidRequest, JournalNotFound
from midflight.executor.forking import created_by_fork, place_of
from midflight.executor.front import finder, look_after, thread_of, to_front
from midflight.inputs import Ids, new_id
from midflight.kernel import events as e
from midflight.kernel.decide import Known, Switch, decide, scopes
from midflight.kernel.fold import advance, fold
from midflight.kernel.front import is_free
from midflight.kernel.phases import ENDS, Cause, Mode
from midflight.kernel.preview import Offer
from midflight.kernel.receipt import Receipt, receipt
from midflight.kernel.record import Limits, Recorded, Request, Who
from midflight.kernel.state import Delivery, RunState
from midflight.kernel.thread import FrontChanged, MessageSent, ThreadCreated, ThreadState
from midflight.run import Agent
from midflight.schemas import check_answer
from midflight.stores.base import (
    PAGE,
    RUN_PREFIX,
    THREAD_PREFIX,
    Draft,
    Killing,
    LiveWatch,
    Query,
    Row,
    Store,
    Submit,
    View,
    Watch,
)
from midflight.stores.opening import open_store
from midflight.talks import Talks
from midflight.verbs import Accepted, cover, offers

__all__ = ["LIBRARY", "Accepted", "Control", "local", "offers"]

LIBRARY: Final = Who(by="library")
_ID: Final = re.compile(r"[0-9a-f]{28}")  # as ``new_id`` makes them


class Turn(Struct, frozen=True):
    """What somebody said is on record, and ``run`` is to answer it; empty when nothing was said."""

    run: str
    messages: tuple[Accepted, ...] = ()
    started: bool = False


class Control(Talks):
    """Controls runs in a store. Drives none: that is the engine's."""

    def __init__(
        self, store: Store, engine: Engine | None = None, *, who: Who = LIBRARY, ids: Ids = new_id
    ) -> None:
        self.store = store
        self._engine = engine or NoEngine()
        self._who = who
        self._ids = ids

    # ── starting and looking ─────────────────────────────────────────────────────────────────

    async def start(
        self,
        agent: Agent | str,
        brief: str,
        *,
        thread: str = "",
        input: Any = None,  # noqa: A002 - what people call it
        limits: Limits | None = None,
        title: str = "",
        who: Who | None = None,
        key: str = "",
    ) -> str:
        """Start a run and give its id. Repeated under the same key it gives the same run."""
        name = agent.name if isinstance(agent, Agent) else agent
        known = agent if isinstance(agent, Agent) else self._engine.agent(name)
        who = who or self._who
        run = run_named(who, key) if key else RUN_PREFIX + self._ids()
        on = thread or THREAD_PREFIX + run.removeprefix(RUN_PREFIX)
        declared = known.limits if known else Limits()
        created = e.RunCreated(
            who=who,
            key=key,
            agent=name,
            thread=on,
            brief=brief,
            title=title,
            input=Raw(_encode("the input", input)),
            mode=Mode(known.mode) if known else Mode.IMMEDIATE,
            limits=limits or declared,
            converses=known is not None and known.converses,
            asides=known is not None and known.aside is not None,
        )

        def decided(view: View) -> Draft:
            talk = thread_of(view, on)
            begun = replace(created, thread_at=talk.head)
            verdict = decide(view.states[run], begun, switches=view.switches)
            if isinstance(verdict, Known):
                return Draft()
            opening = () if talk.head else (ThreadCreated(who=who, title=title),)
            return Draft({run: verdict, on: (*opening, *_fronted(view, talk, run, known))})

        await self.store.submit(
            Submit(self._ids(), (run, on), decided, scopes=scopes(name, on), new=(run, on))
        )
        await self._engine.ensure(run)
        return run

    async def state(self, run: str) -> RunState:
        """The run as it is now."""
        state = await self.store.load(run)
        if not isinstance(state, RunState):
            raise JournalNotFound(run)
        return state

    async def preview(self, run: str) -> dict[str, Offer]:
        """For each verb: whether it can be pressed, and what it would do now."""
        return offers(await self.state(run))

    async def receipt(self, run: str) -> Receipt:
        """What became of every effect of the run."""
        return receipt(await self.state(run))

    async def runs(self, query: Query | None = None) -> list[Row]:
        """The runs of the store, newest first."""
        return await self.store.rows(query or Query())

    async def result(self, run: str) -> Any:
        """Wait for the end of a run and give what its function returned."""
        state = await self._until(run, lambda state: not state.alive)
        if not state.finished:
            return None
        (record,) = await self.store.read(run, after=state.finished - 1, limit=1)
        blob, result = record.event.blob, record.event.result
        return msgspec.json.decode(await self.store.blob(blob.hash) if blob else result)

    async def ended(self, run: str) -> RunState:
        """Wait for the end of a run."""
        return await self._until(run, lambda state: not state.alive)

    def watch(self, run: str, after: int = 0) -> Any:
        """Events of a run from a position on, then live ones. Leaving it cancels nothing."""
        return self.store.watch({run: after})

    def watch_live(self, cursors: Mapping[str, int]) -> AbstractAsyncContextManager[LiveWatch]:
        """Events of runs and threads after these positions, and what steps say in between.

        Who comes late first gets what open steps have said so far. Leaving it cancels nothing.
        """
        return self.store.watch_live(cursors)

    async def applied(self, accepted: Accepted) -> Delivery:
        """Wait until a verb was applied or superseded."""

        def settled(state: RunState) -> bool:
            return state.deliveries[accepted.position].status != "accepted"

        return (await self._until(accepted.run, settled)).deliveries[accepted.position]

    async def until(self, run: str, ready: Callable[[RunState], bool]) -> RunState:
        """Wait until the run's state is as wanted."""
        return await self._until(run, ready)

    async def _until(self, run: str, ready: Callable[[RunState], bool]) -> RunState:

        state = await self.state(run)
        if ready(state):
            return state
        async with self.store.watch({run: state.head}) as news:
            watching: Watch = news
            async for record in watching:
                advance(state, record)
                if ready(state):
                    break
        return state

    # ── the verbs ────────────────────────────────────────────────────────────────────────────

    async def converse(
        self,
        agent: Agent,
        thread: str,
        messages: Iterable[tuple[str, str]],
        *,
        key: str,
        who: Who | None = None,
    ) -> Turn:
        """Say something in a conversation: a run that is in front hears it, or one is started.

        ``messages`` are keys and texts; what the thread has under its key is not said again. A
        turn repeated under its ``key`` belongs to the run that it has started.
        """
        who = who or self._who
        run = f"{RUN_PREFIX}{blake2b(f'{thread} {key}'.encode(), digest_size=14).hexdigest()}"
        said = [MessageSent(who=who, key=name, text=text) for name, text in messages]
        created = e.RunCreated(
            who=who,
            key=key,
            agent=agent.name,
            thread=thread,
            brief="",
            mode=Mode(agent.mode),
            limits=agent.limits,
            converses=agent.converses,
            asides=agent.aside is not None,
        )
        rows = await self.store.rows(Query(thread=thread))
        living = (row.journal for row in rows if not row.parent and row.phase not in ENDS)
        front = next(living, "")

        def decided(view: View) -> Draft:
            return turns.take(view, created, said, to_front=to_front(run, agent), beside=front)

        done = await self.store.submit(
            Submit(
                self._ids(),
                tuple(filter(None, (run, thread, front))),
                decided,
                scopes=scopes(agent.name, thread),
                new=(run, thread),
            )
        )
        taken: turns.Taken = done.note
        if taken.how == turns.STARTED:
            await self._engine.ensure(run)
            heard = tuple(Accepted(thread, "send", at) for at in taken.positions)
            return Turn(run, heard, started=True)
        sent = [await self.send(thread, m.text, who=who, key=m.key) for m in taken.new]
        return Turn(taken.run, tuple(sent))

    async def pause(self, run: str, *, scope: str = "tree", **by: Any) -> Accepted:
        """Hold it: nothing further starts, what is in flight is ended or finishes."""
        return await self._ask(
            run, "pause", lambda who, key: e.PauseRequested(who=who, key=key, scope=scope), **by
        )

    async def resume(self, run: str, *, scope: str = "tree", **by: Any) -> Accepted:
        """Go on where it was. With ``scope="tree"`` so do the children that a person has held.

        A parked run comes to the front; what is there now is parked in its turn.
        """
        row = await self.store.row(run)
        if row.kind == "thread":
            raise JournalNotFound(run)
        if await self._has_todos(row.thread) and (await self.state(run)).holds == {Cause.PARKED}:
            by.pop("expect", None)
            talk = await self._thread(row.thread)
            todo = next((x for x in talk.todos.values() if x.run == run), None)
            if todo is not None:
                return await self.do_now(talk.journal, todo.position, **by)
        return await self._ask(
            run, "resume", lambda who, key: e.ResumeRequested(who=who, key=key, scope=scope), **by
        )

    async def _has_todos(self, thread: str) -> bool:
        """Looked up in the read model: a long run is not to be folded for each resume."""
        try:
            return (await self.store.row(thread)).open_questions > 0
        except JournalNotFound:
            return False

    async def fork(
        self,
        run: str,
        at: int | str,
        *,
        brief: str = "",
        who: Who | None = None,
        key: str = "",
    ) -> str:
        """Try again from a step of a run that has ended, and give the new run's id.

        ``at`` is a step's name or a position: what was recorded before it is taken over, it and
        what came after it are done anew. The new run asks about effects that came after it.
        """
        old = await self.state(run)
        known = self._engine.agent(old.agent)
        if old.alive:
            raise InvalidRequest(
                f"run {run} is {old.phase}; only a run that has ended can be forked. Cancel it, or "
                "redirect it. Nothing was changed."
            )
        place = at if isinstance(at, int) else place_of(await self._records(run), at)
        who = who or self._who
        created = await created_by_fork(self.store, old, place, who=who, key=key, brief=brief)
        new = run_named(who, key) if key else RUN_PREFIX + self._ids()
        on = old.thread

        def decided(view: View) -> Draft:
            there = view.states[new]
            assert isinstance(there, RunState)
            if there.fork_of == run and there.fork_at == place:
                return Draft()  # asked before; what the old run has undone since does not matter
            verdict = decide(there, created, switches=view.switches)
            if isinstance(verdict, Known):
                return Draft()
            talk = thread_of(view, on)
            fronted = _fronted(view, talk, new, known) if talk.head else ()
            return Draft({new: verdict, on: fronted})

        covered = scopes(old.agent, on)
        await self.store.submit(
            Submit(self._ids(), (new, on), decided, scopes=covered, new=(new, on))
        )
        await self._engine.ensure(new)
        return new

    async def _records(self, run: str) -> list[Recorded]:
        found: list[Recorded] = []
        while page := await self.store.read(run, after=len(found)):
            found += page
        return found

    async def redirect(
        self, run: str, text: str, *, profile: str = "", resume: bool = False, **by: Any
    ) -> Accepted:
        """Change course: finished work is kept, the next step is rewritten."""
        return await self._ask(
            run,
            "redirect",
            lambda who, key: e.RedirectRequested(
                who=who, key=key, text=text, profile=profile, resume=resume
            ),
            **by,
        )

    async def cancel(
        self, run: str, *, now: bool = False, scope: str = "tree", **by: Any
    ) -> Accepted:
        """Stop entirely: abort, undo, save. The receipt lists what is in flight."""
        return await self._ask(
            run,
            "cancel",
            lambda who, key: e.CancelRequested(who=who, key=key, now=now, scope=scope),
            **by,
        )

    async def answer(self, run: str, question: int, payload: Any, **by: Any) -> Accepted:
        """Answer a question of the run. The first answer wins."""
        raw = Raw(_encode("the answer", payload))
        is_open = question in (await self.state(run)).questions
        asked = await self._question(run, question) if is_open else None
        if asked is not None:  # or it is refused for what it is
            check_answer(msgspec.json.decode(raw), msgspec.json.decode(asked.schema))
        return await self._ask(
            run,
            "answer",
            lambda who, key: e.QuestionAnswered(who=who, key=key, question=question, payload=raw),
            **by,
        )

    async def decline(self, run: str, question: int, **by: Any) -> Accepted:
        """Leave a question of the run unanswered for good: the function goes on without."""
        return await self._ask(
            run,
            "decline",
            lambda who, key: e.QuestionAnswered(who=who, key=key, question=question, declined=True),
            **by,
        )

    async def _question(self, run: str, position: int) -> e.QuestionOpened | None:
        """What was asked at a position; it never changes, so it can be read apart."""
        for record in await self.store.read(run, after=max(0, position - 1), limit=1):
            if isinstance(record.event, e.QuestionOpened):
                return record.event
        return None

    async def raise_limits(self, run: str, limits: Limits, **by: Any) -> Accepted:
        """Set new caps; a run that is held at a cap goes on.

        Caps that are not named stay as they are. Naming none takes all of them away.
        """
        return await self._ask(
            run,
            "raise limits",
            lambda who, key: e.LimitsRaised(who=who, key=key, limits=limits),
            **by,
        )

    async def take_over(self, run: str, **by: Any) -> Accepted:
        """Do it yourself: the run holds, as at a pause, until it is handed back."""
        return await self._ask(
            run, "take over", lambda who, key: e.TakenOver(who=who, key=key), **by
        )

    async def hand_back(self, run: str, note: str = "", **by: Any) -> Accepted:
        """Give a run back that a person had; ``note`` is what it is told."""
        return await self._ask(
            run, "hand back", lambda who, key: e.HandedBack(who=who, key=key, note=note), **by
        )

    async def stop_effect(self, run: str, attempt: int, **by: Any) -> Accepted:
        """Abort the effect that a pause waits for; its outcome becomes unknown."""
        return await self._ask(
            run,
            "stop effect",
            lambda who, key: e.EffectStopRequested(who=who, key=key, attempt=attempt),
            **by,
        )

    async def undo(self, run: str, effects: Iterable[int] = (), **by: Any) -> Accepted:
        """Undo effects of a run that has ended; all that can be, if none are named."""
        chosen = tuple(effects)
        return await self._ask(
            run,
            "undo",
            lambda who, key: e.UndoRequested(who=who, key=key, effects=chosen),
            **by,
        )

    async def recover(self, run: str, **by: Any) -> Accepted:
        """Bring a killed run back, paused. Operators only."""
        return await self._ask(run, "recover", lambda who, key: e.Recovered(who=who, key=key), **by)

    async def kill(self, scope: str, *, who: Who, reason: str = "") -> Killing:
        """The operator's switch: when this returns, everything in scope has stopped."""
        _check_scope(scope)
        return await self.store.kill(scope, who, reason)

    async def release(self, scope: str, *, who: Who) -> bool:
        """Let a scope move again."""
        _check_scope(scope)
        released = await self.store.release(scope, who)
        for row in await self.store.due() if released else ():
            if row.kind == "thread":
                for run in await look_after(self.store, self._ids, row.journal):
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
        make: Callable[[Who, str], Request],
        *,
        who: Who | None = None,
        key: str = "",
        expect: int | None = None,
    ) -> Accepted:
        """Record one verb over a run, and over its children where it covers them."""
        row = await self.store.row(run)
        request = make(who or self._who, key)

        def decided(view: View) -> Draft:
            return cover(view, run, verb, request, expect=expect, thread=row.thread)

        reads = (row.thread,) if isinstance(request, e.ResumeRequested) else ()
        covered = scopes(row.agent, row.thread)
        done = await self.store.submit(
            Submit(self._ids(), (run, *reads), decided, scopes=covered, new=reads)
        )
        for journal in dict.fromkeys([run, *(record.journal for record in done.records)]):
            await self._engine.ensure(journal)
        accepted: Accepted = done.note
        return accepted if done.records else await self._first_answer(accepted)

    async def _first_answer(self, known: Accepted) -> Accepted:
        """What was answered when this was asked for the first time."""
        state = RunState(known.run)
        while state.head < known.position - 1:
            left = known.position - 1 - state.head
            fold(state, await self.store.read(known.run, state.head, min(left, PAGE)))
        nouns = tuple(attempt.noun for attempt in state.open.values())
        return msgspec.structs.replace(known, in_flight=nouns)


def run_named(who: Who, key: str) -> str:
    """The id of the run that a caller starts under a key: the same whenever they repeat it.

    A key that is an id of ours begins with the time; so does its run's id, which keeps its place
    among the others.
    """
    if not _ID.fullmatch(key):
        return f"{RUN_PREFIX}{who.by}-{key}"
    whose = blake2b(f"{who.by} {key}".encode(), digest_size=8).hexdigest()
    return f"{RUN_PREFIX}{key[:12]}{whose}"


def _fronted(
    view: View, talk: ThreadState, run: str, agent: Agent | None
) -> tuple[FrontChanged, ...]:
    """A run that is started comes to the front if that is free, and otherwise works beside it."""
    return (to_front(run, agent),) if is_free(talk, finder(view)) else ()


def _encode(what: str, value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"{what} is not plain data: {error}. Nothing was changed.") from None


def _check_scope(scope: str) -> None:
    kind, _, name = scope.partition(":")
    if kind != "all" and not (kind in {"agent", "thread"} and name):
        raise InvalidRequest(
            f"{scope!r} is not a scope; use all, agent:NAME or thread:ID. Nothing was changed."
        )


@asynccontextmanager
async def local(
    address: str | Path,
    *agents: Agent,
    workdir: str | Path = ".midflight",
    drain_s: float = DRAIN_S,
    signals: bool = False,
) -> AsyncIterator[Control]:
    """Open a store, drive runs of these agents in this process, and control them.

    With ``signals=True`` SIGTERM and SIGINT end the block in good order: nothing further is
    claimed, runs are held, steps in flight have ``drain_s`` seconds to end, and the program goes on
    behind the block. The next start takes the runs up again. A second signal ends the process at
    once, which is as safe as a crash.
    """
    leave_on = (Signals.SIGTERM, Signals.SIGINT) if signals else ()
    async with (
        open_store(str(address)) as store,
        LocalEngine.open(
            store, agents, workdir=workdir, drain_s=drain_s, signals=leave_on
        ) as engine,
    ):
        yield Control(store, engine)
