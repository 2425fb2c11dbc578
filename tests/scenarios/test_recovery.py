"""What a driver finds when it takes over, and what must not bring it down."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.errors import StoreFull
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.record import Event
from midflight.run import Redirected, Run
from midflight.stores.protocol import Append, Committed, Store
from midflight.tools.declaration import tool
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


async def test_a_model_call_is_aborted_by_a_pause_and_made_again_after_a_crash(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("model")
    think = stage.writer(effect="model", undo=None)
    stage.gate("plan")

    @agent()
    async def thinker(run: Run) -> object:
        return await run.step("Think", think, "plan")

    async with crashing(thinker) as control:
        run = await control.start(thinker, "think")
        await stage.until_begun("plan")
        await control.applied(await control.pause(run))
        await control.resume(run)
        await stage.until_begun("plan", times=2)

    stage.gate("plan").set()
    async with driving(thinker) as control:
        assert await control.result(run) == "made plan"
    assert (stage.begun, stage.done) == (["plan"] * 3, ["plan"])


async def test_a_model_call_that_fails_is_a_step_that_failed(driving: Open) -> None:
    @tool(effect="model", name="model.fails")
    async def think() -> str:
        raise ConnectionError("overloaded")

    @agent()
    async def thinker(run: Run) -> object:
        return await run.step("Think", think)

    async with driving(thinker) as control:
        state = await control.ended(await control.start(thinker, "think"))
        assert state.phase is Phase.FAILED
        assert "step 'Think' failed: ConnectionError: overloaded" in state.error


async def test_a_pause_during_the_release_of_a_lock_is_kept_and_the_release_goes_on_after_it(
    driving: Open,
) -> None:
    stage = Stage("release-pause")
    two = [stage.locker("a"), stage.locker("b")]
    stage.gate("release b")

    @agent()
    async def clerk(run: Run) -> str:
        for lock in two:
            await run.step("Lock", lock, lock.label)
        return "worked"

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("release b")
        accepted = await control.pause(run)
        stage.gate("release b").set()
        with anyio.fail_after(5):
            await control.applied(accepted)
        assert (await control.state(run)).phase is Phase.PAUSED
        assert stage.done == ["a", "b", "release b"]

        await control.resume(run)
        with anyio.fail_after(5):
            assert await control.result(run) == "worked"
        assert stage.done == ["a", "b", "release b", "release a"]


async def test_stop_now_in_the_middle_of_undoing_skips_the_rest_but_frees_locks(
    driving: Open,
) -> None:
    stage = Stage("now-undoing")
    lock, make, last = stage.locker("a"), stage.writer(), stage.locker("b")
    stage.gate("end")
    stage.gate("release b")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Lock", lock, "a")
        await run.step("Make", make, "list")
        await run.step("Lock", last, "b")
        await run.step("Read", stage.reader(), "end")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("end")
        await control.cancel(run)
        await stage.until_begun("release b")
        await control.cancel(run, now=True)
        stage.gate("release b").set()
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.CANCELLED
        assert stage.done == ["a", "list", "b", "release b", "release a"]


FULL = StoreFull("no space left. Nothing was appended.")


class Weak:
    """Passes everything on to a store that fails a few times at one kind of event."""

    def __init__(
        self,
        store: Store,
        fails: int,
        at: type[Event] = e.AttemptStarted,
        error: Exception = FULL,
    ) -> None:
        self._store = store
        self._fails = fails
        self._at = at
        self._error = error

    async def append(self, decision: Append) -> Committed:
        events = [event for entry in decision.entries for event in entry.events]
        if self._fails and any(isinstance(event, self._at) for event in events):
            self._fails -= 1
            raise self._error
        return await self._store.append(decision)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.slow
async def test_a_store_that_fails_for_a_moment_brings_down_neither_engine_nor_run(
    store: Store, tmp_path: Path
) -> None:
    stage = Stage("weak")
    make = stage.writer()

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Make", make, run.brief)

    weak = cast("Store", Weak(store, fails=2))
    async with LocalEngine.open(weak, [clerk], workdir=tmp_path, sweep_s=0.05) as engine:
        control = Control(store, engine)
        runs = [await control.start(clerk, brief) for brief in ("a", "b", "c")]
        with anyio.fail_after(5):
            assert [await control.result(run) for run in runs] == ["made a", "made b", "made c"]
    assert sorted(stage.done) == ["a", "b", "c"]


async def test_a_slip_of_the_driver_itself_leaves_the_other_runs_alone(
    store: Store, tmp_path: Path
) -> None:
    """Also an error that is none of ours ends one driver, and is seen to again."""

    make = Stage("slip").writer()

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Make", make, run.brief)

    slipping = cast("Store", Weak(store, 1, at=e.RunEntered, error=KeyError("a slip")))
    async with LocalEngine.open(slipping, [clerk], workdir=tmp_path, sweep_s=0.05) as engine:
        control = Control(store, engine)
        runs = [await control.start(clerk, brief) for brief in ("a", "b")]
        with anyio.fail_after(5):
            assert [await control.result(run) for run in runs] == ["made a", "made b"]


async def test_runs_that_nobody_here_can_drive_do_not_hide_those_that_somebody_can(
    store: Store, driving: Open
) -> None:
    @agent()
    async def clerk(run: Run) -> str:
        return run.brief

    strangers = Control(store)
    for number in range(120):
        await strangers.start("nobody-knows", "work", key=f"{number:03}")
    run = await strangers.start(clerk, "mine", key="zzz")
    async with driving(clerk) as control:
        with anyio.fail_after(5):
            assert await control.result(run) == "mine"


async def test_after_a_redirect_and_a_crash_what_the_old_brief_did_is_not_asked_for(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("redirect-crash")
    make, look = stage.writer(), stage.reader()
    stage.gate("look")

    @agent()
    async def clerk(run: Run) -> list[object]:
        drafted = await run.step(f"Draft {run.brief}", make, run.brief)
        return [drafted, await run.step("Read", look, "look")]

    async with crashing(clerk) as control:
        run = await control.start(clerk, "all")
        await stage.until_begun("look")
        await control.redirect(run, "some")
        await stage.until_begun("look", times=2)

    stage.gate("look").set()
    async with driving(clerk) as control:
        with anyio.fail_after(5):
            assert await control.result(run) == ["made some", "LOOK"]
    assert stage.done == ["all", "some", "look"]


async def test_a_function_that_took_a_redirect_by_itself_is_told_of_it_again_after_a_crash(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("redirect-caught-crash")
    make, look = stage.writer(), stage.reader()
    stage.gate("look")

    @agent()
    async def clerk(run: Run) -> list[object]:
        made = [await run.step("Make", make, "list")]
        try:
            made.append(await run.step("Read", look, "look"))
        except Redirected as redirected:
            made.append(await run.step("Make", make, redirected.brief))
            made.append(await run.step("Read", look, "look"))
        return made

    async with crashing(clerk) as control:
        run = await control.start(clerk, "all")
        await stage.until_begun("look")
        await control.redirect(run, "some")
        await stage.until_begun("look", times=2)

    stage.gate("look").set()
    async with driving(clerk) as control:
        with anyio.fail_after(5):
            assert await control.result(run) == ["made list", "made some", "LOOK"]
    assert stage.done == ["list", "some", "look"]


async def test_after_a_snapshot_and_a_crash_equal_steps_are_still_different_ones(
    driving: Open, crashing: Open
) -> None:
    """Or they would share a key, and a provider that honours keys would drop the later one."""
    stage = Stage("snapshot")
    make, look = stage.writer(effect="write"), stage.reader()
    stage.gate("wait")

    @agent()
    async def clerk(run: Run) -> int:
        begun = run.restored or 0
        for number in range(begun, 4):
            await run.step("Make", make, "copy")
            await run.step("Note", make, f"{run.now()} {run.uuid()}")
            if number == 2:
                await run.step("Read", look, "wait")
            await run.snapshot(number + 1)
        return 4 - begun

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("wait")

    stage.gate("wait").set()
    async with driving(clerk) as control:
        with anyio.fail_after(5):
            assert await control.result(run) == 2
    assert len(stage.keys) == len(set(stage.keys)) == 8


async def test_the_time_that_a_function_sees_is_the_same_after_a_crash(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("now")
    make, look = stage.writer(effect="write"), stage.reader()
    stage.gate("wait")

    @agent()
    async def clerk(run: Run) -> list[float]:
        seen = [run.now()]
        for what in ("a", "b"):
            await run.step(f"Make {what}", make, f"{what} at {run.now()}")
            seen.append(run.now())
        await run.step("Read", look, "wait")
        return [*seen, run.now()]

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("wait")
        await anyio.sleep(0.02)

    stage.gate("wait").set()
    async with driving(clerk) as control:
        with anyio.fail_after(5):
            seen = await control.result(run)
    assert len(stage.done) == 3, "nothing was done twice"
    assert seen == sorted(set(seen)), "it goes on from step to step"


@pytest.mark.slow
async def test_a_function_that_takes_its_time_between_steps_is_not_taken_for_another_one(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("slow-replay")
    make, look = stage.writer(), stage.reader()
    stage.gate("wait")

    @agent()
    async def clerk(run: Run) -> str:
        for what in ("a", "b"):
            await anyio.sleep(0.5)
            await run.step(f"Make {what}", make, what)
        await run.step("Read", look, "wait")
        return "worked"

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("wait")

    stage.gate("wait").set()
    async with driving(clerk) as control:
        with anyio.fail_after(5):
            assert await control.result(run) == "worked"


def changed(stage: Stage) -> tuple[Agent, Agent]:
    """An agent, and what became of it in the next release."""
    make, look = stage.writer(), stage.reader()
    stage.gate("wait")

    async def before(run: Run) -> str:
        await run.step("Make a", make, "a")
        return str(await run.step("Read", look, "wait"))

    async def after(run: Run) -> str:
        return "other code" if run.brief == "ends" else str(await run.step("Make b", make, "b"))

    return Agent("changing", before), Agent("changing", after, evict_after=0.01)


@pytest.mark.parametrize("how", ["ends", "asks for something else"])
@pytest.mark.slow
async def test_code_that_has_changed_is_asked_about_also_when_the_run_was_let_go_meanwhile(
    driving: Open, crashing: Open, how: str
) -> None:
    stage = Stage(f"changed-{len(how)}")
    before, after = changed(stage)
    async with crashing(before) as control:
        run = await control.start(before, how)
        await stage.until_begun("wait")

    async with driving(after) as control:
        with anyio.fail_after(5):
            state = await control.until(run, lambda s: s.phase is Phase.PAUSED and not s.driver)
        (question,) = state.questions.values()
        assert "The agent's code has changed: expected Make a, found" in question.message
        assert stage.done == ["a"]

        await control.answer(run, question.position, "go on")
        with anyio.fail_after(5):
            assert await control.result(run) == ("other code" if how == "ends" else "made b")


async def test_a_run_whose_code_has_changed_can_be_cancelled_by_the_answer(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("changed-cancel")
    before, after = changed(stage)
    async with crashing(before) as control:
        run = await control.start(before, "ends")
        await stage.until_begun("wait")

    async with driving(after) as control:
        with anyio.fail_after(5):
            state = await control.until(run, lambda s: bool(s.questions))
            await control.answer(run, next(iter(state.questions)), "cancel")
            assert (await control.ended(run)).phase is Phase.CANCELLED
    assert stage.done == ["a", "undone a"]
