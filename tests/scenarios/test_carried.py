"""An outcome that only the function knows yet, at every boundary and beside everybody else.

Nothing of a run begins before it is on record, it is never lost, and it costs no commit of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import anyio
import msgspec
import pytest
from typing_extensions import override

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.guards import FileContent
from midflight.journal import events as e
from midflight.journal.phases import Outcome, Phase
from midflight.journal.record import Event, Recorded
from midflight.journal.state import RunState
from midflight.run import Run
from midflight.runtime import run_session
from midflight.runtime.journal_client import Kept
from midflight.runtime.steps import attempt
from midflight.stores.memory import MemoryStore
from midflight.stores.postgres import PostgresStore
from midflight.stores.protocol import Append, Committed, Draft, Store, Submit, View
from midflight.stores.sqlite import SqliteStore
from midflight.tools.declaration import Tool, tool
from midflight.tools.options import EffectRecord
from scenarios.conftest import Open
from scenarios.cord import Cord
from scenarios.hours import Hours
from scenarios.rests import events_of
from scenarios.stage import Stage
from scenarios.test_told_late import Mistaken
from stores.backends import POSTGRES

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

STEPS = 300
PER_STEP = 1.1


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, hours: Hours
) -> AsyncIterator[Store]:
    match request.param:
        case "memory":
            yield MemoryStore(hours.now, hours.steadily)
        case "sqlite":
            async with SqliteStore.open(tmp_path / "journals.db") as opened:
                yield opened
        case _:
            address: str = request.getfixturevalue("postgres_address")
            async with PostgresStore.open(address, schema=f"test_{uuid4().hex}") as opened:
                yield opened


@pytest.fixture
def stage(request: pytest.FixtureRequest) -> Stage:
    return Stage(request.node.name)


@pytest.fixture(autouse=True)
def every_call_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a call that does nothing may take longer than a short one does."""
    monkeypatch.setattr(attempt, "SHORT_S", 2.0)


@pytest.fixture(autouse=True)
def functions_end_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that sleeps is not waited for in vain."""
    monkeypatch.setattr(run_session, "UNWIND_S", 0.2)


def writer(stage: Stage, **declared: Any) -> Tool:
    @tool(name=f"{stage.name}-write", effect=declared.pop("effect", "write"), **declared)
    async def write(number: int) -> int:
        return number

    return write


# ── what it costs ────────────────────────────────────────────────────────────────────────────


class Commits:
    """Counts the transactions of a store that have written to a run."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._said: list[str] = []
        if isinstance(store, SqliteStore):
            store._writer._transaction.db.connection.set_trace_callback(self._said.append)

    async def of(self, run: str) -> int:
        if isinstance(self._store, SqliteStore):
            return self._said.count("COMMIT")
        assert isinstance(self._store, PostgresStore)
        wanted = "SELECT count(DISTINCT xmin::text) FROM events WHERE journal = $1"
        ((count,),) = await self._store._pool.fetch(wanted, run)
        return int(count)


@pytest.mark.parametrize("store", ["sqlite", POSTGRES], indirect=True)
async def test_hundreds_of_steps_cost_little_more_than_a_commit_each(
    stage: Stage, driving: Open, store: Store
) -> None:
    write = writer(stage)

    @agent(name=stage.name)
    async def clerk(run: Run) -> int:
        return sum([await run.step("Write", write, number) for number in range(STEPS)])

    commits = Commits(store)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        assert (await control.ended(run)).phase is Phase.DONE
        state = await control.state(run)

    assert state.spent.steps == STEPS
    assert {effect.outcome for effect in state.effects.values()} == {Outcome.DONE}
    assert STEPS < await commits.of(run) <= PER_STEP * STEPS


# ── every boundary ───────────────────────────────────────────────────────────────────────────


class Noting(Cord):
    """Notes what a driver writes to and reads from journals, in order."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.noted: list[list[type[Event] | str]] = []

    @override
    async def append(self, decision: Append) -> Committed:
        self.noted.append([type(event) for entry in decision.entries for event in entry.events])
        return await super().append(decision)

    @override
    async def submit(self, request: Submit) -> Committed:
        noted: list[type[Event] | str] = []
        self.noted.append(noted)

        def decided(view: View) -> Draft:
            draft = request.decide(view)
            noted[:] = [type(event) for events in draft.events.values() for event in events]
            return draft

        return await super().submit(msgspec.structs.replace(request, decide=decided))

    async def read(self, journal: str, after: int = 0, limit: int = 1000) -> list[Recorded]:
        self.noted.append(["read"])
        return await self._store.read(journal, after, limit)

    async def load(self, journal: str) -> Any:
        self.noted.append(["load"])
        return await self._store.load(journal)


class Boundary:
    """A run that knows an outcome which is not on record, and is about to do something else."""

    def __init__(self, stage: Stage, store: Store, prices: Path) -> None:
        self.stage = stage
        self.store = Noting(store)
        self.prices = prices
        self.knows = anyio.Event()
        self.known: list[bool] = []
        self.run = ""

    async def look(self, _now: float = 0.0) -> str:
        """Look at the world, as a read or a guard does; note whether the outcome is on record."""
        records = await self.store._store.read(self.run)
        self.known.append(any(isinstance(r.event, e.AttemptSettled) for r in records))
        return "as it was"

    def reader(self) -> Tool:
        return tool(effect="read", name=f"{self.stage.name}-look")(self.look)

    def actor(self, **declared: Any) -> Tool:
        return tool(name=f"{self.stage.name}-act", settles_within=0, **declared)(self.look)

    def is_on_record_before(self) -> bool:
        """Whether the first thing that the driver has done since is to write the outcome down."""
        return e.AttemptSettled in self.store.noted[0][:1] and False not in self.known

    def is_written_by_itself(self) -> bool:
        """Whether what comes with it in the append is the start of a step, or nothing."""
        return set(self.store.noted[0]) <= {e.AttemptSettled, e.AttemptStarted}

    def clerk(self, then: Callable[[Run], Awaitable[object]]) -> Agent:
        """Writes, knows how that ended, and does ``then`` at once."""
        write = writer(self.stage)

        @agent(name=self.stage.name)
        async def clerk(run: Run) -> None:
            self.run = run.id
            await run.guard(FileContent(self.prices)) if self.guarded else None
            await run.step("Write", write, 1)
            if not self.knows.is_set():
                self.store.noted.clear()
                self.knows.set()
            await then(run)

        return clerk

    guarded = False


class Looking:
    """A guard whose look notes what is on record."""

    name = "looking"

    def __init__(self, boundary: Boundary) -> None:
        self.look = boundary.look


Then = Callable[[Run, Boundary], Awaitable[object]]


async def spawn(run: Run, boundary: Boundary) -> None:
    await (await run.spawn(f"{boundary.stage.name}-child", "help")).result()


async def fail(_run: Run, _: Boundary) -> None:
    raise ValueError("it cannot go on")


async def end(_run: Run, _: Boundary) -> None:
    """Do nothing more."""


CALLS: dict[str, Then] = {
    "a read": lambda run, at: run.step("Look", at.reader()),
    "an effect": lambda run, at: run.step("Act", at.actor()),
    "a model": lambda run, at: run.step("Think", at.actor(effect="model")),
    "an approval": lambda run, at: run.step("Act", at.actor(approval=True)),
    "an undo window": lambda run, at: run.step("Act", at.actor(undo_window=0.02)),
    "a guard": lambda run, at: run.guard(cast("Any", Looking(at))),
    "a question": lambda run, _: run.ask("Go on?", expires_in=0.05),
    "an approval of the function": lambda run, _: run.approve("Go on?", expires_in=0.05),
    "a hand-over": lambda run, _: run.hand_over("Please."),
    "a plan": lambda run, _: run.plan("Write", "Rest"),
    "words": lambda run, _: run.say("Done so far."),
    "the inbox": lambda run, _: run.inbox(),
    "earlier words": lambda run, _: run.earlier(),
    "words of others": lambda run, _: run.distrust("a page of the web"),
    "a snapshot": lambda run, _: run.snapshot({}),
    "a background run": spawn,
    "its own cancel": lambda run, _: run.cancel("enough"),
    "a failure": fail,
    "its end": end,
}
ENDINGS = {"its own cancel", "a failure", "its end"}


@pytest.fixture
def never_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written only because some turns of the loop have passed."""
    monkeypatch.setattr(Kept, "look_soon", lambda _: None)


@pytest.mark.usefixtures("never_by_itself")
@pytest.mark.parametrize("call", CALLS)
async def test_nothing_that_the_function_does_comes_before_the_outcome_that_it_knows(
    stage: Stage, store: Store, prices: Path, tmp_path: Path, call: str
) -> None:
    boundary = Boundary(stage, store, prices)

    @agent(name=f"{stage.name}-child")
    async def child(run: Run) -> None:
        """Do nothing."""

    clerk = boundary.clerk(lambda run: CALLS[call](run, boundary))
    async with LocalEngine.open(
        cast("Store", boundary.store), [clerk, child], workdir=tmp_path / "work"
    ) as engine:
        control = Control(store, engine)
        run = await control.start(clerk, "work", thread="t-talk")
        with anyio.fail_after(20):
            if call in {"an approval", "a hand-over"}:
                asks = await control.until(run, lambda state: bool(state.questions))
                if call == "a hand-over":
                    await control.hand_back(run)
                else:
                    await control.answer(run, next(iter(asks.questions)), "approve")
            await control.ended(run)

    assert boundary.is_on_record_before(), boundary.store.noted[:3]
    assert call in ENDINGS or boundary.is_written_by_itself(), boundary.store.noted[0]


PRESSES: dict[str, Phase] = {
    "pause": Phase.PAUSED,
    "cancel": Phase.CANCELLED,
    "redirect": Phase.RUNNING,
    "drain": Phase.PAUSED,
    "send": Phase.RUNNING,
    "evict": Phase.PAUSED,
}


@pytest.mark.usefixtures("never_by_itself")
@pytest.mark.parametrize("press", [press for press in PRESSES if press != "send"])
async def test_whoever_stops_the_run_finds_the_outcome_that_the_function_knows(
    stage: Stage, store: Store, prices: Path, tmp_path: Path, press: str
) -> None:
    boundary, rests = Boundary(stage, store, prices), anyio.Event()
    clerk = boundary.clerk(lambda _: rests.wait())
    if press == "evict":
        clerk = msgspec.structs.replace(clerk, evict_after=0.01)
    async with LocalEngine.open(
        cast("Store", boundary.store), [clerk], workdir=tmp_path / "work", drain_s=5.0
    ) as engine:
        control = Control(store, engine)
        run = await control.start(clerk, "work")
        with anyio.fail_after(20):
            await boundary.knows.wait()
            if press in {"pause", "evict"}:
                await control.pause(run)
            elif press != "drain":
                await getattr(control, press)(run, *(["otherwise"] * (press == "redirect")))
            if press == "evict":
                await control.until(run, lambda state: not state.driver)
            elif press == "redirect":
                await control.until(run, lambda state: state.brief == "otherwise")
            elif press != "drain":
                await control.until(run, lambda state: state.phase is PRESSES[press])
    state = await control.state(run)
    first = next(iter(state.effects.values()))

    assert first.outcome is Outcome.DONE
    assert boundary.is_on_record_before(), boundary.store.noted[:3]
    assert press == "redirect" or state.phase is PRESSES[press]


@pytest.mark.parametrize("undoable", [True, False], ids=["with undo", "without undo"])
async def test_a_cancel_accounts_for_the_outcome_that_only_the_function_knew(
    stage: Stage, store: Store, driving: Open, undoable: bool
) -> None:
    """It comes in the turn of the loop in which the function is told."""
    undone: list[int] = []

    async def take_back(performed: EffectRecord) -> None:
        undone.append(performed.result)

    write = writer(stage, **({"undo": take_back} if undoable else {}))
    press: list[Callable[[str], object]] = []

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        await run.step("Write", write, 1)
        press[0](run.id)
        await anyio.sleep_forever()

    async with driving(clerk) as control, anyio.create_task_group() as people:
        press.append(lambda run: people.start_soon(control.cancel, run))
        run = await control.start(clerk, "work")
        assert (await control.ended(run)).phase is Phase.CANCELLED
        (settled,) = await events_of(control, run, e.AttemptSettled)
        (line,) = (await control.receipt(run)).lines

    assert (settled.outcome, bytes(settled.result)) == (Outcome.DONE, b"1")
    assert undone == ([1] if undoable else [])
    assert line.word == ("undone" if undoable else "kept")


async def test_a_watcher_sees_a_step_as_done_when_that_is_on_record(
    stage: Stage, store: Store, driving: Open
) -> None:
    write, rests = writer(stage), anyio.Event()
    seen: list[bool] = []

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        for number in range(20):
            await run.step("Write", write, number)
        await rests.wait()

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        async with control.watch({run: 0}) as news:
            async for record in news:
                if isinstance(record.event, e.AttemptSettled):
                    there = await store.read(run, record.position - 1, 1)
                    seen.append(there == [record])
                if len(seen) == 20:
                    break
        rests.set()
        await control.ended(run)

    assert seen == [True] * 20


# ── a driver that was taken for lost ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", ["the one that was lost", "its successor"])
async def test_an_outcome_that_a_lost_driver_carries_is_told_late(
    stage: Stage, store: Store, tmp_path: Path, first: str
) -> None:
    """Its function has acted on the value: it is on record, and the run counts one of the two."""
    keys: list[str] = []
    lost, goes_on = Cord(store), anyio.Event()
    lost.linger_at(e.AttemptSettled)
    waits = first == "the one that was lost"

    @tool(name=f"{stage.name}-write", effect="write")
    async def write(idempotency_key: str = "") -> int:
        keys.append(idempotency_key)
        return len(keys)

    @agent(name=stage.name)
    async def clerk(run: Run) -> list[int]:
        succeeds = bool(keys)
        if succeeds and waits:
            await goes_on.wait()
        result = await run.step("Write", write)
        if not succeeds:
            await anyio.sleep_forever()
        return [result]

    workdir, successor = tmp_path / "work", cast("Store", Mistaken(store))
    async with LocalEngine.open(cast("Store", lost), [clerk], workdir=workdir) as engine:
        control = Control(store, engine)
        run = await control.start(clerk, "work")
        with anyio.fail_after(20):
            await lost.reached.wait()
            async with LocalEngine.open(successor, [clerk], workdir=workdir) as second:
                await second.ensure(run)
                if waits:
                    await control.until(run, lambda state: state.epoch == 2)
                    lost.let_go.set()
                    await control.until(run, has_late_outcome)
                    goes_on.set()
                state = await control.ended(run)
                lost.let_go.set()
                if not waits:
                    await control.until(run, has_late_outcome)
        late = await events_of(control, run, e.LateOutcome)
        records = await store.read(run)
        result = await control.result(run)

    assert state.phase is Phase.DONE
    assert len(set(keys)) == 1
    assert result == [1 if waits else 2]
    assert [bytes(event.result) for event in late if event.outcome is Outcome.DONE] == [b"1"]
    attempts = [r.event.attempt for r in records if isinstance(r.event, e.AttemptSettled)]
    assert len(attempts) == len(set(attempts))


def has_late_outcome(state: RunState) -> bool:
    return any(effect.learned for effect in state.effects.values())
