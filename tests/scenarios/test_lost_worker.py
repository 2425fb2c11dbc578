"""A worker that is lost may be dead, or only out of reach: what its successor may do about it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from typing_extensions import override

from midflight.control import Control
from midflight.engines.local import LocalEngine
from midflight.kernel import events as e
from midflight.kernel.facts import record
from midflight.kernel.phases import Outcome, Phase
from midflight.kernel.state import RunState
from midflight.run import Agent, Run, agent
from midflight.stores.base import Draft, Submit, View
from midflight.stores.memory import MemoryLease, MemoryStore
from midflight.stores.sqlite_lease import Leases
from scenarios import keeper
from scenarios.conftest import failed_drivers
from scenarios.cord import doomed
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(30)]

TIMEOUT_S = 1.5


class Guessing(MemoryStore):
    """Its leases run out by time, so that nobody knows whether their drivers are dead."""

    @override
    @asynccontextmanager
    async def lease(self, driver: str) -> AsyncIterator[MemoryLease]:
        async with super().lease(driver) as lease:
            lease.proven = False
            yield lease


def one_thing(stage: Stage) -> Agent:
    make = stage.checked(timeout=TIMEOUT_S)

    @agent(f"{stage.name}-clerk")
    async def clerk(run: Run) -> object:
        return await run.step("Make a", make, "a")

    return clerk


@asynccontextmanager
async def taken_over(
    stage: Stage, store: MemoryStore, workdir: Path
) -> AsyncIterator[tuple[Control, str]]:
    """A run whose worker was lost in the middle of its effect, and which another one drives."""
    clerk = one_thing(stage)
    gate = stage.gate("a")
    async with doomed(store, clerk, workdir=workdir) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("a")
    gate.set()
    async with LocalEngine.open(store, [clerk], workdir=workdir, sweep_s=0.05) as engine:
        with anyio.fail_after(20):
            yield Control(store, engine), run


async def test_where_death_is_proved_a_check_that_says_not_done_is_enough(tmp_path: Path) -> None:
    stage = Stage("lost-proven")
    async with taken_over(stage, MemoryStore(), tmp_path) as (control, run):
        assert await control.result(run) == "made a"
        assert (await control.state(run)).notices == []  # nobody had to be waited for

    assert stage.begun == ["a", "a"]


async def test_where_death_is_guessed_it_is_repeated_only_after_its_timeout(tmp_path: Path) -> None:
    stage, began = Stage("lost-guessed"), time.monotonic()
    async with taken_over(stage, Guessing(), tmp_path) as (control, run):
        state = await control.until(run, lambda state: bool(state.notices))
        assert "The worker that began it was lost and may still be at it" in state.notices[0][1]
        assert stage.begun == ["a"]
        assert await control.result(run) == "made a"

    assert stage.begun == ["a", "a"]
    assert time.monotonic() - began >= TIMEOUT_S


async def test_what_the_lost_worker_did_after_all_is_not_repeated(tmp_path: Path) -> None:
    stage = Stage("lost-awake")
    async with taken_over(stage, Guessing(), tmp_path) as (control, run):
        await control.until(run, lambda state: bool(state.notices))
        stage.done.append("a")  # it has woken up
        assert await control.result(run) == "made a"

    assert stage.begun == ["a"]


async def test_a_cancel_does_not_call_proven_what_a_lost_worker_may_still_do(
    tmp_path: Path,
) -> None:
    stage = Stage("lost-cancelled")
    async with taken_over(stage, Guessing(), tmp_path) as (control, run):
        await control.until(run, lambda state: bool(state.notices))
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED
        (line,) = (await control.receipt(run)).lines

    assert (line.word, line.why) == ("unknown", "undo attempted")


async def test_a_wait_for_a_lost_worker_can_be_paused(tmp_path: Path) -> None:
    stage = Stage("lost-paused")
    async with taken_over(stage, Guessing(), tmp_path) as (control, run):
        await control.until(run, lambda state: bool(state.notices))
        await control.pause(run)
        await control.until(run, lambda state: state.phase is Phase.PAUSED)
        await control.resume(run)
        assert await control.result(run) == "made a"


async def test_what_it_tells_late_is_not_waited_for_by_a_function_on_its_way_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It says that nothing happened, while its successor's function has still to come so far."""
    stage, store = Stage("lost-late"), Guessing()
    make, on_its_way = stage.writer(timeout=TIMEOUT_S), anyio.Event()
    on_its_way.set()

    @agent("lost-late-clerk")
    async def clerk(run: Run) -> object:
        await on_its_way.wait()
        return await run.step("Make a", make, "a")

    gate = stage.gate("a")
    async with doomed(store, clerk, workdir=tmp_path) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("a")
        (attempt,) = (await control.state(run)).open
    gate.set()
    on_its_way = anyio.Event()
    async with LocalEngine.open(store, [clerk], workdir=tmp_path, sweep_s=0.05) as engine:
        control = Control(store, engine)
        await control.until(run, lambda state: state.epoch == 2 and not state.open)
        await anyio.sleep(0.1)
        late = e.AttemptSettled(epoch=1, attempt=attempt, outcome=Outcome.NOT_DONE)

        def told(view: View) -> Draft:
            state = view.states[run]
            assert isinstance(state, RunState)
            return Draft({run: record(state, late)})

        await store.submit(Submit("late", (run,), told))
        on_its_way.set()
        with anyio.fail_after(20):
            assert await control.result(run) == "made a"
        assert (await control.state(run)).epoch == 2

    assert stage.begun == ["a", "a"]
    assert failed_drivers(caplog) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the supervisor proves it on Linux")
def test_a_driver_counts_as_living_until_its_process_tools_are_dead(tmp_path: Path) -> None:
    """Or a check could say *not done* of what a tool, not yet dead, is just about to do."""
    driver = subprocess.Popen(
        [sys.executable, keeper.__file__, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        tool, supervisor = keeper.pids(tmp_path)
        (lock,) = (tmp_path / "journals.db.d" / "drivers").glob("*.lock")
        leases = Leases(lock.parent)
        os.kill(supervisor, signal.SIGSTOP)
        driver.kill()
        driver.wait(10)
        assert not leases.gone(lock.stem)

        os.kill(supervisor, signal.SIGCONT)
        deadline = time.monotonic() + 10
        while not leases.gone(lock.stem):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        assert not Path(f"/proc/{tool}").exists()
    finally:
        driver.kill()
        driver.wait(10)
