"""A worker that was taken for lost lives, and tells what it did while another drives its run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
import pytest
from typing_extensions import override

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.journal import events as e
from midflight.journal.phases import Outcome, Phase
from midflight.journal.state import RunState
from midflight.run import Run
from midflight.stores.protocol import Committed, Draft, Store, Submit, View
from midflight.tools.declaration import NotDone, Tool, tool
from midflight.tools.options import EffectRecord, Retry
from scenarios.conftest import failed_drivers
from scenarios.cord import Cord
from scenarios.rests import events_of
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(40)]

STORY_S = 25.0


class Mistaken(Cord):
    """Takes everybody else for lost, as is done where a lease runs out by time."""

    @override
    async def submit(self, request: Submit) -> Committed:
        def decide(view: View) -> Draft:
            return request.decide(msgspec.structs.replace(view, gone=frozenset(request.leases)))

        return await super().submit(msgspec.structs.replace(request, decide=decide))

    @asynccontextmanager
    async def lease(self, driver: str) -> AsyncIterator[Any]:
        async with self._store.lease(driver) as lease:
            cast("Any", lease).proven = False
            yield lease


class Succession:
    """A run in the middle of an effect of its first worker, and a second one that can take it."""

    def __init__(self, control: Control, run: str, cord: Cord, engine: LocalEngine) -> None:
        self.control = control
        self.run = run
        self.cord = cord
        self._engine = engine

    async def take_over(self) -> None:
        """The first worker is taken for lost. It goes on all the same."""
        await self._engine.ensure(self.run)
        await self.told(Outcome.UNKNOWN)

    async def until(self, ready: Callable[[RunState], bool]) -> RunState:
        return await self.control.until(self.run, ready)

    async def told(self, outcome: Outcome = Outcome.DONE) -> None:
        """The first worker has told how its effect ended."""
        await self.until(lambda state: next(iter(state.effects.values())).outcome is outcome)


Succeed = Callable[[Stage, Agent], AbstractAsyncContextManager[Succession]]


@pytest.fixture
def succession(store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Succeed:
    """Two workers at one store, the first of them in the middle of making ``a``."""

    @asynccontextmanager
    async def succeed(stage: Stage, clerk: Agent) -> AsyncIterator[Succession]:
        cord, _ = Mistaken(store), stage.gate("a")
        async with LocalEngine.open(store, [clerk], workdir=tmp_path, sweep_s=0.05) as first:
            control = Control(store, first)
            run = await control.start(clerk, "work")
            await stage.until_begun("a")
            mistaken = cast("Store", cord)
            async with LocalEngine.open(mistaken, [clerk], workdir=tmp_path) as second:
                try:
                    with anyio.fail_after(STORY_S):
                        yield Succession(control, run, cord, second)
                finally:
                    for gate in stage.gates.values():
                        gate.set()
                    cord.let_go.set()
        assert failed_drivers(caplog) == []

    return succeed


def making(stage: Stage, make: Tool, newer: Tool | None = None) -> Agent:
    """Makes ``a``; with ``newer`` code after the first worker has begun."""

    @agent(f"{stage.name}-clerk")
    async def clerk(run: Run) -> object:
        return await run.step("Make a", newer if newer and stage.begun else make, "a")

    return clerk


def maker(stage: Stage, *failures: Exception | None, **declared: Any) -> Tool:
    """The first call waits for its cue; a call that is to fail does so, and does nothing."""

    async def make(what: str) -> str:
        stage.note(stage.begun, what)
        number = len(stage.begun)
        gate = stage.gate("a") if number == 1 else stage.gates.get("a again")
        while gate and not gate.is_set():  # the first one is out of reach: it cannot be ended
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
        if number <= len(failures) and (failure := failures[number - 1]):
            raise failure
        stage.note(stage.done, what)
        return f"made by worker {number}"

    async def unmake(performed: EffectRecord) -> None:
        stage.note(stage.done, f"undoing {performed.result}")
        if "undo" in stage.gates:
            await stage.gates["undo"].wait()

    stated: dict[str, Any] = {"effect": "once", "undo": unmake} | declared
    return tool(name=f"{stage.name}.make", label="thing", describe="thing", **stated)(make)


async def lines(both: Succession) -> list[str]:
    return [line.text for line in (await both.control.receipt(both.run)).lines]


# ── before the successor begins ──────────────────────────────────────────────────────────────


async def test_what_was_told_before_the_successors_start_is_on_record_is_not_begun_again(
    succession: Succeed,
) -> None:
    """Both want to append; the start comes second, and so does not come at all."""
    stage = Stage("late-wins")
    async with succession(stage, making(stage, maker(stage, effect="write"))) as both:
        both.cord.linger_at(e.AttemptStarted)
        await both.take_over()
        await both.cord.reached.wait()
        stage.gate("a").set()
        await both.told()
        both.cord.let_go.set()

        assert await both.control.result(both.run) == "made by worker 1"
        state = await both.control.state(both.run)
        assert (state.epoch, len(state.effects), state.done) == (2, 1, 1)

    assert stage.begun == ["a"]


async def test_what_was_told_while_the_run_was_paused_is_not_begun_when_it_goes_on(
    succession: Succeed,
) -> None:
    """The successor has looked for a record long ago, and found none."""
    stage = Stage("late-paused")
    async with succession(stage, making(stage, maker(stage, effect="write"))) as both:
        both.cord.linger_at(e.AttemptStarted)
        await both.take_over()
        await both.cord.reached.wait()
        await both.control.pause(both.run)
        both.cord.let_go.set()
        await both.until(lambda state: state.phase is Phase.PAUSED)
        stage.gate("a").set()
        await both.told()
        await both.control.resume(both.run)

        assert await both.control.result(both.run) == "made by worker 1"

    assert stage.begun == ["a"]


async def test_what_is_told_between_the_start_and_its_first_line_is_not_begun(
    succession: Succeed,
) -> None:
    """The start is on record, and its author has still to hear of it."""
    stage = Stage("late-line")
    async with succession(stage, making(stage, maker(stage, effect="write"))) as both:
        both.cord.linger_after(e.AttemptStarted)
        await both.take_over()
        await both.cord.reached.wait()
        stage.gate("a").set()
        await both.told()
        await anyio.wait_all_tasks_blocked()
        both.cord.let_go.set()

        assert await both.control.result(both.run) == "made by worker 1"
        assert await lines(both) == ["thing: not started", "thing: kept"]

    assert stage.begun == ["a"]


async def test_that_it_was_not_done_lets_the_successor_do_it(succession: Succeed) -> None:
    stage = Stage("late-refused")
    make = maker(stage, NotDone("refused"), effect="write")
    async with succession(stage, making(stage, make)) as both:
        both.cord.linger_at(e.AttemptStarted)
        await both.take_over()
        await both.cord.reached.wait()
        stage.gate("a").set()
        await both.told(Outcome.NOT_DONE)
        both.cord.let_go.set()

        assert await both.control.result(both.run) == "made by worker 2"
        assert await lines(both) == ["thing: kept", "thing: aborted (proven)"]

    assert stage.done == ["a"]


async def test_of_steps_at_once_none_is_done_again_that_was_told(succession: Succeed) -> None:
    stage = Stage("late-gather")
    make = stage.writer(effect="write")
    stage.gate("b")

    @agent("late-gather-clerk")
    async def clerk(run: Run) -> object:
        made = dict[str, object]()

        async def one(what: str) -> None:
            made[what] = await run.step(f"Make {what}", make, what)

        async with anyio.create_task_group() as tasks:
            for what in "ab":
                tasks.start_soon(one, what)
        return made

    async with succession(stage, clerk) as both:
        await stage.until_begun("b")
        both.cord.linger_at(e.AttemptStarted)
        await both.take_over()
        await both.cord.reached.wait()
        stage.gate("b").set()
        stage.gate("a").set()
        await both.until(lambda state: state.done == 2)
        both.cord.let_go.set()

        assert await both.control.result(both.run) == {"a": "made a", "b": "made b"}

    assert stage.begun == ["a", "b"]


# ── while the successor waits for something ──────────────────────────────────────────────────


async def test_a_person_is_not_asked_any_more_about_what_was_told(succession: Succeed) -> None:
    stage = Stage("late-asked")
    async with succession(stage, making(stage, maker(stage))) as both:
        await both.take_over()
        await both.until(lambda state: state.phase is Phase.WAITING)
        stage.gate("a").set()

        assert await both.control.result(both.run) == "made by worker 1"
        assert await lines(both) == ["thing: kept"]

    assert stage.begun == ["a"]


async def test_nor_about_what_is_known_not_to_be_done_which_the_successor_does(
    succession: Succeed,
) -> None:
    stage = Stage("late-asked-refused")
    async with succession(stage, making(stage, maker(stage, NotDone("refused")))) as both:
        await both.take_over()
        await both.until(lambda state: state.phase is Phase.WAITING)
        stage.gate("a").set()

        assert await both.control.result(both.run) == "made by worker 2"

    assert stage.done == ["a"]


async def test_a_run_that_rests_because_of_the_question_goes_on_when_it_is_told(
    succession: Succeed,
) -> None:
    stage = Stage("late-rests")
    patient = making(stage, maker(stage))
    clerk = Agent(patient.name, patient.function, evict_after=0.01)
    async with succession(stage, clerk) as both:
        await both.take_over()
        await both.until(lambda state: state.phase is Phase.WAITING and not state.driver)
        stage.gate("a").set()

        assert await both.control.result(both.run) == "made by worker 1"

    assert stage.begun == ["a"]


async def test_a_worker_that_does_not_know_either_leaves_the_question_open(
    succession: Succeed,
) -> None:
    stage = Stage("late-unclear")
    make = maker(stage, ConnectionError("reset by peer"))
    async with succession(stage, making(stage, make)) as both:
        await both.take_over()
        await both.until(lambda state: state.phase is Phase.WAITING)
        stage.gate("a").set()
        await anyio.wait_all_tasks_blocked()
        (question,) = (await both.control.state(both.run)).questions
        await both.control.answer(both.run, question, "again")

        assert await both.control.result(both.run) == "made by worker 2"


async def test_told_just_after_a_person_said_try_again_it_is_not_tried_and_was_done_once(
    succession: Succeed,
) -> None:
    stage = Stage("late-again")
    async with succession(stage, making(stage, maker(stage))) as both:
        both.cord.linger_at(e.AttemptStarted)
        await both.take_over()
        (question,) = (await both.until(lambda state: bool(state.questions))).questions
        await both.control.answer(both.run, question, "again")
        await both.cord.reached.wait()
        stage.gate("a").set()
        await both.told()
        both.cord.let_go.set()

        assert await both.control.result(both.run) == "made by worker 1"
        state = await both.control.state(both.run)
        assert state.done == 1
        ((_, notice),) = state.notices
        assert "done after all" in notice
        assert "twice" not in notice

    assert stage.begun == ["a"]


async def test_who_gives_a_lost_worker_time_hears_at_once_what_it_tells(
    succession: Succeed,
) -> None:
    async def look_up(performed: EffectRecord) -> object:
        return NotDone()

    stage = Stage("late-time")
    async with succession(stage, making(stage, maker(stage, check=look_up))) as both:
        await both.take_over()
        await both.until(lambda state: bool(state.notices))  # its timeout is ten minutes
        stage.gate("a").set()

        assert await both.control.result(both.run) == "made by worker 1"

    assert stage.begun == ["a"]


async def test_a_window_in_which_it_could_be_stopped_closes_when_it_is_told(
    succession: Succeed,
) -> None:
    stage = Stage("late-window")
    newer = maker(stage, effect="write", undo_window=60.0)
    make = maker(stage, effect="write")
    async with succession(stage, making(stage, make, newer)) as both:
        await both.take_over()
        await both.until(lambda state: bool(state.windows))
        stage.gate("a").set()
        state = await both.until(lambda state: state.done == 1)
        assert not state.windows  # or it would be shown as starting soon

        assert await both.control.result(both.run) == "made by worker 1"

    assert stage.begun == ["a"]


async def test_nobody_is_asked_any_more_whether_it_may_be_done(succession: Succeed) -> None:
    """Newer code wants an approval, and the older has done it."""
    stage = Stage("late-approval")
    newer = maker(stage, effect="write", approval="Who pays?")
    make = maker(stage, effect="write")
    async with succession(stage, making(stage, make, newer)) as both:
        await both.take_over()
        await both.until(lambda state: state.phase is Phase.WAITING)
        stage.gate("a").set()

        assert await both.control.result(both.run) == "made by worker 1"

    assert stage.begun == ["a"]


async def test_nor_if_it_was_told_before_they_could_be_asked(succession: Succeed) -> None:
    stage = Stage("late-approval-paused")
    newer = maker(stage, effect="write", approval="Who pays?", relies_on=())
    async with succession(stage, making(stage, maker(stage, effect="write"), newer)) as both:
        await both.control.pause(both.run)
        await both.take_over()
        await both.until(lambda state: state.phase is Phase.PAUSED)
        stage.gate("a").set()
        await both.told()
        await both.control.resume(both.run)

        assert await both.control.result(both.run) == "made by worker 1"

    assert stage.begun == ["a"]


async def test_nor_is_a_run_left_to_wait_for_it_that_nobody_drives(succession: Succeed) -> None:
    stage = Stage("late-approval-rests")
    newer = maker(stage, effect="write", approval="Who pays?")
    patient = making(stage, maker(stage, effect="write"), newer)
    clerk = Agent(patient.name, patient.function, evict_after=0.01)
    async with succession(stage, clerk) as both:
        await both.take_over()
        await both.until(lambda state: state.phase is Phase.WAITING and not state.driver)
        stage.gate("a").set()

        assert await both.control.result(both.run) == "made by worker 1"
        assert not (await both.control.state(both.run)).questions

    assert stage.begun == ["a"]


async def test_a_wait_before_another_try_ends_when_it_is_told(succession: Succeed) -> None:
    stage = Stage("late-back-off")
    failed = ConnectionError("reset by peer")
    make = maker(stage, None, failed, effect="write", retry=Retry(1, first_after=60.0))
    async with succession(stage, making(stage, make)) as both:
        await both.take_over()
        await both.until(lambda state: bool(state.timers))
        stage.gate("a").set()

        assert await both.control.result(both.run) == "made by worker 1"
        assert not (await both.control.state(both.run)).timers

    assert stage.begun == ["a", "a"]


# ── while the successor is at it itself ──────────────────────────────────────────────────────


async def begin_again(both: Succession, stage: Stage) -> None:
    """A person has said that it did not happen; then both are at it, and the first one tells."""
    await both.take_over()
    (question,) = (await both.until(lambda state: bool(state.questions))).questions
    await both.control.answer(both.run, question, "again")
    await stage.until_begun("a", times=2)
    stage.gate("a").set()
    await both.told()


async def test_what_both_have_done_is_accounted_for_twice_and_a_person_is_told(
    succession: Succeed,
) -> None:
    stage = Stage("late-twice")
    again = stage.gate("a again")
    async with succession(stage, making(stage, maker(stage))) as both:
        await begin_again(both, stage)
        again.set()

        assert await both.control.result(both.run) == "made by worker 1"  # and so at every replay
        assert await lines(both) == ["thing: kept", "thing: kept"]
        state = await both.control.state(both.run)
        assert "may have been done twice" in state.notices[-1][1]
        assert state.done == 1  # one step
        await both.control.undo(both.run)
        await both.until(lambda state: not state.undo_wanted)
        assert await lines(both) == ["thing: undone", "thing: undone"]

    assert stage.done[2:] == ["undoing made by worker 2", "undoing made by worker 1"]


async def test_a_write_of_both_is_one_thing_and_one_step(succession: Succeed) -> None:
    """Under the same key: who honours that has done it once."""
    stage = Stage("late-write")
    again = stage.gate("a again")
    async with succession(stage, making(stage, maker(stage, effect="write"))) as both:
        await both.take_over()
        await stage.until_begun("a", times=2)
        stage.gate("a").set()
        await both.told()
        again.set()

        assert await both.control.result(both.run) == "made by worker 1"
        assert await lines(both) == ["thing: kept"]
        assert (await both.control.state(both.run)).done == 1


@pytest.mark.parametrize("retry", [0, 1])
async def test_a_successor_that_fails_then_makes_no_failure_of_what_was_done(
    succession: Succeed, retry: int
) -> None:
    """And it does not try once more."""
    stage = Stage(f"late-fails-{retry}")
    again = stage.gate("a again")
    make = maker(stage, None, ConnectionError("reset by peer"), effect="write", retry=retry)
    async with succession(stage, making(stage, make)) as both:
        await both.take_over()
        await stage.until_begun("a", times=2)
        stage.gate("a").set()
        await both.told()
        again.set()

        assert await both.control.result(both.run) == "made by worker 1"
        assert await events_of(both.control, both.run, e.TimerSet) == []
        assert await lines(both) == ["thing: kept"]  # of which the repeat knows nothing

    assert stage.begun == ["a", "a"]


async def test_a_failure_that_is_just_being_written_down_gives_way_to_what_is_told(
    succession: Succeed,
) -> None:
    stage = Stage("late-failing")
    make = maker(stage, None, ConnectionError("reset by peer"), effect="write")
    async with succession(stage, making(stage, make)) as both:
        both.cord.linger_at(e.StepSettled)
        await both.take_over()
        await both.cord.reached.wait()
        stage.gate("a").set()
        await both.told()
        both.cord.let_go.set()

        assert await both.control.result(both.run) == "made by worker 1"


async def test_a_step_that_a_person_just_gives_up_is_done_if_it_is_told(
    succession: Succeed,
) -> None:
    stage = Stage("late-given-up")
    async with succession(stage, making(stage, maker(stage))) as both:
        both.cord.linger_at(e.StepSettled)
        await both.take_over()
        (question,) = (await both.until(lambda state: bool(state.questions))).questions
        await both.control.answer(both.run, question, "fail")
        await both.cord.reached.wait()
        stage.gate("a").set()
        await both.told()
        both.cord.let_go.set()

        assert await both.control.result(both.run) == "made by worker 1"

    assert stage.begun == ["a"]


async def test_nobody_has_said_that_the_repeat_was_not_done(
    succession: Succeed, store: Store, tmp_path: Path
) -> None:
    """The successor was lost, too, and somebody is being asked about its try."""
    stage = Stage("late-three")
    clerk = making(stage, maker(stage))
    async with succession(stage, clerk) as both:
        stage.gate("a again")
        await both.take_over()
        (question,) = (await both.until(lambda state: bool(state.questions))).questions
        await both.control.answer(both.run, question, "again")
        await both.until(lambda state: len(state.effects) == 2)
        mistaken = cast("Store", Mistaken(store))
        async with LocalEngine.open(mistaken, [clerk], workdir=tmp_path) as third:
            await third.ensure(both.run)
            await both.until(lambda state: bool(state.questions.keys() - {question}))
            stage.gate("a").set()

            assert await both.control.result(both.run) == "made by worker 1"
            assert any("unknown" in line for line in await lines(both))
            stage.gate("a again").set()


async def test_what_is_told_while_it_is_being_undone_is_undone_once_more(
    succession: Succeed,
) -> None:
    """Nobody knows which of the two came first."""
    stage = Stage("late-undone")
    undo = stage.gate("undo")
    async with succession(stage, making(stage, maker(stage))) as both:
        await both.take_over()
        await both.until(lambda state: bool(state.questions))
        await both.control.cancel(both.run)
        await stage.until_done("undoing None")  # on record before its first line
        stage.gate("a").set()
        await both.told()
        undo.set()

        assert (await both.control.ended(both.run)).phase is Phase.CANCELLED
        assert await lines(both) == ["thing: undone"]

    assert stage.done == ["undoing None", "a", "undoing made by worker 1"]
