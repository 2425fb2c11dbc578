"""A plan is what people see: it waits while the run is held, and is set when the call returns."""

from __future__ import annotations

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.errors import InvalidRequest
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.status import status
from midflight.run import Redirected, Run
from midflight.tools.declaration import tool
from scenarios.company import events
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


def planner(stage: Stage) -> Agent:
    """Makes a thing, plans, and reads; a pause while it makes the thing holds it at the plan."""
    make, look = stage.writer(), stage.reader()
    stage.gate("thing")

    @agent(stage.name)
    async def plans(run: Run) -> list[str]:
        briefs = [run.brief]
        await run.step("Make", make, "thing")
        try:
            await run.plan("Read", "Go home")
        except Redirected as told:
            briefs.append(told.brief)
            await run.plan("Read", told.brief)
        stage.note(stage.done, "planned")
        await run.step("Read", look, "book")
        return briefs

    return plans


async def test_a_plan_that_is_made_while_the_run_is_held_waits_and_is_set_then(
    driving: Open,
) -> None:
    stage = Stage("plan-held")
    plans = planner(stage)

    async with driving(plans) as control:
        run = await control.start(plans, "work")
        await stage.until_begun("thing")
        accepted = await control.pause(run)
        stage.gate("thing").set()
        await control.applied(accepted)
        await anyio.sleep(0.1)
        assert (stage.done, (await control.state(run)).plan) == (["thing"], ())

        await control.resume(run)
        assert (await control.ended(run)).plan == ("Read", "Go home")
        assert len(await events(control.store, run, e.PlanSet)) == 1


async def test_a_plan_is_set_once_also_after_a_crash(driving: Open, crashing: Open) -> None:
    stage = Stage("plan-crash")
    plans = planner(stage)
    stage.gate("thing").set()
    stage.gate("book")

    async with crashing(plans) as control:
        run = await control.start(plans, "work")
        await stage.until_begun("book")
    stage.gate("book").set()
    async with driving(plans) as control:
        assert await control.result(run) == ["work"]
        assert len(await events(control.store, run, e.PlanSet)) == 1


async def test_a_plan_that_was_made_before_another_waits_for_nothing_at_replay(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("plan-replay")
    look = stage.reader()
    stage.gate("c")

    @agent("plan-replay")
    async def plans(run: Run) -> None:
        for what in "abc":
            await run.plan(f"Read {what}")
            await run.step("Read", look, what)

    async with crashing(plans) as control:
        run = await control.start(plans, "work")
        await stage.until_begun("c")
    stage.gate("c").set()
    async with driving(plans) as control:
        assert (await control.ended(run)).phase is Phase.DONE
        made = await events(control.store, run, e.PlanSet)
        assert [plan.steps for plan in made] == [("Read a",), ("Read b",), ("Read c",)]


async def test_a_redirect_is_heard_where_a_plan_waits_and_at_replay_too(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("plan-redirect")
    plans = planner(stage)
    stage.gate("book")

    async with crashing(plans) as control:
        run = await control.start(plans, "work")
        await stage.until_begun("thing")
        accepted = await control.pause(run)
        stage.gate("thing").set()
        await control.applied(accepted)
        await control.redirect(run, "rest", resume=True)
        await stage.until_begun("book")
        assert (await control.state(run)).plan == ("Read", "rest")
    stage.gate("book").set()
    async with driving(plans) as control:
        assert await control.result(run) == ["work", "rest"]
        assert (await control.ended(run)).plan == ("Read", "rest")
        assert stage.done.count("thing") == 1


async def test_a_cancel_is_heard_where_a_plan_waits(driving: Open) -> None:
    stage = Stage("plan-cancel")
    plans = planner(stage)

    async with driving(plans) as control:
        run = await control.start(plans, "work")
        await stage.until_begun("thing")
        accepted = await control.pause(run)
        stage.gate("thing").set()
        await control.applied(accepted)
        await control.cancel(run)

        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert stage.done == ["thing", "undone thing"]


async def test_nothing_is_planned_inside_a_step(driving: Open) -> None:
    """A pause waits for the step, and the plan would wait for the pause."""

    @agent("plan-inside")
    async def plans(run: Run) -> None:
        @tool(effect="read", name="plan-inside.look")
        async def look() -> None:
            with pytest.raises(InvalidRequest, match=r"run.plan cannot be used inside a step"):
                await run.plan("Look")

        await run.step("Look", look)

    async with driving(plans) as control:
        run = await control.start(plans, "work")
        assert (await control.ended(run)).phase is Phase.DONE


async def test_steps_of_a_background_run_are_no_steps_of_the_plan(driving: Open) -> None:
    stage = Stage("plan-child")
    look = stage.reader()
    stage.gate("book")

    @agent(f"{stage.name}-child")
    async def child(run: Run) -> None:
        await run.step("Look", look, "leaf")
        await run.step("Look", look, "stem")

    @agent(stage.name)
    async def plans(run: Run) -> None:
        await run.plan("Read", "Go home")
        await (await run.spawn(child, "look around")).result()
        await run.step("Read", look, "book")

    async with driving(plans, child) as control:
        run = await control.start(plans, "work")
        await stage.until_begun("book")
        assert status(await control.state(run), 0.0).startswith("working: Read, step 1 of 2")
        stage.gate("book").set()
        await control.ended(run)
