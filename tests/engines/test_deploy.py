"""New code beside old: runs finish where they are, or are moved over on purpose."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from engines.conftest import ON_RESTATE, RestateHost
from engines.link import linked
from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.engines.local_engine import Engine
from midflight.journal.phases import Cause
from midflight.run import Run
from scenarios.stage import Stage

pytestmark = ON_RESTATE


def clerk_of(stage: Stage, code: str) -> Agent:
    """The same agent, and which code it is."""
    make = stage.writer()

    @agent("deployed.clerk")
    async def clerk(run: Run) -> str:
        await run.step(f"Make {run.brief}", make, run.brief)
        return code

    return clerk


@asynccontextmanager
async def deployed(host: RestateHost, clerk: Agent) -> AsyncIterator[Engine]:
    """A worker with this code, at an address that is its own."""
    async with linked() as link:
        host.link = link
        async with host(clerk) as engine:
            yield engine


async def until_it_is_the_newest(control: Control, clerk: Agent, code: str) -> None:
    with anyio.fail_after(20):
        while await control.result(await control.start(clerk, "probe")) != code:  # noqa: ASYNC110
            await anyio.sleep(0.1)  # Restate is told beside us


async def test_a_run_at_work_finishes_on_old_code_and_a_new_one_begins_on_new(
    restate_host: RestateHost,
) -> None:
    stage = Stage("deploy")
    gate = stage.gate("slow")
    async with deployed(restate_host, clerk_of(stage, "old")) as old:
        control = Control(restate_host.store, old)
        run = await control.start("deployed.clerk", "slow")
        await stage.until_begun("slow")
        new_code = clerk_of(stage, "new")
        async with deployed(restate_host, new_code) as new:
            control = Control(restate_host.store, new)
            await until_it_is_the_newest(control, new_code, "new")
            gate.set()

            assert await control.result(run) == "old"


async def test_a_worker_with_old_code_that_leaves_moves_its_runs_to_new_code(
    restate_host: RestateHost,
) -> None:
    stage = Stage("moved")
    gate = stage.gate("slow")
    new_code = clerk_of(stage, "new")
    async with deployed(restate_host, clerk_of(stage, "old")) as old:
        control = Control(restate_host.store, old)
        run = await control.start("deployed.clerk", "slow")
        await stage.until_begun("slow")
    gate.set()
    async with deployed(restate_host, new_code) as new:
        control = Control(restate_host.store, new)
        state = await control.until(run, lambda state: bool(state.questions) or not state.alive)
        for question in state.questions:  # it was in flight beyond the drain: nobody knows
            await control.answer(run, question, "again")

        assert await control.result(run) == "new"


def builder_of(stage: Stage, code: str) -> Agent:
    """Makes three things, and says which code has made the last."""
    make = stage.writer()

    @agent("deployed.builder")
    async def builder(run: Run) -> str:
        for thing in ("floor", "walls", "roof"):
            await run.step(f"Make the {thing}", make, thing)
        return code

    return builder


async def test_what_was_finished_on_old_code_is_not_done_again_on_new_code_and_nobody_is_asked(
    restate_host: RestateHost,
) -> None:
    stage = Stage("moved-whole")
    gate = stage.gate("walls")
    control = Control(restate_host.store)

    async def end_in_good_order(run: str) -> None:
        with anyio.fail_after(20):
            await control.until(run, lambda state: Cause.DRAIN in state.holds)
        gate.set()

    async with (
        anyio.create_task_group() as beside,
        deployed(restate_host, builder_of(stage, "old")) as old,
    ):
        run = await Control(restate_host.store, old).start("deployed.builder", "a house")
        await stage.until_begun("walls")
        beside.start_soon(end_in_good_order, run)
    assert (await control.state(run)).holds == {Cause.DRAIN}
    async with deployed(restate_host, builder_of(stage, "new")):
        assert await control.result(run) == "new"
    assert stage.begun == ["floor", "walls", "roof"]
    assert "unknown" not in str(await control.receipt(run))
