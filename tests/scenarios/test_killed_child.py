"""A background run that an operator has killed can be brought back, and goes on where it was."""

from __future__ import annotations

import anyio
import pytest

from midflight.agents import agent
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.run import Run
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

OLGA = Actor("olga", Role.OPERATOR)


async def test_a_killed_child_stays_resumable(driving: Open) -> None:
    stage = Stage("killed-child")
    make, look = stage.writer(), stage.reader()
    stage.gate("slow")

    @agent("killed-child.helper")
    async def helper(run: Run) -> list[str]:
        first = await run.step("Make", make, "a")
        return [first, await run.step("Look", look, "slow")]

    @agent("killed-child.chief")
    async def chief(run: Run) -> str:
        return (await run.spawn(helper, "help")).id

    async with driving(chief, helper) as control:
        child = await control.result(await control.start(chief, "work"))
        await stage.until_begun("slow")
        await control.kill("agent:killed-child.helper", who=OLGA)
        assert (await control.state(child)).phase is Phase.KILLED
        await control.release("agent:killed-child.helper", who=OLGA)
        await control.recover(child, who=OLGA)
        stage.gate("slow").set()
        await control.resume(child)

        with anyio.fail_after(10):
            assert await control.result(child) == ["made a", "SLOW"]
        assert stage.done.count("a") == 1
