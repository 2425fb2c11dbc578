"""What every engine promises: a run that wants a driver gets one, whoever dies or forgets.

What none of them can break is the journal's: see the tests with two drivers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest
from msgspec.structs import replace

from engines.conftest import Host
from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.run import Run
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

PATIENCE_S = 30.0


@pytest.fixture(autouse=True)
async def bound() -> AsyncIterator[None]:
    with anyio.fail_after(PATIENCE_S):
        yield


@pytest.fixture
def stage(request: pytest.FixtureRequest) -> Stage:
    return Stage(request.node.name)


def clerk_of(stage: Stage, *things: str) -> Agent:
    """Makes some things, one after the other."""
    make = stage.writer()

    @agent(f"{stage.name}-clerk")
    async def clerk(run: Run) -> list[object]:
        return [await run.step(f"Make {thing}", make, thing) for thing in things]

    return clerk


def asker_of(stage: Stage) -> Agent:
    """Asks before it makes something, and is let go as soon as it rests."""
    make = stage.writer()

    @agent(f"{stage.name}-asker")
    async def asker(run: Run) -> object:
        answer = await run.ask("What?")
        return await run.step("Make it", make, str(answer.payload))

    return replace(asker, evict_after=0.0)


async def claims(control: Control, run: str) -> int:
    """How many drivers it has had."""
    return sum(isinstance(r.event, e.DriverClaimed) for r in await control.store.read(run))


async def let_go(control: Control, run: str) -> None:
    await control.until(run, lambda state: not state.driver)


async def test_a_run_that_was_started_is_driven_to_its_end(host: Host, stage: Stage) -> None:
    clerk = clerk_of(stage, "a", "b")
    async with host(clerk) as engine:
        control = Control(host.store, engine)
        run = await control.start(clerk, "work")
        assert await control.result(run) == ["made a", "made b"]
        await let_go(control, run)

    assert stage.begun == ["a", "b"]


async def test_asked_for_many_times_at_once_it_has_one_driver(host: Host, stage: Stage) -> None:
    clerk, gate = clerk_of(stage, "a"), stage.gate("a")
    async with host(clerk) as engine:
        control = Control(host.store, engine)
        run = await control.start(clerk, "work")
        async with anyio.create_task_group() as many:
            for _ in range(50):
                many.start_soon(engine.ensure, run)
        await stage.until_begun("a")
        for _ in range(50):
            await engine.ensure(run)
        gate.set()
        await control.ended(run)
        assert await claims(control, run) == 1

    assert stage.begun == ["a"]


async def test_asking_for_what_needs_no_driver_does_nothing(host: Host, stage: Stage) -> None:
    clerk, asker = clerk_of(stage, "a"), asker_of(stage)
    async with host(clerk, asker) as engine:
        control = Control(host.store, engine)
        ended, rests = await control.start(clerk, "work"), await control.start(asker, "ask")
        await control.ended(ended)
        await control.until(rests, lambda state: state.phase is Phase.WAITING)
        for run in (ended, rests):
            await let_go(control, run)
        before = [await claims(control, run) for run in (ended, rests)]

        for run in (ended, rests, "r-nobody-knows-it"):
            await engine.ensure(run)
        await control.result(await control.start(clerk, "work"))  # what was asked before is over

        assert [await claims(control, run) for run in (ended, rests)] == before


async def test_what_is_asked_of_a_run_that_was_let_go_is_heard(host: Host, stage: Stage) -> None:
    asker = asker_of(stage)
    async with host(asker) as engine:
        control = Control(host.store, engine)
        run = await control.start(asker, "ask")
        state = await control.until(run, lambda state: state.phase is Phase.WAITING)
        await let_go(control, run)
        await control.answer(run, next(iter(state.questions)), "tea")

        assert await control.result(run) == "made tea"


async def test_who_dies_between_append_and_ensure_leaves_it_to_the_sweep(
    host: Host, stage: Stage
) -> None:
    clerk, nobody_is_told = clerk_of(stage, "a"), Control(host.store)
    async with host(clerk) as engine:
        run = await nobody_is_told.start(clerk, "work")

        assert await Control(host.store, engine).result(run) == ["made a"]


async def test_nothing_is_lost_in_the_moment_in_which_a_driver_leaves(
    host: Host, stage: Stage
) -> None:
    """It leaves by a decision, so what was asked before it is seen, and after it there is none."""
    clerk = replace(clerk_of(stage, "a", "b"), evict_after=0.0)
    gate = stage.gate("b")
    async with host(clerk, sweep_s=0.5) as engine:
        control = Control(host.store, engine)
        run = await control.start(clerk, "work")
        await stage.until_begun("a")
        for number in range(10):
            await control.pause(run)
            await anyio.sleep(number / 1000)
            await control.resume(run)
        gate.set()

        assert await control.result(run) == ["made a", "made b"]
    assert stage.begun == ["a", "b"]


async def test_a_run_is_driven_by_one_of_two_at_once(host: Host, stage: Stage) -> None:
    things = [f"thing {number}" for number in range(5)]
    clerk = clerk_of(stage, *things)
    async with host(clerk) as one, host(clerk) as other:
        control = Control(host.store, one)
        runs = [await control.start(clerk, "work") for _ in range(5)]
        for run in runs:
            await other.ensure(run)
        for run in runs:
            assert await control.result(run) == [f"made {thing}" for thing in things]

    assert sorted(stage.begun) == sorted(things * 5)
    assert len(set(stage.keys)) == 25


async def test_who_leaves_in_good_order_is_followed_by_another(host: Host, stage: Stage) -> None:
    clerk, gate = clerk_of(stage, "a", "b"), stage.gate("a")
    async with host(clerk) as stays:
        control = Control(host.store, stays)
        async with host(clerk) as leaves:
            run = await Control(host.store, leaves).start(clerk, "work")
            await stage.until_begun("a")
            gate.set()

        assert await control.result(run) == ["made a", "made b"]
    assert stage.begun == ["a", "b"]
