"""``Control``: every verb a person, a front door or a program has over runs.

Every verb is on the disk before it is acknowledged, says who asked, is idempotent by its key, and
is answered with a receipt: accepted at a position, and from there applied or superseded.
"""

from __future__ import annotations

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
from midflight.engines.local import DRAIN_S, LocalEngine
from midflight.errors import InvalidRequest, JournalNotFound
from midflight.executor.forking import created_by_fork, place_of
from midflight.inputs import Ids, new_id
from midflight.kernel import events as e
from midflight.kernel.decide import Known, Switch, decide, scopes
from midflight.kernel.fold import advance, fold
from midflight.kernel.phases import ENDS, Cause, Mode, Phase
from midflight.kernel.preview import Offer, preview
from midflight.kernel.receipt import Receipt, receipt
from midflight.kernel.record import Limits, Recorded, Request, Who
from midflight.kernel.state import Attempt, Delivery, RunState
from midflight.kernel.status import status
from midflight.kernel.thread import MessageSent, ThreadCreated, ThreadState
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
    Widen,
)
from midflight.stores.opening import open_store

LIBRARY: Final = Who(by="library")


class Accepted(Struct, frozen=True):
    """A verb is on record: at which position, and what was in flight at that moment.

    A message is answered with ``status``: how the run it goes to stands, in one line.
    """

    run: str
    verb: str
    position: int
    in_flight: tuple[str, ...] = ()
    status: str = ""


class Turn(Struct, frozen=True):
    """What somebody said is on record, and ``run`` is to answer it; empty when nothing was said."""

    run: str
    messages: tuple[Accepted, ...] = ()
    started: bool = False


class Control:
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
        who = who or self._who
        run = RUN_PREFIX + (f"{who.by}-{key}" if key else self._ids())
        on = thread or THREAD_PREFIX + run.removeprefix(RUN_PREFIX)
        declared = agent.limits if isinstance(agent, Agent) else Limits()
        created = e.RunCreated(
            who=who,
            key=key,
            agent=name,
            thread=on,
            brief=brief,
            title=title,
            input=Raw(_encode("the input", input)),
            mode=Mode(agent.mode) if isinstance(agent, Agent) else Mode.IMMEDIATE,
            limits=limits or declared,
        )

        def decided(view: View) -> Draft:
            verdict = decide(view.states[run], created, switches=view.switches)
            if isinstance(verdict, Known):
                return Draft()
            opening = () if view.states[on].head else (ThreadCreated(who=who, title=title),)
            return Draft({run: verdict, on: opening})

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
        return preview(await self.state(run))

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

    async def send(self, to: str, text: str, *, who: Who | None = None, key: str = "") -> Accepted:
        """Write a message into a thread, or into that of a run. When accepted it is stored."""
        run = "" if to.startswith(THREAD_PREFIX) else to
        thread = (await self.store.row(run)).thread if run else to
        message = MessageSent(who=who or self._who, key=key, text=text)

        def decided(view: View) -> Draft:
            verdict = decide(view.states[thread], message)
            if isinstance(verdict, Known):
                return Draft(note=Accepted(thread, "send", verdict.position))
            at = view.states[thread].head + 1
            return Draft({thread: verdict}, Accepted(thread, "send", at))

        done = await self.store.submit(Submit(self._ids(), (thread,), decided))
        accepted: Accepted = done.note
        return replace(accepted, status=await self._status(run or await self._front(thread)))

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
        )
        rows = await self.store.rows(Query(thread=thread))
        living = (row.journal for row in rows if not row.parent and row.phase not in ENDS)
        front = next(living, "")

        def decided(view: View) -> Draft:
            return turns.take(view, created, run, said, front)

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

    async def _front(self, thread: str) -> str:
        """The run that a thread is about; the newest that nobody has spawned, if none is named."""
        talk = await self.store.load(thread)
        assert isinstance(talk, ThreadState)
        if talk.front:
            return talk.front
        runs = await self.store.rows(Query(thread=thread))
        return next((row.journal for row in runs if not row.parent), "")

    async def _status(self, run: str) -> str:
        return status(await self.state(run), await self.store.now()) if run else ""

    async def pause(self, run: str, *, scope: str = "tree", **by: Any) -> Accepted:
        """Hold it: nothing further starts, what is in flight is ended or finishes."""
        return await self._ask(
            run, "pause", lambda who, key: e.PauseRequested(who=who, key=key, scope=scope), **by
        )

    async def resume(self, run: str, *, scope: str = "tree", **by: Any) -> Accepted:
        """Go on where it was. With ``scope="tree"`` so do the children that a person has held."""
        return await self._ask(
            run, "resume", lambda who, key: e.ResumeRequested(who=who, key=key, scope=scope), **by
        )

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
        if old.alive:
            raise InvalidRequest(
                f"run {run} is {old.phase}; only a run that has ended can be forked. Cancel it, or "
                "redirect it. Nothing was changed."
            )
        place = at if isinstance(at, int) else place_of(await self._records(run), at)
        who = who or self._who
        created = await created_by_fork(self.store, old, place, who=who, key=key, brief=brief)
        new = RUN_PREFIX + (f"{who.by}-{key}" if key else self._ids())

        def decided(view: View) -> Draft:
            there = view.states[new]
            assert isinstance(there, RunState)
            if there.fork_of == run and there.fork_at == place:
                return Draft()  # asked before; what the old run has undone since does not matter
            verdict = decide(there, created, switches=view.switches)
            return Draft() if isinstance(verdict, Known) else Draft({new: verdict})

        await self.store.submit(
            Submit(self._ids(), (new,), decided, scopes=scopes(old.agent, old.thread), new=(new,))
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
        """Set new caps; a run that is held at a cap goes on."""
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
        tree = getattr(request, "scope", "") == "tree"

        def decided(view: View) -> Draft:
            covered = _tree(run, view) if tree else [run]
            talk = view.states.get(row.thread)
            events: dict[str, Any] = {}
            flying: list[Attempt] = []
            for journal in covered:
                state = view.states[journal]
                assert isinstance(state, RunState)
                flying += state.open.values() if state.alive else ()
                if journal != run and not _concerns(state, request):
                    continue
                expected = expect if journal == run else None
                verdict = decide(
                    state,
                    request,
                    expect=expected,
                    switches=view.switches,
                    thread=talk if journal == run and isinstance(talk, ThreadState) else None,
                )
                if isinstance(verdict, Known):
                    if journal == run:
                        return Draft(note=Accepted(run, verb, verdict.position))
                    continue
                events[journal] = verdict
            nouns = tuple(attempt.noun for attempt in flying)
            head = view.states[run].head
            return Draft(events, Accepted(run, verb, head + 1, nouns))

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


def _concerns(child: RunState, request: Request) -> bool:
    """Whether what is asked of a parent is to be asked of this child."""
    match request:
        case e.ResumeRequested():
            return child.alive and Cause.USER in child.holds
        case e.CancelRequested(now=True):
            return child.alive and not child.cancel_now
        case _:
            return child.alive and child.phase is not Phase.CANCELLING


def _encode(what: str, value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"{what} is not plain data: {error}. Nothing was changed.") from None


def _tree(run: str, view: View) -> list[str]:
    """A run and its descendants; asks the store for those it has not locked yet.

    Also below a child that has ended: those whom it has left may still be at work.
    """
    found, unseen = [run], [run]
    while unseen:
        state = view.states[unseen.pop()]
        assert isinstance(state, RunState)
        children = list(state.children)
        missing = [child for child in children if child not in view.states]
        if missing:
            raise Widen(*missing)
        there = [child for child in children if view.states[child].head]  # the rest are purged
        found += there
        unseen += there
    return found


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
