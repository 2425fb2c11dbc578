"""However a run is disturbed without being steered, it ends as if it had not been.

Hypothesis mixes pauses, resumes, evictions, crashes, orderly restarts, messages that have nothing
to do with it and answers, at moments that it chooses: tools go on only when they get their cue.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, cast

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from typing_extensions import override

from midflight.agents import Agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.errors import Refused
from midflight.journal.phases import Phase
from midflight.journal.record import Actor
from midflight.journal.requests import decide
from midflight.journal.state import Question, RunState
from midflight.journal.threads import thread as t
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import Draft, Store, Submit, View
from midflight.stores.sqlite import SqliteStore
from midflight.tools.declaration import Done, NotDone, Tool, tool
from midflight.tools.options import EffectName, EffectRecord, Retry
from scenarios.cord import Cord
from scenarios.world import unasked_repeats

pytestmark = pytest.mark.slow

RUN, THREAD = "r-library-one", "t-library-one"
EVERYTHING = 1_000_000
A_MOMENT = 0.004


class World:
    """Tools that go on at a cue, and what they have really done."""

    def __init__(self) -> None:
        self.ledger: list[str] = []
        self.tried: set[str] = set()
        self.cues = 0
        self.look = self._reader("look")
        self.think = self._reader("think", effect="model")
        self.lock = self._doer("lock", check=True, undo=True, always_undo=True)
        self.upsert = self._doer("upsert", effect="write", undo=True)
        self.send = self._doer("send", check=True)
        self.order = self._doer("order", undo=True)
        self.wire = self._doer("wire", check=True, irreversible=True)
        self.mail = self._doer("mail", check=True, undo_window=0.001)
        self.upload = self._doer(
            "upload", effect="write", retry=Retry(1, first_after=0.001), refuses=True
        )

    async def _cue(self) -> None:
        while self.cues <= 0:  # noqa: ASYNC110 - cues come between turns of the loop
            await asyncio.sleep(0.0005)
        self.cues -= 1

    def _reader(self, what: str, effect: EffectName = "read") -> Tool:
        async def read(of: str) -> str:
            await self._cue()
            return f"{what} {of}"

        return tool(effect=effect, name=f"equal.{what}")(read)

    def _doer(
        self,
        what: str,
        *,
        effect: EffectName = "once",
        check: bool = False,
        undo: bool = False,
        refuses: bool = False,
        **declared: Any,
    ) -> Tool:
        async def do(of: str, idempotency_key: str = "") -> str | None:
            await self._cue()
            if refuses and what not in self.tried:
                self.tried.add(what)
                raise NotDone("later")
            line = f"{what} {idempotency_key}"
            if effect == "once" or line not in self.ledger:
                self.ledger.append(line)
            await self._cue()
            return None if what == "order" else f"{what} {of}"

        async def has_happened(performed: EffectRecord) -> object:
            done = f"{what} {performed.key}" in self.ledger
            return Done(f"{what} {performed.args[0]}") if done else NotDone()

        async def take_back(performed: EffectRecord) -> None:
            line = f"undo {what} {performed.key}"
            if line not in self.ledger:
                self.ledger.append(line)

        return tool(
            effect=effect,
            name=f"equal.{what}",
            check=has_happened if check else None,
            settles_within=0,
            undo=take_back if undo else None,
            **declared,
        )(do)

    async def work(self, run: Run) -> list[object]:
        """Every class of effect, two branches at a time, chance and time from the run."""
        found: dict[str, object] = {}

        async def branch(name: str, function: Tool, of: str) -> None:
            found[name] = await run.step(name, function, of)

        rows = await run.step("Look", self.look, "rows")
        found["Think"] = await run.step("Think", self.think, f"{rows} {run.uuid()}")
        found["Lock"] = await run.step("Lock", self.lock, rows)
        async with anyio.create_task_group() as group:
            group.start_soon(branch, "Upsert", self.upsert, rows)
            group.start_soon(branch, "Send", self.send, rows)
        found["Order"] = await run.step("Order", self.order, rows)
        found["Ask"] = (await run.ask("Which?")).payload
        async with anyio.create_task_group() as group:
            group.start_soon(branch, "Wire", self.wire, rows)
            group.start_soon(branch, "Mail", self.mail, rows)
        for _ in range(2):
            found["Upload"] = await run.step("Upload", self.upload, rows)
        return [found[name] for name in sorted(found)]


def truth(world: World, state: RunState, question: Question) -> object:
    """What a person answers who knows what happened."""
    match question.kind:
        case "approval":
            return "approve"
        case "doubt":
            attempt = state.effects[question.about]
            happened = f"{attempt.name.lower()} {attempt.key}" in world.ledger
            return "happened" if happened else "again"
        case "ask":
            return "this one"
        case _:
            raise AssertionError(f"nobody should have asked: {question.message}")


class Life:
    """One process's worth of driving, as a task that can be ended well or badly."""

    def __init__(
        self, opened: AbstractAsyncContextManager[Store], agent: Agent, workdir: Path
    ) -> None:
        self.control: Control
        self._cord: Cord
        self._over = asyncio.Event()
        self._begun = asyncio.Event()
        self._drain_s = 5.0
        self._task = asyncio.get_running_loop().create_task(self._live(opened, agent, workdir))

    async def _live(
        self, opened: AbstractAsyncContextManager[Store], agent: Agent, workdir: Path
    ) -> None:
        async with opened as store:
            self._cord = Cord(store)
            driven = cast("Store", self._cord)
            async with LocalEngine.open(
                driven, [agent], workdir=workdir, sweep_s=0.005, drain_s=0.0
            ) as engine:
                self.control = Control(store, engine)
                self._begun.set()
                await self._over.wait()
                if self._drain_s:
                    await engine._crew._drain(self._drain_s)

    async def begun(self) -> Life:
        await self._begun.wait()
        return self

    async def crash(self) -> None:
        """Nothing that happens from here on reaches the journal."""
        self._cord.pull()
        self._drain_s = 0.0
        await self.end()

    async def end(self) -> None:
        self._over.set()
        await self._task


async def undisturbed() -> tuple[Counter[str], object]:
    world = World()
    world.cues = EVERYTHING
    agent = Agent("equal", world.work)
    with tempfile.TemporaryDirectory() as folder:
        life = await Life(in_memory(MemoryStore()), agent, Path(folder)).begun()
        control = life.control
        await control.start(agent, "work", key="one")
        while (state := await control.state(RUN)).alive:
            for question in state.questions.values():
                answer = truth(world, state, question)
                await control.answer(RUN, question.position, answer)
            await asyncio.sleep(A_MOMENT)
        result = await control.result(RUN)
        await life.end()
    return Counter(world.ledger), result


@asynccontextmanager
async def in_memory(store: MemoryStore) -> AsyncIterator[Store]:
    yield store


class Errors(logging.Handler):
    """No driver may fail, whatever happens."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(f"{record.getMessage()}: {getattr(record, 'error', '')}")


class Disturbances(RuleBasedStateMachine):
    """Everything that may happen to a run without steering it."""

    whole: ClassVar[tuple[Counter[str], object] | None] = None

    def __init__(self) -> None:
        super().__init__()
        self.errors = Errors()
        logging.getLogger("midflight").addHandler(self.errors)
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        if Disturbances.whole is None:
            Disturbances.whole = self.runner.run(undisturbed())
        self.world = World()
        self.memory = MemoryStore()

    def store(self) -> AbstractAsyncContextManager[Store]:
        return in_memory(self.memory)

    @initialize(evict_after=st.sampled_from([None, 0.001]))
    def begin(self, evict_after: float | None) -> None:
        self.agent = Agent("equal", self.world.work, evict_after=evict_after)
        self.runner.run(self._begin())

    async def _begin(self) -> None:
        await self._new_life()
        await self.life.control.start(self.agent, "work", key="one")
        await asyncio.sleep(A_MOMENT)

    async def _new_life(self) -> None:
        self.life = await Life(self.store(), self.agent, Path(self.folder.name)).begun()

    async def _press(self, verb: str, *what: Any) -> None:
        with suppress(Refused):  # a press that came too early or too late changes nothing
            await getattr(self.life.control, verb)(RUN, *what)
        await asyncio.sleep(A_MOMENT)

    @rule(cues=st.integers(1, 5))
    def go_on(self, cues: int) -> None:
        async def go() -> None:
            self.world.cues += cues
            await asyncio.sleep(A_MOMENT)

        self.runner.run(go())

    @rule()
    def pause(self) -> None:
        self.runner.run(self._press("pause"))

    @rule()
    def resume(self) -> None:
        self.runner.run(self._press("resume"))

    @rule()
    def pause_and_resume_at_once(self) -> None:
        async def both() -> None:
            await self._press("pause")
            await self._press("resume")

        self.runner.run(both())

    @rule()
    def crash(self) -> None:
        async def crash() -> None:
            await self.life.crash()
            await self._new_life()
            await asyncio.sleep(A_MOMENT)

        self.runner.run(crash())

    @rule()
    def crash_at_once_after_going_on(self) -> None:
        async def crash() -> None:
            self.world.cues += 1
            await asyncio.sleep(0.0006)
            await self.life.crash()
            await self._new_life()

        self.runner.run(crash())

    @precondition(lambda self: self.world.cues >= 0)
    @rule()
    def restart(self) -> None:
        async def restart() -> None:
            self.world.cues += 4  # an effect in flight has to end, or the drain waits for it
            await self.life.end()
            await self._new_life()
            await asyncio.sleep(A_MOMENT)

        self.runner.run(restart())

    @rule()
    def say_something(self) -> None:
        said = t.MessageSent(who=Actor(by="ann"), text="Nice weather.")

        def decided(view: View) -> Draft:
            verdict = decide(view.states[THREAD], said)
            return Draft({THREAD: verdict} if isinstance(verdict, tuple) else {})

        async def say() -> None:
            control = self.life.control
            await control.store.submit(Submit(control._ids(), (THREAD,), decided))
            await asyncio.sleep(A_MOMENT)

        self.runner.run(say())

    @rule()
    def answer(self) -> None:
        self.runner.run(self._answer())

    async def _answer(self) -> None:
        state = await self.life.control.state(RUN)
        for question in list(state.questions.values())[:1]:
            await self._press("answer", question.position, truth(self.world, state, question))

    async def _finish(self) -> tuple[RunState, object]:
        control = self.life.control
        with anyio.fail_after(20):
            while (state := await control.state(RUN)).alive:
                self.world.cues = EVERYTHING
                await self._answer()
                if state.phase is Phase.PAUSED:
                    await self._press("resume")
                await asyncio.sleep(A_MOMENT)
        assert unasked_repeats(await control.store.read(RUN)) == []
        return state, await control.result(RUN)

    @override
    def teardown(self) -> None:
        try:
            if hasattr(self, "life"):
                state, result = self.runner.run(self._finish())
                self.runner.run(self.life.end())
                assert Disturbances.whole == (Counter(self.world.ledger), result)
                assert (state.phase, state.driver) == (Phase.DONE, "")
                assert self.errors.found == []
        finally:
            self.runner.close()
            self.folder.cleanup()
            logging.getLogger("midflight").removeHandler(self.errors)


class DisturbancesOnDisk(Disturbances):
    """The same on a file that is closed and opened again with each life."""

    @override
    def store(self) -> AbstractAsyncContextManager[Store]:
        return SqliteStore.open(Path(self.folder.name) / "journals.db")


def bounded(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=24,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )


TestADisturbedRun = Disturbances.TestCase
TestADisturbedRun.settings = bounded(70)
TestADisturbedRunOnDisk = DisturbancesOnDisk.TestCase
TestADisturbedRunOnDisk.settings = bounded(25)
TestADisturbedRun.pytestmark = TestADisturbedRunOnDisk.pytestmark = [  # type: ignore[attr-defined]
    pytest.mark.slow,
    pytest.mark.timeout(240),
]
