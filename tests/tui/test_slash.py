"""What is written behind a slash does what its name says, also where no key leads."""

from __future__ import annotations

import pytest

from midflight.agents import agent
from midflight.interfaces.tui.bar_widget import Card
from midflight.journal.phases import Phase
from midflight.journal.record import Limits
from midflight.run import Run
from scenarios.conftest import Open
from scenarios.stage import Stage
from tui.screen import looking

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(180)]


async def test_a_run_is_taken_over_and_handed_back_with_a_word(driving: Open) -> None:
    stage = Stage("slash-over")
    build = stage.writer()
    stage.gate("wall")

    @agent("builder")
    async def builds(run: Run) -> None:
        await run.step("Build", build, "wall")
        await run.ask("Which colour?", schema={"enum": ["red", "green"]})

    async with driving(builds) as control:
        run = await control.start("builder", "")
        await stage.until_begun("wall")
        async with looking(control, run) as screen:
            await screen.until("Running")
            await screen.write("/")
            await screen.press("enter")
            await screen.until("/take-over", "/stop-effect [N]", "/release SCOPE")
            await screen.write("/take-over")
            await screen.press("enter")
            await screen.until("Pausing", "finishing")
            await screen.write("/stop-effect")
            await screen.press("enter")
            await screen.until("has it", "It goes on when it is handed back")
            await screen.write("/hand-back as agreed")
            await screen.press("enter")
            state = await control.until(run, lambda s: s.phase is not Phase.PAUSED)
            assert not state.human
        stage.gate("wall").set()
        await control.cancel(run, now=True)
        await control.ended(run)


async def test_a_cap_is_raised_and_a_question_declined(driving: Open) -> None:
    stage = Stage("slash-raise")
    build = stage.writer()

    @agent("asker")
    async def asks(run: Run) -> str:
        await run.step("Build", build, "wall")
        await run.step("Paint", build, "door")
        answer = await run.ask("Which colour?", schema={"enum": ["red", "green"]})
        return "coloured" if answer.given else "left as it is"

    async with driving(asks) as control:
        run = await control.start("asker", "", limits=Limits(steps=1))
        async with looking(control, run) as screen:
            await screen.until("Paused at the cap", "1 of 1 step used", "Raise cap  Esc")
            assert not screen.app.query_one(Card).has_class("shown")  # no answer would do
            for caps in ("steps=many", "steps=2.5", "steps=inf"):
                await screen.write(f"/raise {caps}")
                await screen.press("enter")
                await screen.until(f"limit {caps} is not a whole number of zero or more.")
            await screen.write("/raise steps")
            await screen.press("enter")
            await screen.until("'steps' names no cap: write usd=4 steps=200. Nothing was changed.")
            await screen.write("/raise steps=9")
            await screen.press("enter")
            await screen.until("Waiting for you", "Which colour?")
            await screen.write("/decline")
            await screen.press("enter")
            await screen.until("Done", "left as it is")


async def test_one_effect_is_undone_by_the_number_that_stands_beside_it(driving: Open) -> None:
    stage = Stage("slash-undo")
    build = stage.writer()

    @agent("builder")
    async def builds(run: Run) -> None:
        await run.step("Build", build, "wall")
        await run.step("Paint", build, "door")

    async with driving(builds) as control:
        run = await control.start("builder", "")
        await control.ended(run)
        first, second = sorted((await control.state(run)).effects)
        async with looking(control, run) as screen:
            await screen.until("Receipt", f"{first} thing: ", f"{second} thing: ", "/undo N")
            await screen.write(f"/undo {first}")
            await screen.press("enter")
            await screen.until(f"{first} thing: undone")
        words = {line.position: line.word for line in (await control.receipt(run)).lines}
        assert words[first] == "undone"
        assert words[second] != "undone"


async def test_an_operator_stops_an_agent_only_after_enter_and_releases_it(driving: Open) -> None:
    stage = Stage("slash-kill")
    look = stage.reader()
    stage.gate("far")

    @agent("scout")
    async def scouts(run: Run) -> None:
        await run.step("Look", look, "far")

    async with driving(scouts) as control:
        run = await control.start("scout", "")
        await stage.until_begun("far")
        async with looking(control, run) as screen:
            await screen.until("Running")
            await screen.write("/kill agent:scout")
            await screen.press("enter")
            await screen.until("Stop everything in agent:scout now? No undo and no saving.")
            await screen.press("escape")
            assert (await control.state(run)).phase is Phase.RUNNING
            assert screen.composer == "/kill agent:scout"
            await screen.press("enter")
            await screen.until("Stop everything in agent:scout now?")
            await screen.press("enter")
            await screen.until("Stopped by an operator")
            await screen.write("/release agent:scout")
            await screen.press("enter")
            await screen.until("/release: on record")
            assert await control.switches() == []
            await screen.write("/release agent:scout")
            await screen.press("enter")
            await screen.until("no kill switch is on for agent:scout. Nothing was changed.")
