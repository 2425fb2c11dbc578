"""Snapshots: replay begins at the last one; what came before is neither repeated nor mixed up."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from midflight.agents import agent
from midflight.errors import InvalidRequest
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.run import Redirected, Run, Step
from midflight.tools.declaration import Tool, tool
from midflight.tools.options import EffectRecord
from scenarios.conftest import Live, Open
from scenarios.stage import Stage
from scenarios.test_redirect import gathered, keys_of, of_kind, the_question

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("unheard", [False, True])
async def test_a_crash_at_any_append_leads_to_the_same_end_and_nothing_is_done_twice(
    driving: Open, living: Live, unheard: bool
) -> None:
    for after in range(100):
        stage, restored = Stage("rounds"), list[Any]()
        make = stage.checked()

        @agent()
        async def clerk(run: Run) -> list[object]:
            restored.append(run.restored)  # noqa: B023
            state = run.restored or {"done": []}
            while len(state["done"]) < 3:
                number = len(state["done"])
                made = await run.step("Make", make, f"round {number}")  # noqa: B023
                state = {"done": [*state["done"], [made, str(run.uuid()), run.random().random()]]}
                await run.snapshot(state)
            return [*(made for made, *_ in state["done"]), await run.step("Make", make, "end")]  # noqa: B023

        async with living(clerk) as life:
            life.cord.pull(after + 1, unheard=unheard)
            run = await life.control.start(clerk, "work")
            died = await life.is_cut_short(run)
        async with driving(clerk) as control:
            with anyio.fail_after(5):
                assert await control.result(run) == [
                    "made round 0",
                    "made round 1",
                    "made round 2",
                    "made end",
                ]
            saved = await of_kind(control, run, e.StateSaved)
            assert len(saved) == 3
        assert stage.done == ["round 0", "round 1", "round 2", "end"]
        assert restored[0] is None
        if not died:
            return
    raise AssertionError("it never outlived the story")


async def test_the_same_call_after_a_snapshot_is_another_one_with_another_key(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("saved-again")
    make, look = stage.writer(effect="write"), stage.reader()
    stage.gate("end")

    @agent()
    async def clerk(run: Run) -> list[object]:
        rounds = run.restored or 0
        while rounds < 3:
            await run.step("Make", make, "report")
            rounds += 1
            await run.snapshot(rounds)
        return [rounds, await run.step("Read", look, "end")]

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("end")
    stage.gate("end").set()
    async with driving(clerk) as control:
        assert await control.result(run) == [3, "END"]
        assert len(set(await keys_of(control, run))) == 3
    assert stage.done == ["report", "report", "report", "end"]
    assert len(set(stage.keys)) == 3


@pytest.mark.parametrize("dies", [False, True])
async def test_a_keyed_step_is_still_known_after_a_snapshot(
    driving: Open, crashing: Open, dies: bool
) -> None:
    stage = Stage(f"keyed-{dies}")
    make, look = stage.writer(), stage.reader()
    stage.gate("end")

    @agent()
    async def clerk(run: Run) -> list[object]:
        if run.restored is None:
            await run.step(Step("Make", key="invoice"), make, "invoice")
            await run.snapshot({"made": True})
        if dies:
            await run.step("Read", look, "end")
        return [await run.step(Step("Make", key="invoice"), make, "another invoice")]

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        if dies:
            await stage.until_begun("end")
        else:
            assert await control.result(run) == ["made invoice"]
    stage.gate("end").set()
    async with driving(clerk) as control:
        assert await control.result(run) == ["made invoice"]
    assert stage.done[0] == "invoice"
    assert "another invoice" not in stage.done


async def test_a_snapshot_is_refused_while_a_step_is_open(driving: Open) -> None:
    stage, said = Stage("open"), list[str]()
    look = stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> object:
        async def save() -> None:
            await stage.until_begun("slow")
            with pytest.raises(InvalidRequest) as refused:
                await run.snapshot("too early")
            said.append(str(refused.value))
            stage.gate("slow").set()

        return await gathered(run.step("Read slowly", look, "slow"), save())

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.ended(run)
        assert await of_kind(control, run, e.StateSaved) == []
    assert said == [
        "run.snapshot cannot be called while steps are open (Read slowly): await them first. "
        "Nothing was saved."
    ]


async def test_a_snapshot_is_refused_while_something_is_asked(driving: Open) -> None:
    said: list[str] = []
    opened = anyio.Event()

    @agent()
    async def clerk(run: Run) -> object:
        async def save() -> None:
            await opened.wait()
            with pytest.raises(InvalidRequest) as refused:
                await run.snapshot("too early")
            said.append(str(refused.value))

        answer, _ = await gathered(run.ask("Which year?"), save())
        return answer.payload  # type: ignore[attr-defined]

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await the_question(control, run)
        opened.set()
        await control.answer(run, question, 2025)
        assert await control.result(run) == 2025
    assert said == [
        "run.snapshot cannot be called while steps are open (the question 'Which year?'): await "
        "them first. Nothing was saved."
    ]


async def test_a_large_state_comes_back_whole(driving: Open, crashing: Open) -> None:
    stage = Stage("large-state")
    look = stage.reader()
    stage.gate("end")

    @agent()
    async def clerk(run: Run) -> list[object]:
        state = run.restored or []
        if not state:
            state = ["x" * 1000] * 200
            await run.snapshot(state)
        await run.step("Read", look, "end")
        return [len(state), run.restored == state]

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("end")
        (saved,) = await of_kind(control, run, e.StateSaved)
        assert saved.blob is not None
    stage.gate("end").set()
    async with driving(clerk) as control:
        assert await control.result(run) == [200, True]


def remembering(stage: Stage) -> Tool:
    async def make(what: str) -> dict[str, str]:
        return {"id": f"id of {what}", "body": "x" * (100_000 if what == "large" else 1)}

    async def unmake(performed: EffectRecord) -> None:
        stage.note(stage.done, f"undone {performed.result['id']} {len(performed.result['body'])}")

    return tool(effect="once", name=f"{stage.name}.make", undo=unmake)(make)


@pytest.mark.parametrize("dies", [False, True])
async def test_an_undo_still_gets_the_results_of_before_the_snapshot(
    driving: Open, crashing: Open, dies: bool
) -> None:
    stage = Stage(f"undo-{dies}")
    make, look = remembering(stage), stage.reader()
    stage.gate("end")

    @agent()
    async def clerk(run: Run) -> None:
        if run.restored is None:
            for what in ("small", "large"):
                await run.step("Make", make, what)
            await run.snapshot("made")
        await run.step("Read", look, "end")

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("end")
        if not dies:
            await control.cancel(run)
            await control.ended(run)
    async with driving(clerk) as control:
        if dies:
            await stage.until_begun("end", times=2)
            await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED
    assert stage.done == ["undone id of large 100000", "undone id of small 1"]


async def test_chance_and_ids_after_a_snapshot_are_new_and_the_same_at_replay(
    driving: Open, crashing: Open
) -> None:
    stage, seen = Stage("chance"), list[list[object]]()
    look = stage.reader()
    stage.gate("end")

    def draw(run: Run) -> list[object]:
        return [run.uuid(), run.random().random(), run.now()]

    @agent()
    async def gambler(run: Run) -> None:
        if run.restored is None:
            seen.append(draw(run))
            await run.snapshot("played")
        seen.append(draw(run))
        await run.step("Read", look, "end")

    async with crashing(gambler) as control:
        run = await control.start(gambler, "play")
        await stage.until_begun("end")
    stage.gate("end").set()
    async with driving(gambler) as control:
        await control.result(run)
    before, after, replayed = seen
    assert after == replayed
    assert before[:2] != after[:2]


async def test_a_redirect_begins_from_the_snapshot_and_keeps_what_came_after_it(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("redirected")
    make, look = stage.writer(), stage.reader()
    stage.gate("read a")
    stage.gate("end")

    @agent()
    async def clerk(run: Run) -> list[object]:
        state = run.restored or []
        if not state:
            state = [await run.step("Make", make, "first")]
            await run.snapshot(state)
        second = await run.step("Make second", make, "second")
        await run.step("Read", look, f"read {run.brief}")
        return [*state, second, run.brief, await run.step("Read", look, "end")]

    async with crashing(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("read a")
        await control.redirect(run, "b")
        await stage.until_begun("end")
    stage.gate("end").set()
    async with driving(clerk) as control:
        with anyio.fail_after(5):
            assert await control.result(run) == ["made first", "made second", "b", "END"]
        texts = [line.text for line in (await control.receipt(run)).lines]
        assert texts == ["thing: kept", "thing: kept, for the earlier brief"]
    assert stage.begun == ["first", "second", "read a", "read b", "end", "end"]


async def test_a_snapshot_after_a_redirect_forgets_what_was_asked_for_again(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("reused")
    make, look = stage.writer(), stage.reader()
    stage.gate("read a")
    stage.gate("end")

    @agent()
    async def clerk(run: Run) -> list[object]:
        if run.restored is None:
            await run.step(Step("Make", key="list"), make, "list")
            await run.step("Read", look, f"read {run.brief}")
            await run.snapshot("made")
        return [run.brief, await run.step("Read", look, "end")]

    async with crashing(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("read a")
        await control.redirect(run, "b")
        await stage.until_begun("end")
    stage.gate("end").set()
    async with driving(clerk) as control:
        with anyio.fail_after(5):
            assert await control.result(run) == ["b", "END"]
        assert await of_kind(control, run, e.HoldPlaced) == []
    assert stage.done == ["list", "read b", "end"]


async def test_a_caught_redirect_after_a_snapshot_is_told_again_after_a_crash(
    driving: Open, living: Live
) -> None:
    for after in range(100):
        stage = Stage("caught")
        make, look = stage.checked(), stage.reader()
        stage.gate("a")

        @agent()
        async def clerk(run: Run) -> list[object]:
            state: list[object] = run.restored or []
            if not state:
                state = [await run.step("Make", make, "list")]  # noqa: B023
                await run.snapshot(state)
            if len(state) == 1:
                try:
                    await run.step("Read", look, "a")  # noqa: B023
                except Redirected as redirected:
                    again = await run.step("Make", make, "again")  # noqa: B023
                    state = [*state, redirected.brief, again]
                    await run.snapshot(state)
            return [*state, run.brief, await run.step("Make", make, "end")]  # noqa: B023

        async with living(clerk) as life:
            run = await life.control.start(clerk, "a")
            await stage.until_begun("a")
            await life.control.redirect(run, "b")
            life.cord.pull(after)
            died = await life.is_cut_short(run)
        async with driving(clerk) as control:
            with anyio.fail_after(5):
                assert await control.result(run) == [
                    "made list",
                    "b",
                    "made again",
                    "b",
                    "made end",
                ]
        assert [what for what in stage.done if what != "a"] == ["list", "again", "end"]
        if not died:
            return
    raise AssertionError("it never outlived the story")


async def test_a_redirect_that_comes_just_before_a_snapshot_is_heard_there(driving: Open) -> None:
    stage = Stage("before-snapshot")

    @agent()
    async def clerk(run: Run) -> list[object]:
        stage.note(stage.begun, "thinking")
        await stage.gate("thought").wait()
        try:
            await run.snapshot("a thought")
        except Redirected as redirected:
            return [redirected.brief, run.brief]
        return ["not told"]

    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("thinking")
        await control.applied(await control.redirect(run, "b"))
        stage.gate("thought").set()

        assert await control.result(run) == ["b", "b"]
        assert await of_kind(control, run, e.StateSaved) == []
