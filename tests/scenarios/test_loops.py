"""Programs that run their loop in a way of their own."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
from pathlib import Path

import anyio

from midflight.agents import agent
from midflight.control import local
from midflight.journal.phases import Phase
from midflight.run import Run
from scenarios.stage import Stage


def test_a_program_of_plain_asyncio_is_heard_also_beside_sdks_that_bring_sniffio(
    tmp_path: Path,
) -> None:
    """Nobody has told sniffio who runs the loop, and what is published is heard outside a task."""
    importlib.import_module("sniffio")  # with it anyio asks it
    stage = Stage("plain-asyncio")
    look = stage.reader()
    stage.gate("slow")

    @agent("plain-asyncio-leaf")
    async def leaf(run: Run) -> str:
        return "grown"

    @agent("plain-asyncio")
    async def clerk(run: Run) -> object:
        grown = await (await run.spawn(leaf, "grow")).result()
        return [grown, await run.step("Read", look, "slow")]

    async def main() -> object:
        place = tmp_path / "journals.db"
        with anyio.fail_after(20):
            async with local(place, clerk, leaf, workdir=tmp_path / "work") as control:
                run = await control.start(clerk, "work")
                await stage.until_begun("slow")
                await control.pause(run)
                await control.until(run, lambda state: state.phase is Phase.PAUSED)
                stage.gate("slow").set()
                await control.resume(run)
                return await control.result(run)

    assert contextvars.Context().run(asyncio.run, main()) == ["grown", "SLOW"]
