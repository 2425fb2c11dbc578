"""A worker that is lost may be dead, or only out of reach: what its successor may do about it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest
from typing_extensions import override

from forks import Forked
from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.journal import events as e
from midflight.journal.facts import record
from midflight.journal.phases import Outcome, Phase, Role
from midflight.journal.record import Actor
from midflight.journal.state import RunState
from midflight.run import Run
from midflight.runtime.steps.step_recovery import SLACK_S
from midflight.stores.memory import MemoryLease, MemoryStore
from midflight.stores.protocol import Draft, Query, Submit, View
from midflight.stores.sqlite import SqliteStore
from midflight.tools.declaration import REGISTRY, Done, NotDone, register, tool
from midflight.tools.options import EffectRecord
from midflight.tools.processes.supervised import OVERTIME_S
from scenarios import keeper
from scenarios.conftest import failed_drivers
from scenarios.cord import doomed
from scenarios.hours import Hours
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(30)]

TIMEOUT_S = 15.0
OVER_S = TIMEOUT_S + OVERTIME_S + SLACK_S  # from when on a lost worker cannot be at it any more


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


async def it_is_over(hours: Hours) -> None:
    """Let the time pass in which a lost worker may still be at it, once that is waited for."""
    await anyio.sleep(0.05)
    hours.skip(OVER_S)


@asynccontextmanager
async def taken_over(
    stage: Stage,
    store: MemoryStore,
    workdir: Path,
    hours: Hours,
    *,
    found_after: float = 0,
    newer: float | None = None,
    ahead: float = 0,
) -> AsyncIterator[tuple[Control, str]]:
    """A run whose worker was lost in the middle of its effect, and which another one drives.

    In ``newer`` code its tool has that timeout; the clock of the other one may be ``ahead``.
    """
    clerk = one_thing(stage)
    gate = stage.gate("a")
    async with doomed(store, clerk, workdir=workdir, clock=hours.now) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("a")
    gate.set()
    hours.skip(found_after)
    if newer is not None:
        register(msgspec.structs.replace(REGISTRY[f"{stage.name}.make"], timeout=newer))
    async with LocalEngine.open(
        store, [clerk], workdir=workdir, sweep_s=0.05, clock=lambda: hours.now() + ahead
    ) as engine:
        with hours.bounded(20):
            yield Control(store, engine), run


async def test_where_death_is_proved_a_check_that_says_not_done_is_enough(
    tmp_path: Path, hours: Hours
) -> None:
    stage = Stage("lost-proven")
    async with taken_over(stage, MemoryStore(hours.now), tmp_path, hours) as (control, run):
        assert await control.result(run) == "made a"
        assert (await control.state(run)).notices == []  # nobody had to be waited for

    assert stage.begun == ["a", "a"]


async def test_where_death_is_guessed_it_is_repeated_only_after_its_timeout(
    tmp_path: Path, hours: Hours
) -> None:
    stage = Stage("lost-guessed")
    async with taken_over(stage, Guessing(hours.now), tmp_path, hours) as (control, run):
        state = await control.until(run, lambda state: bool(state.notices))
        assert "The worker that began it was lost and may still be at it" in state.notices[0][1]
        hours.skip(TIMEOUT_S / 2)
        await anyio.sleep(0.1)
        assert stage.begun == ["a"]
        await it_is_over(hours)
        assert await control.result(run) == "made a"
        records = await control.store.read(run)

    assert stage.begun == ["a", "a"]
    (_, found) = [r for r in records if isinstance(r.event, e.DriverClaimed)]
    (_, again) = [r for r in records if isinstance(r.event, e.AttemptStarted)]
    assert again.at >= found.at + TIMEOUT_S


async def test_it_may_have_begun_just_before_it_was_found_to_be_lost(
    tmp_path: Path, hours: Hours
) -> None:
    """Its start was on record before; when it heard of that and began nobody can know."""
    stage = Stage("lost-long-ago")
    found = taken_over(stage, Guessing(hours.now), tmp_path, hours, found_after=OVER_S + 1)
    async with found as (control, run):
        await control.until(run, lambda state: bool(state.notices))
        stage.done.append("a")
        await it_is_over(hours)
        assert await control.result(run) == "made a"

    assert stage.begun == ["a"]


async def test_of_a_thread_that_was_lost_a_person_is_asked_whatever_its_check_says(
    tmp_path: Path,
) -> None:
    """Nobody can end it, so that it may still do it at any time."""
    begun, world, go = threading.Event(), list[str](), threading.Event()

    def look_up(performed: EffectRecord) -> object:
        return Done("sent") if world else NotDone()

    @tool(
        effect="once",
        name="lost-thread.send",
        label="letter",
        check=look_up,
        settles_within=0,
        timeout=TIMEOUT_S,
    )
    def send() -> str:
        begun.set()
        go.wait(20)
        return "sent"

    @agent("lost-thread-clerk")
    async def clerk(run: Run) -> object:
        return await run.step("Send", send)

    store = Guessing()
    try:
        async with doomed(store, clerk, workdir=tmp_path) as control:
            run = await control.start(clerk, "work")
            await anyio.to_thread.run_sync(begun.wait, 10)
            go.set()
        async with LocalEngine.open(store, [clerk], workdir=tmp_path, sweep_s=0.05) as engine:
            control = Control(store, engine)
            with anyio.fail_after(20):
                state = await control.until(run, lambda state: bool(state.questions))
                ((position, question),) = state.questions.items()
                assert "a thread has no end that is certain" in question.message
                assert "may still be at it" in question.message
                await control.answer(run, position, "happened")
                await control.ended(run)
    finally:
        go.set()


async def test_a_check_that_looked_too_early_proves_nothing_when_it_answers(
    tmp_path: Path, hours: Hours
) -> None:
    """It is slow: the lost worker did it after the look and before the answer."""
    world, begun, looks = list[str](), anyio.Event(), 0

    async def look_up(performed: EffectRecord) -> object:
        nonlocal looks
        looks, found = looks + 1, bool(world)
        if looks == 1:
            world.append("by the lost worker")
            hours.skip(OVER_S)
        return Done("found") if found else NotDone()

    @tool(
        effect="once",
        name="lost-slow-check.send",
        check=look_up,
        settles_within=0,
        timeout=TIMEOUT_S,
    )
    async def send() -> str:
        if not begun.is_set():
            begun.set()
            await anyio.sleep_forever()
        world.append("by its successor")
        return "sent"

    @agent("lost-slow-check-clerk")
    async def clerk(run: Run) -> object:
        return await run.step("Send", send)

    store = Guessing(hours.now)
    async with doomed(store, clerk, workdir=tmp_path, clock=hours.now) as control:
        run = await control.start(clerk, "work")
        await begun.wait()
    async with LocalEngine.open(
        store, [clerk], workdir=tmp_path, sweep_s=0.05, clock=hours.now
    ) as engine:
        control = Control(store, engine)
        with hours.bounded(20):
            await control.until(run, lambda state: bool(state.notices))
            assert (world, looks) == (["by the lost worker"], 1)
            await it_is_over(hours)
            assert await control.result(run) == "found"

    assert (world, looks) == (["by the lost worker"], 2)


async def test_the_lost_workers_timeout_counts_and_not_that_of_newer_code(
    tmp_path: Path, hours: Hours
) -> None:
    stage = Stage("lost-older")
    async with taken_over(stage, Guessing(hours.now), tmp_path, hours, newer=0.01) as (
        control,
        run,
    ):
        await control.until(run, lambda state: bool(state.notices))
        hours.skip(OVERTIME_S + SLACK_S + 0.3)
        await anyio.sleep(0.1)
        assert stage.begun == ["a"]
        await it_is_over(hours)
        assert await control.result(run) == "made a"


async def test_a_workers_clock_that_is_ahead_makes_no_lost_one_ended(
    tmp_path: Path, hours: Hours
) -> None:
    stage = Stage("lost-ahead")
    async with taken_over(stage, Guessing(hours.now), tmp_path, hours, ahead=3600) as (
        control,
        run,
    ):
        await control.until(run, lambda state: bool(state.notices))
        stage.done.append("a")
        await it_is_over(hours)
        assert await control.result(run) == "made a"

    assert stage.begun == ["a"]


async def test_after_a_kill_the_worker_lives_and_its_thread_may_still_do_it(tmp_path: Path) -> None:
    """Although on this store a worker that is gone is proved to be dead."""
    begun, go, world = threading.Event(), threading.Event(), list[str]()

    def look_up(performed: EffectRecord) -> object:
        return Done("sent") if world else NotDone()

    @tool(effect="once", name="killed-thread.send", label="letter", check=look_up, settles_within=0)
    def send() -> str:
        begun.set()
        go.wait(20)
        world.append("sent")
        return "sent"

    @agent("killed-thread-clerk")
    async def clerk(run: Run) -> object:
        return await run.step("Send", send)

    store, olga = MemoryStore(), Actor("olga", role=Role.OPERATOR)
    async with (
        LocalEngine.open(store, [clerk], workdir=tmp_path / "a", sweep_s=0.05) as here,
        LocalEngine.open(store, [clerk], workdir=tmp_path / "b", sweep_s=0.05) as there,
    ):
        try:
            with anyio.fail_after(20):
                control = Control(store, here)
                run = await control.start(clerk, "work")
                await anyio.to_thread.run_sync(begun.wait, 10)
                await control.kill("all", who=olga)
                await control.release("all", who=olga)
                await control.recover(run, who=olga)
                control = Control(store, there)
                await control.resume(run)
                state = await control.until(run, lambda state: bool(state.questions))
                (question,) = state.questions.values()
                assert "a thread has no end that is certain" in question.message
                (line,) = (await control.receipt(run)).lines
                assert line.text == "letter: unknown (cut off)"
                go.set()  # and it does: then nobody need be asked
                assert await control.result(run) == "sent"
        finally:
            go.set()

    assert world == ["sent"]


async def test_what_the_lost_worker_did_after_all_is_not_repeated(
    tmp_path: Path, hours: Hours
) -> None:
    stage = Stage("lost-awake")
    async with taken_over(stage, Guessing(hours.now), tmp_path, hours) as (control, run):
        await control.until(run, lambda state: bool(state.notices))
        stage.done.append("a")  # it has woken up
        await it_is_over(hours)
        assert await control.result(run) == "made a"

    assert stage.begun == ["a"]


async def test_a_cancel_does_not_call_proven_what_a_lost_worker_may_still_do(
    tmp_path: Path, hours: Hours
) -> None:
    stage = Stage("lost-cancelled")
    async with taken_over(stage, Guessing(hours.now), tmp_path, hours) as (control, run):
        await control.until(run, lambda state: bool(state.notices))
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED
        (line,) = (await control.receipt(run)).lines

    assert (line.word, line.why) == ("unknown", "undo attempted")


async def test_a_wait_for_a_lost_worker_can_be_paused(tmp_path: Path, hours: Hours) -> None:
    stage = Stage("lost-paused")
    async with taken_over(stage, Guessing(hours.now), tmp_path, hours) as (control, run):
        await control.until(run, lambda state: bool(state.notices))
        await control.pause(run)
        await control.until(run, lambda state: state.phase is Phase.PAUSED)
        await control.resume(run)
        await it_is_over(hours)
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


def keeper_in(folder: Path) -> subprocess.Popen[bytes]:
    return Forked(
        [sys.executable, keeper.__file__, str(folder)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the supervisor proves it on Linux")
async def test_a_driver_counts_as_living_until_its_process_tools_are_dead(tmp_path: Path) -> None:
    """Or a check could say *not done* of what a tool, not yet dead, is just about to do."""
    driver = keeper_in(tmp_path)
    try:
        tool, supervisor = keeper.pids(tmp_path)
        async with SqliteStore.open(tmp_path / "journals.db") as store:
            (row,) = await store.rows(Query())
            os.kill(supervisor, signal.SIGSTOP)
            driver.kill()
            driver.wait(10)
            assert not await store.lease_gone(row.driver)

            os.kill(supervisor, signal.SIGCONT)
            deadline = time.monotonic() + 10
            while not await store.lease_gone(row.driver):
                assert time.monotonic() < deadline
                await anyio.sleep(0.001)
            assert not Path(f"/proc/{tool}").exists()
    finally:
        driver.kill()
        driver.wait(10)
