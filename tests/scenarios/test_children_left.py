"""Children of children whose parent has ended, was killed or is not on record any more.

A purge spares the runs that a run which stays has begun, but older ones did not.
"""

from __future__ import annotations

import threading
import time

import anyio
import pytest

from midflight.agents import agent
from midflight.errors import StepFailed
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.run import Run
from scenarios.company import child_of, lose, said
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

OPERATOR = Actor(by="olga", role=Role.OPERATOR)


@pytest.mark.slow
async def test_cancel_now_waits_for_whom_a_child_that_has_ended_left_at_work(
    driving: Open,
) -> None:
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    def in_a_thread() -> None:
        begun.set()
        go.wait(10)
        ended.set()

    @agent("left-leaf")
    async def leaf(run: Run) -> None:
        await run.step("Work", in_a_thread)

    @agent("left-middle")
    async def middle(run: Run) -> None:
        await run.spawn(leaf, "work")

    @agent("left-top")
    async def top(run: Run) -> None:
        await (await run.spawn(middle, "delegate")).result()
        await run.step("Linger", anyio.sleep_forever)

    async with driving(top, middle, leaf) as control:
        run = await control.start(top, "work")
        await anyio.to_thread.run_sync(begun.wait, 10)
        await control.ended(await child_of(control, run))
        await control.cancel(run, now=True)
        await anyio.sleep(0.2)
        assert (await control.state(run)).phase is Phase.CANCELLING

        go.set()
        await control.ended(run)
        assert ended.is_set()


async def test_a_purge_keeps_a_child_that_has_ended_so_that_a_cancel_of_its_parent_undoes_it(
    driving: Open,
) -> None:
    stage = Stage("kept-child")
    make, look = stage.writer(), stage.reader()
    stage.gate("slow")

    @agent("kept-leaf")
    async def leaf(run: Run) -> None:
        await run.step("Make", make, "leaf")

    @agent("kept-top")
    async def top(run: Run) -> None:
        await (await run.spawn(leaf, "make")).result()
        await run.step("Linger", look, "slow")

    async with driving(top, leaf) as control:
        run = await control.start(top, "work")
        await stage.until_begun("slow")
        assert (await control.store.purge(time.time() + 60)).runs == 0  # noqa: TID251 - the store's
        await control.cancel(run)
        await control.ended(run)

        assert "undone leaf" in stage.done


@pytest.mark.parametrize("now", [False, True])
async def test_a_child_that_was_purged_does_not_keep_its_parent_from_being_cancelled(
    driving: Open, now: bool
) -> None:
    stage = Stage("purged-child")
    make, look = stage.writer(), stage.reader()
    stage.gate("slow")

    @agent("purged-leaf")
    async def leaf(run: Run) -> None:
        await run.step("Make", make, "leaf")

    @agent("purged-top")
    async def top(run: Run) -> None:
        await (await run.spawn(leaf, "make")).result()
        await run.step("Linger", look, "slow")

    async with driving(top, leaf) as control:
        run = await control.start(top, "work")
        await stage.until_begun("slow")
        await lose(control.store, await child_of(control, run))
        await control.cancel(run, now=now)
        await control.ended(run)

        (line, *_) = [x for x in (await control.receipt(run)).lines if "background" in x.noun]
        why = "its journal was purged, and with it what it did"
        expected = ("kept", "undo skipped") if now else ("could not be undone", why)
        assert (line.word, line.why) == expected


async def test_a_parent_that_was_away_learns_that_its_child_has_ended_and_was_purged(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("purged-away")
    look = stage.reader()
    stage.gate("slow")

    @agent("purged-away-leaf")
    async def leaf(run: Run) -> object:
        return await run.step("Read", look, "slow")

    @agent("purged-away")
    async def top(run: Run) -> str:
        try:
            await (await run.spawn(leaf, "read")).result()
        except StepFailed as failed:
            return str(failed)
        return ""

    async with crashing(top, leaf) as control:
        run = await control.start(top, "work")
        await stage.until_begun("slow")
        child = await child_of(control, run)
    stage.gate("slow").set()
    async with driving(leaf) as control:
        await control.ended(child)
        await lose(control.store, child)
    async with driving(top) as control:
        assert "its journal was purged" in await control.result(run)


async def test_a_child_that_is_killed_is_reported_by_its_parent(driving: Open) -> None:
    stage = Stage("killed-child")
    look = stage.reader()
    stage.gate("slow")

    @agent("killed-leaf")
    async def leaf(run: Run) -> object:
        return await run.step("Read", look, "slow")

    @agent("killed-top")
    async def top(run: Run) -> str:
        try:
            await (await run.spawn(leaf, "count")).result()
        except StepFailed as failed:
            return str(failed)
        return ""

    async with driving(top, leaf) as control:
        run = await control.start(top, "work")
        await stage.until_begun("slow")
        child = await child_of(control, run)
        await control.kill("agent:killed-leaf", who=OPERATOR)

        assert "killed" in await control.result(run)
        assert await said(control, child, "report") == ["Killed: count."]
