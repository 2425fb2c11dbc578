"""Pause: I want this, but not now."""

from __future__ import annotations

import threading

import anyio
import pytest

from midflight.agents import agent
from midflight.errors import IllegalSignal, InvalidRequest
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.tools.declaration import tool
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


async def test_a_read_in_flight_is_ended_at_once_and_done_again_after_the_resume(
    driving: Open,
) -> None:
    stage = Stage("pause-read")
    look = stage.reader()
    stage.gate("b")

    @agent()
    async def reader(run: Run) -> list[str]:
        return [await run.step(f"Read {what}", look, what) for what in "abc"]

    async with driving(reader) as control:
        run = await control.start(reader, "read")
        await stage.until_begun("b")
        paused = await control.applied(await control.pause(run))
        assert (paused.status, (await control.state(run)).phase) == ("applied", Phase.PAUSED)
        assert stage.done == ["a"]

        stage.gate("b").set()
        await control.resume(run)

        assert await control.result(run) == ["A", "B", "C"]
        assert stage.begun == ["a", "b", "b", "c"]


async def test_an_effect_in_flight_finishes_first_and_the_bar_says_so(driving: Open) -> None:
    stage = Stage("pause-effect")
    make = stage.writer()
    stage.gate("invoice")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make invoice", make, "invoice")
        await run.step("Make copy", make, "copy")

    async with driving(clerk) as control:
        run = await control.start(clerk, "bill")
        await stage.until_begun("invoice")
        assert (await control.preview(run))["pause"].consequence == (
            "Finishes thing first, keeps context"
        )
        accepted = await control.pause(run)
        assert accepted.in_flight == ("thing",)
        assert (await control.state(run)).phase is Phase.PAUSING

        stage.gate("invoice").set()
        await control.applied(accepted)
        await anyio.sleep(0.05)
        assert stage.done == ["invoice"]

        await control.resume(run)
        assert (await control.ended(run)).phase is Phase.DONE
        assert stage.done == ["invoice", "copy"]


async def test_resume_while_pausing_takes_the_pause_back(driving: Open) -> None:
    stage = Stage("pause-back")
    make = stage.writer()
    stage.gate("invoice")

    @agent()
    async def clerk(run: Run) -> str:
        return str(await run.step("Make invoice", make, "invoice"))

    async with driving(clerk) as control:
        run = await control.start(clerk, "bill")
        await stage.until_begun("invoice")
        accepted = await control.pause(run)
        await control.resume(run)
        stage.gate("invoice").set()

        assert await control.result(run) == "made invoice"
        assert (await control.applied(accepted)).status == "superseded"


async def test_boundary_mode_lets_the_step_end_and_holds_before_the_next(driving: Open) -> None:
    stage = Stage("pause-boundary")
    look = stage.reader()
    stage.gate("a")

    @agent(mode="boundary")
    async def reader(run: Run) -> list[str]:
        return [await run.step(f"Read {what}", look, what) for what in "ab"]

    async with driving(reader) as control:
        run = await control.start(reader, "read")
        await stage.until_begun("a")
        accepted = await control.pause(run)
        await anyio.sleep(0.05)
        assert (await control.state(run)).phase is Phase.PAUSING

        stage.gate("a").set()
        await control.applied(accepted)
        assert stage.begun == ["a"]

        await control.resume(run)
        assert await control.result(run) == ["A", "B"]
        assert stage.begun == ["a", "b"]


async def test_a_run_that_is_not_held_cannot_be_resumed_and_says_what_it_takes(
    driving: Open,
) -> None:
    stage = Stage("pause-refused")
    look = stage.reader()
    stage.gate("a")

    @agent()
    async def reader(run: Run) -> str:
        return str(await run.step("Read a", look, "a"))

    async with driving(reader) as control:
        run = await control.start(reader, "read")
        await stage.until_begun("a")
        with pytest.raises(IllegalSignal, match=r"is running and cannot take resume.*not changed"):
            await control.resume(run)


async def test_a_paused_run_is_let_go_and_comes_back_by_its_records(driving: Open) -> None:
    stage = Stage("pause-evicted")
    look = stage.reader()
    stage.gate("b")

    @agent()
    async def reader(run: Run) -> list[str]:
        return [await run.step(f"Read {what}", look, what) for what in "ab"]

    impatient = type(reader)(reader.name, reader.function, evict_after=0.01)
    async with driving(impatient) as control:
        run = await control.start(impatient, "read")
        await stage.until_begun("b")
        await control.pause(run)
        await control.until(run, lambda state: state.phase is Phase.PAUSED and not state.driver)

        stage.gate("b").set()
        await control.resume(run)
        assert await control.result(run) == ["A", "B"]
        assert stage.done == ["a", "b"]


async def test_the_effect_a_pause_waits_for_can_be_stopped_and_is_asked_about_on_resume(
    driving: Open,
) -> None:
    stage = Stage("pause-stop-it")
    make = stage.writer()
    stage.gate("invoice")

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Make invoice", make, "invoice")

    async with driving(clerk) as control:
        run = await control.start(clerk, "bill")
        await stage.until_begun("invoice")
        accepted = await control.pause(run)
        (attempt,) = (await control.state(run)).open
        await control.stop_effect(run, attempt)
        await control.applied(accepted)
        assert (await control.receipt(run)).lines[0].text == (
            "thing: unknown (aborted: stopped by a person)"
        )

        await control.resume(run)
        state = await control.until(run, lambda state: bool(state.questions))
        stage.gate("invoice").set()
        await control.answer(run, next(iter(state.questions)), "again")
        assert await control.result(run) == "made invoice"
        assert stage.keys == [stage.keys[0]] * 2


async def test_a_thread_that_a_pause_waits_for_cannot_be_stopped_and_nobody_says_it_was(
    driving: Open,
) -> None:
    begun, go = threading.Event(), threading.Event()

    @tool(name="pause-thread.engrave", label="engraving")
    def engrave() -> str:
        begun.set()
        go.wait(10)
        return "engraved"

    @agent("pause-thread")
    async def clerk(run: Run) -> object:
        return await run.step("Engrave", engrave)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await anyio.to_thread.run_sync(begun.wait, 10)
        accepted = await control.pause(run)
        (attempt,) = (await control.state(run)).open
        assert not (await control.preview(run))["stop effect"].enabled
        with pytest.raises(InvalidRequest, match="runs in a thread, which nobody can stop"):
            await control.stop_effect(run, attempt)

        go.set()
        await control.applied(accepted)
        await control.resume(run)
        assert await control.result(run) == "engraved"


async def test_a_run_whose_process_ends_in_good_order_goes_on_in_the_next_one(
    driving: Open,
) -> None:
    stage = Stage("drain")
    make, look = stage.writer(), stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> object:
        await run.step("Make a", make, "a")
        return await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
    state = await control.state(run)
    assert (state.phase, state.driver) == (Phase.PAUSED, "")

    stage.gate("slow").set()
    async with driving(clerk) as control:
        assert await control.result(run) == "SLOW"
    assert stage.done == ["a", "slow"]
