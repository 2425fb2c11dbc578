"""What an effect leaves is seen, and what others have changed since is not undone."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import InvalidTool
from midflight.journal import events as e
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.run import Run
from midflight.runtime.steps import side_calls
from midflight.tools.declaration import Tool, tool
from midflight.tools.options import EffectRecord
from scenarios.conftest import Open
from scenarios.rests import WAYS, asked, events_of, rested
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio

OLGA = Actor("olga", Role.OPERATOR)


class Desk:
    """A folder in which files are written, looked at and removed again."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.undone: list[EffectRecord] = []

    def path(self, name: str) -> Path:
        return self.folder / name

    def look(self, performed: EffectRecord) -> object:
        path = self.path(performed.args[0])
        return path.read_bytes() if path.exists() else None

    async def look_slowly(self, performed: EffectRecord) -> object:
        await anyio.lowlevel.checkpoint()
        return self.look(performed)

    def remove(self, performed: EffectRecord) -> None:
        self.undone.append(performed)
        self.path(performed.args[0]).unlink(missing_ok=True)

    def writer(self, **declared: Any) -> Tool:
        async def write(name: str, text: str) -> dict[str, str]:
            self.path(name).write_bytes(text.encode())
            return {"wrote": name}

        told: dict[str, Any] = {
            "undo": self.remove,
            "fingerprint": self.look,
            "describe": "file",
        } | declared
        return tool(effect="once", name=f"{self.name}.write", **told)(write)


def writing(stage: Stage, write: Tool) -> Agent:
    look = stage.reader()

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        await run.step("Write a", write, "a", "one")
        await run.step("Write b", write, "b", "two")
        await run.step("Read", look, "slow")

    return clerk


async def lines(control: Control, run: str) -> list[str]:
    return [line.text for line in (await control.receipt(run)).lines]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("way", WAYS)
async def test_what_others_have_changed_is_left_alone_and_the_rest_is_undone(
    driving: Open, crashing: Open, tmp_path: Path, way: str, kind: str
) -> None:
    desk, stage = Desk(tmp_path, f"leaves-{way}"), Stage(f"leaves-{way}")
    clerk = writing(
        stage, desk.writer(fingerprint=desk.look if kind == "sync" else desk.look_slowly)
    )

    async with rested(
        way, clerk, stage, (driving, crashing), lambda: desk.path("b").write_bytes(b"ours now")
    ) as (control, run):
        await control.ended(run)
        await control.undo(run)
        await control.until(run, lambda state: not state.undo_wanted)

        assert await lines(control, run) == [
            "file: could not be undone (changed by others since)",
            "file: undone",
        ]
        assert desk.path("b").read_bytes() == b"ours now"
        assert not desk.path("a").exists()
        (told,) = desk.undone
        settled = await events_of(control, run, e.AttemptSettled)
        assert told.left == settled[0].left
        assert (told.args, told.result) == (["a", "one"], {"wrote": "a"})


async def test_a_cancel_leaves_alone_what_others_have_removed(
    driving: Open, tmp_path: Path
) -> None:
    desk, stage = Desk(tmp_path, "leaves-cancel"), Stage("leaves-cancel")
    clerk = writing(stage, desk.writer())
    stage.gate("slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        desk.path("a").unlink()
        await control.cancel(run)

        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert await lines(control, run) == [
            "file: undone",
            "file: could not be undone (changed by others since)",
        ]
        assert [performed.args[0] for performed in desk.undone] == ["b"]


async def test_an_undo_that_was_cut_off_goes_on_although_it_has_changed_something_itself(
    driving: Open, crashing: Open, tmp_path: Path
) -> None:
    desk, stage = Desk(tmp_path, "leaves-cut"), Stage("leaves-cut")
    removed, cut = anyio.Event(), [True]

    async def remove(performed: EffectRecord) -> None:
        desk.remove(performed)
        if cut:
            cut.clear()
            removed.set()
            await anyio.sleep_forever()

    clerk = writing(stage, desk.writer(undo=remove))
    stage.gate("slow")
    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        await removed.wait()
    async with driving(clerk) as control:
        assert (await control.ended(run)).phase is Phase.CANCELLED

        assert await lines(control, run) == ["file: undone", "file: undone"]
        assert [performed.args[0] for performed in desk.undone] == ["b", "b", "a"]


@pytest.mark.slow
async def test_an_undo_that_failed_half_way_is_tried_again(driving: Open, tmp_path: Path) -> None:
    desk, stage = Desk(tmp_path, "leaves-half"), Stage("leaves-half")

    def remove(performed: EffectRecord) -> None:
        desk.remove(performed)
        if len(desk.undone) == 1:
            raise OSError("after the deed")

    clerk = writing(stage, desk.writer(undo=remove))
    stage.gate("slow")
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        await control.ended(run)

        assert await lines(control, run) == ["file: undone", "file: undone"]


async def test_a_person_who_asks_again_later_is_answered_by_how_it_looks_then(
    driving: Open, tmp_path: Path
) -> None:
    desk, stage = Desk(tmp_path, "leaves-later"), Stage("leaves-later")
    clerk = writing(stage, desk.writer())

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        desk.path("a").write_bytes(b"edited")
        await control.undo(run)
        await control.until(run, lambda state: not state.undo_wanted)
        assert (await lines(control, run))[1] == (
            "file: could not be undone (changed by others since)"
        )
        desk.path("a").write_bytes(b"one")
        await control.undo(run)
        await control.until(run, lambda state: not state.undo_wanted)

        assert await lines(control, run) == ["file: undone", "file: undone"]


@pytest.mark.slow
async def test_what_cannot_be_seen_is_not_touched_and_does_not_fail_the_step(
    driving: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, stage = Desk(tmp_path, "leaves-blind"), Stage("leaves-blind")
    trouble: list[object] = [OSError("offline")]

    async def look(performed: EffectRecord) -> object:
        if performed.args[0] == "a" and trouble[0] == "slow":
            await anyio.sleep_forever()
        if performed.args[0] == "a" and isinstance(trouble[0], OSError):
            raise trouble[0]
        return desk.look(performed)

    monkeypatch.setattr(side_calls, "LOOK_S", 0.05)
    clerk = writing(stage, desk.writer(fingerprint=look))
    async with driving(clerk) as control:
        then = await control.start(clerk, "work")
        await control.result(then)
        trouble[0] = None
        now = await control.start(clerk, "work")
        await control.result(now)
        for run in (then, now):
            if run == now:
                trouble[0] = "slow"
            await control.undo(run)
            await control.until(run, lambda state: not state.undo_wanted)

        assert (await lines(control, then))[1] == (
            "file: could not be undone (what it left could not be seen then, so nobody knows "
            "whether it has changed)"
        )
        assert (await lines(control, now))[1] == (
            "file: could not be undone (cannot be compared with what it left: TimeoutError: what "
            "it left could not be seen within 0.05 s)"
        )
        assert desk.path("a").exists()


async def test_an_effect_in_doubt_left_nothing_that_was_seen_and_its_undo_is_attempted(
    driving: Open, crashing: Open, tmp_path: Path
) -> None:
    desk, stage = Desk(tmp_path, "leaves-doubt"), Stage("leaves-doubt")
    begun = anyio.Event()

    async def write(name: str) -> None:
        desk.path(name).write_bytes(b"half")
        begun.set()
        await anyio.sleep_forever()

    writes = tool(
        effect="once",
        name="leaves-doubt.write",
        describe="file",
        undo=desk.remove,
        fingerprint=desk.look,
    )(write)

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        await run.step("Write", writes, "a")

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await begun.wait()
    async with driving(clerk) as control:
        await asked(control, run)
        await control.cancel(run)
        await control.ended(run)

        assert await lines(control, run) == ["file: unknown (undo attempted)"]
        assert [performed.left for performed in desk.undone] == [""]
        assert not desk.path("a").exists()


async def test_an_outcome_that_comes_late_still_says_what_was_left(
    driving: Open, tmp_path: Path
) -> None:
    desk, stage = Desk(tmp_path, "leaves-late"), Stage("leaves-late")
    begun, go_on = anyio.Event(), anyio.Event()

    async def write(name: str) -> None:
        begun.set()
        while not go_on.is_set():  # it does not want to be ended
            with contextlib.suppress(asyncio.CancelledError):
                await go_on.wait()
        desk.path(name).write_bytes(b"late")

    writes = tool(
        effect="once",
        name="leaves-late.write",
        describe="file",
        undo=desk.remove,
        fingerprint=desk.look,
    )(write)

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        await run.step("Write", writes, "a")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await begun.wait()
        await control.kill("all", who=OLGA)
        go_on.set()
        await control.until(run, lambda state: not state.open)
        (late,) = await events_of(control, run, e.LateOutcome)
        assert late.left
        await control.release("all", who=OLGA)
        desk.path("a").write_bytes(b"edited by others")
        await control.undo(run)
        await control.until(run, lambda state: not state.undo_wanted)

        assert await lines(control, run) == ["file: could not be undone (changed by others since)"]
        assert desk.undone == []


def test_leaves_without_an_undo_is_refused_where_it_is_declared() -> None:
    with pytest.raises(InvalidTool, match="fingerprint= needs undo="):

        @tool(effect="once", fingerprint=lambda performed: 1)
        async def write() -> None: ...
