"""What may begin: a stop that comes in the last moment, and a driver whose lease is not sure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from typing_extensions import override

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.journal.events import AttemptStarted
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import RUN_PREFIX, Append, Committed, Query, Submit
from midflight.tools.options import EffectName
from scenarios.conftest import failed_drivers
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio

EFFECTS = pytest.mark.parametrize("effect", ["once", "write"])
Strike = Callable[[], Awaitable[Any]]


class LastMoment(MemoryStore):
    """Somebody presses a button just before, or just after, the start of an effect is written."""

    before: Strike | None = None
    after: Strike | None = None

    @override
    async def append(self, decision: Append) -> Committed:
        if not any(isinstance(event, AttemptStarted) for event in decision.entries[0].events):
            return await super().append(decision)
        await self._press("before")
        done = await super().append(decision)
        await self._press("after")
        return done

    async def _press(self, when: str) -> None:
        strike: Strike | None = getattr(self, when)
        setattr(self, when, None)  # once
        if strike is not None:
            await strike()


@asynccontextmanager
async def driven(
    store: MemoryStore, agent: Agent, workdir: Path
) -> AsyncIterator[tuple[Control, LocalEngine]]:
    async with LocalEngine.open(store, [agent], workdir=workdir, sweep_s=0.05) as engine:
        yield Control(store, engine), engine


@EFFECTS
async def test_a_cancel_between_the_record_of_a_start_and_its_first_line_prevents_it(
    tmp_path: Path, effect: EffectName
) -> None:
    stage, store = Stage(f"start-after-{effect}"), LastMoment()
    make = stage.writer(effect=effect)

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")

    async with driven(store, clerk, tmp_path) as (control, _):

        async def cancel() -> None:
            (row,) = await store.rows(Query())
            await control.cancel(row.journal)

        store.after = cancel
        run = await control.start(clerk, "work")
        assert (await control.ended(run)).phase is Phase.CANCELLED

    assert stage.begun == []


@EFFECTS
async def test_a_pause_just_before_a_start_is_written_lets_it_begin_after_the_resume(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, effect: EffectName
) -> None:
    stage, store = Stage(f"start-before-{effect}"), LastMoment()
    make = stage.writer(effect=effect)

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")

    async with driven(store, clerk, tmp_path) as (control, _):

        async def pause() -> None:
            (row,) = await store.rows(Query())
            await control.pause(row.journal)

        store.before = pause
        run = await control.start(clerk, "work")
        with anyio.fail_after(10):
            await control.until(run, lambda state: state.phase is Phase.PAUSED)
        assert stage.begun == []
        await control.resume(run)

        assert (await control.ended(run)).phase is Phase.DONE
    assert stage.begun == ["a"]
    assert failed_drivers(caplog) == []  # it has not even asked for what the table refuses


class BeforeSpawn(LastMoment):
    """The same before a child is begun."""

    @override
    async def submit(self, request: Submit) -> Committed:
        if request.new and request.journals[-1].startswith(RUN_PREFIX):
            await self._press("before")
        return await super().submit(request)


async def test_a_pause_just_before_a_spawn_lets_it_begin_after_the_resume(tmp_path: Path) -> None:
    store = BeforeSpawn()

    @agent("spawned-late")
    async def leaf(run: Run) -> str:
        return "grown"

    @agent("spawns")
    async def clerk(run: Run) -> object:
        return await (await run.spawn(leaf, "grow")).result()

    async with LocalEngine.open(store, [clerk, leaf], workdir=tmp_path, sweep_s=0.05) as engine:
        control = Control(store, engine)

        async def pause() -> None:
            (row,) = await store.rows(Query())
            await control.pause(row.journal)

        store.before = pause
        run = await control.start(clerk, "work")
        with anyio.fail_after(10):
            state = await control.until(run, lambda state: state.phase is Phase.PAUSED)
            assert state.children == {}
            await control.resume(run)
            assert await control.result(run) == "grown"


@pytest.mark.slow
async def test_a_driver_that_is_not_sure_of_its_lease_starts_nothing_until_it_is(
    tmp_path: Path,
) -> None:
    stage, store = Stage("start-lease"), MemoryStore()
    make, ready = stage.writer(), anyio.Event()

    @agent()
    async def clerk(run: Run) -> None:
        await ready.wait()
        await run.step("Make a", make, "a")

    async with driven(store, clerk, tmp_path) as (control, engine):
        run = await control.start(clerk, "work")
        await control.until(run, lambda state: state.entered)
        lease: Any = engine._crew._lease
        lease.held = False  # as when a server could not be told in time that we live
        ready.set()
        await anyio.sleep(0.3)
        assert stage.begun == []

        lease.held = True
        with anyio.fail_after(10):
            assert (await control.ended(run)).phase is Phase.DONE
    assert stage.begun == ["a"]
