"""A long plan in the terminal app: the running step is in view, unless a person looks elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual.containers import VerticalScroll

from midflight.agents import agent
from midflight.control import Control
from midflight.run import Run
from scenarios.conftest import Open
from scenarios.stage import Stage
from tui.screen import Screen, looking

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(180)]


@asynccontextmanager
async def planned(
    driving: Open, stage: Stage, steps: int, *stops: int
) -> AsyncIterator[tuple[Screen, Control, str]]:
    """A run with many steps ahead of it, which stops in some of them until it gets its cue."""
    look = stage.reader()
    for number in stops:
        stage.gate(f"{number}")

    @agent(stage.name)
    async def works(run: Run) -> None:
        names = [f"Part {number:03}" for number in range(1, steps + 1)]
        await run.plan(*names)
        for number, name in enumerate(names, 1):
            await run.step(name, look, f"{number}")

    async with driving(works) as control:
        run = await control.start(works, "all of it")
        await stage.until_begun(f"{stops[0]}")
        async with looking(control, run, size=(100, 30)) as screen:
            await screen.until("Running")
            yield screen, control, run
        if (await control.state(run)).alive:
            await control.cancel(run, now=True)
            await control.ended(run)


async def test_the_running_step_of_a_long_plan_is_in_view_and_stays_there(driving: Open) -> None:
    stage = Stage("tui-long")
    async with planned(driving, stage, 60, 5, 35) as (screen, _, _run):
        await screen.until("◐ Part 005", "✓ Part 004", "◌ Part 006")
        stage.gate("5").set()
        await screen.until("◐ Part 035", "✓ Part 034", "◌ Part 036")
        stage.gate("35").set()
        await screen.until("Done", "✓ Part 060")


async def test_whoever_has_scrolled_away_is_left_there_until_they_come_back(driving: Open) -> None:
    stage = Stage("tui-long-away")
    async with planned(driving, stage, 60, 20, 40, 41) as (screen, _, _run):
        await screen.until("◐ Part 020")
        pane = screen.app.query_one("#steps", VerticalScroll)
        pane.focus()
        await screen.press("home")
        await screen.until("✓ Part 001")
        stage.gate("20").set()
        await screen.until("Part 040", "✓ Part 001")  # the bar names it
        await screen.press("end")
        await screen.until("◌ Part 060")
        while "◐ Part 040" not in screen.text:
            await screen.press("up")
        stage.gate("40").set()
        await screen.until("◐ Part 041")
