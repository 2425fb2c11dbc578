"""Undos and checks that block, hang or give back what cannot be stored; approvals that expire."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest

from midflight.agents import agent
from midflight.errors import InvalidTool, StepFailed
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.tools.declaration import Done, tool
from midflight.tools.options import Approval, EffectRecord
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]


@pytest.mark.slow
async def test_an_undo_that_blocks_for_ever_does_not_keep_a_cancel_waiting_for_ever(
    driving: Open,
) -> None:
    stage, go, calls = Stage("hanging-undo"), threading.Event(), list[str]()
    look = stage.reader()
    stage.gate("slow")

    def hang(performed: EffectRecord) -> None:
        calls.append(performed.key)
        go.wait(20)

    @tool(name="hanging-undo.make", label="thing", undo=hang, timeout=0.2)
    async def make() -> str:
        return "made"

    @agent("hanging-undo")
    async def clerk(run: Run) -> None:
        await run.step("Make", make)
        await run.step("Read", look, "slow")

    try:
        async with driving(clerk) as control:
            run = await control.start(clerk, "work")
            await stage.until_begun("slow")
            await control.cancel(run)
            assert (await control.ended(run)).phase is Phase.CANCELLED
            (line,) = (await control.receipt(run)).lines
    finally:
        go.set()

    assert line.word == "unknown"
    assert line.why == "undo: it did not end within 0.2 s and may still be at work"
    assert len(calls) == 1  # never two of them at once


@pytest.mark.slow
async def test_a_blocking_undo_may_fail_and_be_tried_again(driving: Open) -> None:
    stage, calls = Stage("failing-undo"), list[str]()
    look = stage.reader()
    stage.gate("slow")

    def unmake(performed: EffectRecord) -> None:
        calls.append(performed.key)
        if len(calls) == 1:
            raise OSError("the provider is down")

    @tool(name="failing-undo.make", label="thing", undo=unmake)
    async def make() -> str:
        return "made"

    @agent("failing-undo")
    async def clerk(run: Run) -> None:
        await run.step("Make", make)
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        await control.ended(run)
        (line,) = (await control.receipt(run)).lines

    assert (line.word, len(calls)) == ("undone", 2)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_check_whose_result_cannot_be_stored_still_says_that_it_happened(
    driving: Open, cancelled: bool
) -> None:
    stage = Stage("unstorable-check")

    async def look_up(performed: EffectRecord) -> object:
        return Done(threading.Lock())

    @tool(name="unstorable-check.make", label="thing", check=look_up)
    async def make() -> None:
        stage.note(stage.begun, "make")
        if cancelled:
            await anyio.sleep_forever()
        raise ConnectionError("reset by peer")

    @agent("unstorable-check")
    async def clerk(run: Run) -> str:
        try:
            await run.step("Make", make)
        except StepFailed as failed:
            return str(failed)
        return ""

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("make")
        if cancelled:
            await control.cancel(run)
            assert (await control.ended(run)).phase is Phase.CANCELLED
        else:
            assert (
                "it was done, but its result cannot be stored: its result is of type lock"
                in await control.result(run)
            )
        (line,) = (await control.receipt(run)).lines

    assert (line.word, line.why) == ("kept", "no undo")
    assert stage.begun == ["make"]


async def test_what_nobody_approves_in_time_is_not_done(driving: Open) -> None:
    done: list[str] = []

    @tool(name="in-time.send", label="mail", approval=Approval(within=0.1))
    async def send() -> None:
        done.append("sent")

    @agent("in-time")
    async def clerk(run: Run) -> str:
        try:
            await run.step("Send", send)
        except StepFailed as failed:
            return str(failed)
        return ""

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")

        assert "not approved: expired" in await control.result(run)
    assert done == []


async def test_what_is_approved_in_time_is_done(driving: Open) -> None:
    @tool(name="in-good-time.send", label="mail", approval=Approval(within=60))
    async def send() -> str:
        return "sent"

    @agent("in-good-time")
    async def clerk(run: Run) -> object:
        return await run.step("Send", send)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        state = await control.until(run, lambda state: bool(state.questions))
        (question,) = state.questions.values()
        assert question.expires_at is not None
        await control.answer(run, question.position, "approve")

        assert await control.result(run) == "sent"


@pytest.mark.parametrize("within", [0, -5, float("nan"), "5", True])
def test_an_approval_within_no_time_is_refused(within: Any) -> None:
    given: dict[str, Any] = {"approval": Approval(within=within), "name": "in-no-time"}

    with pytest.raises(InvalidTool, match=r"Approval\(within="):
        tool(**given)(lambda: None)
