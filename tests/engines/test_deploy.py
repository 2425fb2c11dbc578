"""New code beside old: runs finish where they are, or are moved over on purpose."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from engines.conftest import RestateHost
from engines.link import linked
from midflight.control import Control
from midflight.engines.base import Engine
from midflight.run import Agent, Run, agent
from scenarios.stage import Stage

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.postgres,
    pytest.mark.node,
    pytest.mark.timeout(60),
]


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
