"""A second process, on the same file, controls a run that the first one drives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import msgspec
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control, local
from midflight.journal.phases import Phase
from midflight.journal.record import Limits
from midflight.run import Run
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

COMMAND = Path(__file__).parent / "command.py"


class Terminal:
    """Where a person types commands."""

    def __init__(self, journals: Path, run: str) -> None:
        self._journals = journals
        self._run = run

    async def type(self, verb: str, *more: object) -> int:
        words = [msgspec.json.encode(word).decode() for word in more]
        done = await anyio.run_process(
            [sys.executable, str(COMMAND), str(self._journals), verb, self._run, *words],
            stderr=subprocess.PIPE,
        )
        return int(done.stdout)


def clerk_of(stage: Stage) -> Agent:
    look, make = stage.reader(), stage.writer()
    stage.gate("all")

    @agent("second.clerk", limits=Limits(steps=2))
    async def clerk(run: Run) -> list[object]:
        found = [await run.step(f"Look at {run.brief}", look, run.brief)]
        found.append((await run.ask("Which one?")).payload)
        found.append([message.text for message in await run.inbox()])
        found.append(await run.step("Make it", make, "thing"))
        return [*found, await run.step("Make another", make, "other")]

    return clerk


@pytest.mark.slow
async def test_every_verb_reaches_a_run_that_another_process_drives(tmp_path: Path) -> None:
    stage = Stage("second-process")
    clerk = clerk_of(stage)
    journals = tmp_path / "journals.db"
    async with local(journals, clerk, workdir=tmp_path) as control:
        run = await control.start(clerk, "all")
        terminal = Terminal(journals, run)
        await stage.until_begun("all")

        await terminal.type("pause")
        await control.until(run, lambda state: state.phase is Phase.PAUSED)
        await terminal.type("redirect", "some")
        await terminal.type("resume")
        asked = await control.until(run, lambda state: bool(state.questions))
        assert asked.brief == "some"
        await terminal.type("send", "hurry")
        await terminal.type("answer", next(iter(asked.questions)), "the red one")
        held = await control.until(run, lambda state: state.phase is Phase.PAUSED)
        assert held.spent.steps == 2
        await terminal.type("raise_limits", 10)

        assert await control.result(run) == [
            "SOME",
            "the red one",
            ["hurry"],
            "made thing",
            "made other",
        ]
        await terminal.type("undo")
        await control.until(run, lambda state: not (state.undo_wanted or state.undos))
        assert stage.done[-2:] == ["undone other", "undone thing"]


@pytest.mark.slow
async def test_a_cancel_from_outside_aborts_undoes_and_is_in_the_receipt(tmp_path: Path) -> None:
    stage = Stage("second-process-cancel")
    make = stage.writer()
    stage.gate("slow")

    @agent("second.maker")
    async def maker(run: Run) -> None:
        await run.step("Make", make, "thing")
        await run.step("Make slowly", make, "slow")

    journals = tmp_path / "journals.db"
    async with local(journals, maker, workdir=tmp_path) as control:
        run = await control.start(maker, "work")
        await stage.until_begun("slow")
        position = await Terminal(journals, run).type("cancel")

        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert (await control.state(run)).deliveries[position].status == "applied"
        words = [line.word for line in (await control.receipt(run)).lines]
        assert words == ["unknown", "undone"]


@pytest.mark.slow
async def test_what_was_recorded_while_nobody_drives_is_done_when_somebody_does(
    tmp_path: Path,
) -> None:
    stage = Stage("second-process-later")
    look = stage.reader()

    @agent("second.reader")
    async def reader(run: Run) -> object:
        return await run.step("Read", look, run.brief)

    journals = tmp_path / "journals.db"
    async with local(journals, workdir=tmp_path) as nobody:
        assert isinstance(nobody, Control)
        run = await nobody.start(reader, "a")
    await Terminal(journals, run).type("redirect", "b")

    async with local(journals, reader, workdir=tmp_path) as control:
        assert await control.result(run) == "B"
