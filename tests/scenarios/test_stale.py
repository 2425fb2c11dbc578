"""A function that comes back other than it went: nothing is done before a person has said so."""

from __future__ import annotations

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.journal.phases import Phase
from midflight.run import Run
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


def changing(stage: Stage) -> Agent:
    """Makes a and reads; called again it has forgotten all that and ends early."""
    make, look = stage.writer(), stage.reader()
    stage.gate("slow")
    entered: list[str] = []

    @agent()
    async def clerk(run: Run) -> str:
        entered.append("entered")
        if len(entered) == 1:
            await run.step("Make a", make, "a")
            await run.step("Read", look, "slow")
        return "early"

    return Agent("clerk", clerk.function, evict_after=0.01)


async def come_back(control: Control, stage: Stage, clerk: Agent) -> tuple[str, int]:
    run = await control.start(clerk, "work")
    await stage.until_begun("slow")
    await control.pause(run)
    await control.until(run, lambda state: state.phase is Phase.PAUSED and not state.driver)
    await control.resume(run)
    held = await control.until(run, lambda state: bool(state.questions))
    (question,) = held.questions.values()
    assert question.message == (
        "The agent's code has changed: expected Make a, found its end. Already done: thing. "
        "What now?"
    )
    return run, question.position


@pytest.mark.parametrize("left", [False, True, "just now"])
@pytest.mark.parametrize(("choice", "end"), [("go on", Phase.DONE), ("cancel", Phase.CANCELLED)])
async def test_a_function_that_ends_early_is_asked_about_and_the_answer_is_followed(
    driving: Open, choice: str, end: Phase, left: object
) -> None:
    stage = Stage(f"stale-{choice}-{left}")
    clerk = changing(stage)
    async with driving(clerk) as control:
        with anyio.fail_after(10):
            run, question = await come_back(control, stage, clerk)
            if left == "just now":  # it may be about to be let go, or not yet
                await control.until(run, lambda state: state.phase is Phase.PAUSED)
                await anyio.sleep(0.01)
            elif left:
                await control.until(run, lambda state: not state.driver)
            await control.answer(run, question, choice)
            assert (await control.ended(run)).phase is end

        assert stage.done == (["a", "undone a"] if choice == "cancel" else ["a"])
