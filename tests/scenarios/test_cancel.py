"""Cancel: stop entirely, undo, save; and say *cancelled* only when that is so."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest

from midflight.agents import agent
from midflight.errors import IllegalSignal
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.tools.declaration import ChangedSince, tool
from midflight.tools.options import EffectRecord
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


async def test_what_was_done_is_undone_newest_first_and_the_receipt_accounts_for_it(
    driving: Open,
) -> None:
    stage = Stage("cancel-undo")
    make, look = stage.writer(), stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")
        await run.step("Make b", make, "b")
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        assert (await control.preview(run))["cancel"].consequence == (
            "Undoes 2 things, saves partial work to thread"
        )
        await control.cancel(run)
        ended = await control.ended(run)

        assert ended.phase is Phase.CANCELLED
        assert stage.done == ["a", "b", "undone b", "undone a"]
        words = [(line.noun, line.word) for line in (await control.receipt(run)).lines]
        assert words == [("thing", "undone"), ("thing", "undone")]
        assert ended.saved == ["results of 2 steps: Make a, Make b"]


async def test_an_effect_in_flight_is_aborted_and_its_outcome_is_unknown(driving: Open) -> None:
    stage = Stage("cancel-flight")
    make = stage.writer()
    stage.gate("a")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("a")
        accepted = await control.cancel(run)
        assert accepted.in_flight == ("thing",)
        assert (await control.ended(run)).phase is Phase.CANCELLED

        (line,) = (await control.receipt(run)).lines
        assert (line.word, line.why) == ("unknown", "undo attempted")
        assert stage.done == ["undone a"]


@pytest.mark.slow
async def test_nothing_is_undone_while_anything_is_still_in_flight(driving: Open) -> None:
    """Not even what the function has given up waiting for."""
    stage, begun, go = Stage("cancel-settles"), threading.Event(), threading.Event()
    make, look, patience = stage.writer(), stage.reader(), anyio.CancelScope()
    stage.gate("slow")

    @tool(name="cancel-settles.engrave", label="engraving")
    def engrave() -> None:
        begun.set()
        go.wait(30)
        stage.done.append("engraved")

    @agent("cancel-settles")
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")
        with patience:
            await run.step("Engrave", engrave)
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await anyio.to_thread.run_sync(begun.wait, 20)
        patience.cancel()
        await stage.until_begun("slow")
        await control.cancel(run)
        await anyio.sleep(0.2)
        go.set()
        await control.ended(run)

    assert stage.done == ["a", "engraved", "undone a"]


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)  # memory answers before anybody runs
async def test_what_a_cancel_ends_hears_of_it_before_the_acknowledgement_is_there(
    driving: Open,
) -> None:
    begun, heard = anyio.Event(), anyio.Event()

    @tool(effect="read")
    async def hang() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            heard.set()

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Hang", hang)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await begun.wait()
        await control.cancel(run)

        assert heard.is_set()


async def test_before_the_first_step_nothing_begins(driving: Open) -> None:
    stage = Stage("cancel-first")
    make = stage.writer()
    wait = anyio.Event()

    @agent()
    async def clerk(run: Run) -> None:
        await wait.wait()
        await run.step("Make a", make, "a")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.until(run, lambda state: state.entered)
        await control.cancel(run)
        wait.set()

        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert stage.begun == []


async def test_twice_at_once_is_once(driving: Open) -> None:
    stage = Stage("cancel-twice")
    undoing = stage.gate("undoing")

    async def unmake(_: EffectRecord) -> None:
        await undoing.wait()

    make, look = stage.writer(undo=unmake), stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        first, second = await control.cancel(run), await control.cancel(run)
        assert second.position == first.position
        undoing.set()
        await control.ended(run)
        with pytest.raises(IllegalSignal, match="was cancelled and takes no cancel any more"):
            await control.cancel(run)


@pytest.mark.slow
async def test_an_undo_that_fails_is_tried_again_and_then_said(driving: Open) -> None:
    tries: list[str] = []

    async def make() -> str:
        return "made"

    async def unmake(_: EffectRecord) -> None:
        tries.append("undo")
        raise OSError("the provider is down")

    made = tool(effect="once", name="cancel-badundo.make", label="booking", undo=unmake)(make)
    stage = Stage("cancel-badundo")
    look = stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Book", made)
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED

        (line,) = (await control.receipt(run)).lines
        assert line.text == "booking: could not be undone (OSError: the provider is down)"
        assert len(tries) == 3


async def test_an_undo_that_finds_its_object_changed_leaves_it_alone(driving: Open) -> None:
    async def make() -> str:
        return "made"

    async def unmake(_: EffectRecord) -> None:
        raise ChangedSince

    made = tool(effect="once", name="cancel-changed.make", label="page", undo=unmake)(make)
    stage = Stage("cancel-changed")
    look = stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Write", made)
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        await control.ended(run)

        (line,) = (await control.receipt(run)).lines
        assert line.text == "page: could not be undone (changed by others since)"


@pytest.mark.slow
async def test_a_tool_that_swallows_cancellation_is_waited_for_and_told_of_truthfully(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.runtime.steps.tool_call.GRACE_S", 60.0)  # it is told once
    begun, swallowed, go = anyio.Event(), anyio.Event(), anyio.Event()

    @tool(effect="once", name="cancel-swallow.make", label="letter")
    async def make() -> str:
        begun.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            swallowed.set()
        await go.wait()
        return "made anyway"

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make", make)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await begun.wait()
        await control.cancel(run)
        await swallowed.wait()
        await anyio.sleep(0.1)
        assert (await control.state(run)).phase is Phase.CANCELLING
        go.set()
        assert (await control.ended(run)).phase is Phase.CANCELLED
        (line,) = (await control.receipt(run)).lines

        assert line.text == "letter: kept (no undo)"
