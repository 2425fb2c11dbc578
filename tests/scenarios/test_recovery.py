"""What a driver finds when it takes over, and what must not bring it down."""

from __future__ import annotations

import pytest

from midflight.kernel.phases import Phase
from midflight.run import Run, agent
from midflight.tools.base import tool
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


async def test_a_model_call_is_aborted_by_a_pause_and_made_again_after_a_crash(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("model")
    think = stage.writer(effect="model", undo=None)
    stage.gate("plan")

    @agent()
    async def thinker(run: Run) -> object:
        return await run.step("Think", think, "plan")

    async with crashing(thinker) as control:
        run = await control.start(thinker, "think")
        await stage.until_begun("plan")
        await control.applied(await control.pause(run))
        await control.resume(run)
        await stage.until_begun("plan", times=2)

    stage.gate("plan").set()
    async with driving(thinker) as control:
        assert await control.result(run) == "made plan"
    assert (stage.begun, stage.done) == (["plan"] * 3, ["plan"])


async def test_a_model_call_that_fails_is_a_step_that_failed(driving: Open) -> None:
    @tool(effect="model", name="model.fails")
    async def think() -> str:
        raise ConnectionError("overloaded")

    @agent()
    async def thinker(run: Run) -> object:
        return await run.step("Think", think)

    async with driving(thinker) as control:
        state = await control.ended(await control.start(thinker, "think"))
        assert state.phase is Phase.FAILED
        assert "step 'Think' failed: ConnectionError: overloaded" in state.error
