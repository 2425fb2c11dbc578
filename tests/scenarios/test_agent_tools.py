"""The tools that come with Midflight in runs that are stopped, crash and are taken back."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.errors import StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Outcome, Phase
from midflight.run import Run
from midflight.tools.files import Workspace
from midflight.tools.folder import version_of
from midflight.tools.options import EffectName
from midflight.tools.shell import shell_tool
from scenarios.conftest import Live, Open
from scenarios.rests import asked, events_of
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


@pytest.fixture
def story(request: pytest.FixtureRequest) -> str:
    """A name of its own: tools are found again by theirs."""
    kind = request.node.callspec.params["store"]
    return f"{request.node.originalname[-25:].replace('_', '-')}-{kind}"


def space_at(path: Path, name: str) -> tuple[Path, Workspace]:
    folder = path / "space"
    folder.mkdir(exist_ok=True)
    (folder / "plan.txt").write_text("old plan", encoding="utf-8")
    return folder, Workspace(folder, name=name)


async def lines(control: Control, run: str) -> list[str]:
    return [line.text for line in (await control.receipt(run)).lines]


def clerk_of(space: Workspace, stage: Stage) -> Any:
    look = stage.reader()

    @agent(name=stage.name)
    async def clerk(run: Run) -> str:
        found = await run.step("Read", space.read_file, "plan.txt")
        changed = await run.step(
            "Edit", space.edit_file, "plan.txt", old="old", new="new", version=found.version
        )
        await run.step("Write", space.write_file, path="notes/a.txt", text="note")
        await run.step(
            "Move", space.move_file, "plan.txt", to="done/plan.txt", version=changed.version
        )
        return str(await run.step("Look", look, "slow"))

    return clerk


async def test_a_cancel_puts_every_file_back_as_it_was(
    driving: Open, crashing: Open, tmp_path: Path, story: str
) -> None:
    folder, space = space_at(tmp_path, story)
    stage = Stage(story)
    clerk = clerk_of(space, stage)
    stage.gate("slow")
    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
    assert sorted(os.listdir(folder)) == [".midflight", "done", "notes"]

    space_at_restart = Workspace(folder, name=story)
    clerk = clerk_of(space_at_restart, stage)
    async with driving(clerk) as control:
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert await lines(control, run) == [
            "file plan.txt to done/plan.txt: undone",
            "file notes/a.txt: undone",
            "file plan.txt: undone",
        ]

    assert sorted(os.listdir(folder)) == [".midflight", "plan.txt"]
    assert (folder / "plan.txt").read_text(encoding="utf-8") == "old plan"


async def test_what_a_person_has_edited_since_is_not_taken_back(
    driving: Open, tmp_path: Path, story: str
) -> None:
    folder, space = space_at(tmp_path, story)
    stage = Stage(story)
    clerk = clerk_of(space, stage)
    stage.gate("slow")
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        (folder / "notes/a.txt").write_text("theirs", encoding="utf-8")
        await control.cancel(run)
        await control.ended(run)

        assert await lines(control, run) == [
            "file plan.txt to done/plan.txt: undone",
            "file notes/a.txt: could not be undone (changed by others since)",
            "file plan.txt: undone",
        ]
    assert (folder / "notes/a.txt").read_text(encoding="utf-8") == "theirs"


@pytest.mark.slow
async def test_a_crash_at_any_append_writes_each_file_once_and_asks_nobody(
    living: Live, driving: Open, tmp_path: Path, story: str
) -> None:
    for after in range(14):
        name = f"{story}-{after}"
        (tmp_path / name).mkdir()
        folder, space = space_at(tmp_path / name, name)

        @agent(name=name)
        async def clerk(run: Run, space: Workspace = space) -> str:
            found = await run.step("Read", space.read_file, "plan.txt")
            changed = await run.step(
                "Edit", space.edit_file, "plan.txt", "old", "a new", found.version
            )
            await run.step("Delete", space.delete_file, "plan.txt", changed.version)
            made = await run.step("Write", space.write_file, "b.txt", "b")
            return str(made.version)

        async with living(clerk) as lived:
            run = await lived.control.start(clerk, "work")
            lived.cord.pull(after=after, unheard=bool(after % 2))
            await lived.is_cut_short(run)
        async with driving(clerk) as control:
            assert await control.result(run) == version_of(b"b")
            assert await events_of(control, run, e.QuestionOpened) == []
        assert sorted(os.listdir(folder)) == [".midflight", "b.txt"]


async def test_a_file_that_has_changed_fails_the_step_in_words_and_the_run_goes_on(
    driving: Open, tmp_path: Path, story: str
) -> None:
    folder, space = space_at(tmp_path, story)

    @agent(name=story)
    async def clerk(run: Run) -> str:
        try:
            await run.step("Write", space.write_file, "plan.txt", "mine", version="0123")
        except StepFailed as failed:
            return failed.error
        return "written"

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")

        assert "is not at version 0123 (any more); read it again" in await control.result(run)
        (settled,) = await events_of(control, run, e.AttemptSettled)
        assert settled.outcome is Outcome.NOT_DONE
    assert (folder / "plan.txt").read_text(encoding="utf-8") == "old plan"


@pytest.mark.slow
async def test_a_command_of_a_model_waits_for_a_person(
    driving: Open, tmp_path: Path, story: str
) -> None:
    shell = shell_tool(tmp_path, name=story)

    @agent(name=story)
    async def clerk(run: Run) -> str:
        return str((await run.step("Run", shell, command="echo hello > made; cat made")).stdout)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        assert not (tmp_path / "made").exists()
        await control.answer(run, question.position, "approve")

        assert await control.result(run) == "hello\n"


@pytest.mark.slow
async def test_an_approval_says_nothing_of_a_tool_that_its_server_has_changed(
    driving: Open, tmp_path: Path, story: str
) -> None:
    from midflight.tools.mcp import McpServer

    program = str(Path(__file__).parent.parent / "tools" / "mcp_server.py")
    command = (sys.executable, program, str(tmp_path))
    effects: dict[str, EffectName] = {"turn_evil": "once"}
    async with McpServer.stdio(*command, name=story, effects=effects) as server:

        def tools() -> dict[str, Any]:
            return {each.name.partition(".")[2]: each for each in server.tools}

        @agent(name=story)
        async def clerk(run: Run) -> str:
            try:
                return str((await run.step("Send", tools()["send"], to="ann"))["text"])
            except StepFailed as failed:
                return failed.error

        async with driving(clerk) as control:
            run = await control.start(clerk, "work")
            first = await asked(control, run)
            await tools()["turn_evil"]()
            await control.answer(run, first.position, "approve")
            assert "has changed its tool send since it was listed" in await control.result(run)

            await server.refresh()
            again = await control.start(clerk, "work")
            second = await asked(control, again)
            assert second.message != first.message
            await control.answer(again, second.position, "approve")
            assert await control.result(again) == "sent"
    assert (tmp_path / "done").read_text(encoding="utf-8") == "sent to ann and eve@example.org\n"
