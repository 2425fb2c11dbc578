"""What users of other systems suffer from, made impossible here: one story for each complaint."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.errors import InvalidRequest, Outdated, Refused, StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.record import Limits
from midflight.journal.state import RunState
from midflight.run import Run
from midflight.stores.protocol import Query
from midflight.tools.declaration import Tool, tool
from midflight.tools.processes.process import run_process
from midflight.tools.progress import emit
from scenarios.conftest import Open
from scenarios.hours import Hours
from scenarios.rests import held_back
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


async def events(control: Control, run: str) -> list[object]:
    return [record.event for record in await control.store.read(run)]


# ── stop does not stop ───────────────────────────────────────────────────────────────────────


async def test_stop_works_between_two_tools_and_not_only_during_a_call(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.runtime.run_session.UNWIND_S", 0.3)
    stage, between = Stage("between"), anyio.Event()
    look = stage.reader()

    @agent()
    async def reader(run: Run) -> None:
        await run.step("First", look, "first")
        between.set()
        await asyncio.sleep(20)  # its own code, in no tool and in no call
        await run.step("Second", look, "second")

    async with driving(reader) as control:
        run = await control.start(reader, "read")
        await between.wait()
        await control.cancel(run)

        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert stage.begun == ["first"]


async def test_a_stop_ends_the_subprocess_and_not_only_the_stream(
    driving: Open, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $! $$ > {pids}; wait"

    @tool(effect="read", name="complaints.crawl")
    async def crawl() -> None:
        await run_process(["/bin/sh", "-c", script])

    @agent()
    async def crawler(run: Run) -> None:
        await run.step("Crawl", crawl)

    async with driving(crawler) as control:
        run = await control.start(crawler, "crawl")
        with anyio.fail_after(10):
            while not pids.exists() or len(pids.read_text().split()) < 2:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        await control.cancel(run)
        await control.ended(run)

        assert not [pid for pid in map(int, pids.read_text().split()) if _lives(pid)]


def _without(question: int) -> Callable[[RunState], bool]:
    return lambda state: question not in state.questions


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIG_DFL)
    except ProcessLookupError:
        return False
    return True


async def test_no_late_tool_call_is_made_after_the_stop_was_acknowledged(driving: Open) -> None:
    stage = Stage("late")
    make, look = stage.writer(), stage.reader()
    stage.gate("plan")

    @agent()
    async def planner(run: Run) -> None:
        try:
            await run.step("Plan", look, "plan")
        finally:  # what a model asked for before it was stopped
            await run.step("Make", make, "late")

    async with driving(planner) as control:
        run = await control.start(planner, "plan")
        await stage.until_begun("plan")
        await control.cancel(run)
        await control.ended(run)

        assert "late" not in stage.begun


async def test_a_stop_in_the_middle_of_a_call_is_answered_and_settles(driving: Open) -> None:
    stage = Stage("settles")
    look = stage.reader()
    stage.gate("call")

    @agent()
    async def caller(run: Run) -> None:
        await run.step("Call", look, "call")

    async with driving(caller) as control:
        run = await control.start(caller, "call")
        await stage.until_begun("call")
        with anyio.fail_after(5):
            accepted = await control.cancel(run)
            assert (await control.applied(accepted)).status == "applied"


async def test_a_stop_before_the_run_has_begun_is_not_forgotten(driving: Open) -> None:
    stage = Stage("early")
    look = stage.reader()

    @agent()
    async def reader(run: Run) -> None:
        await run.step("Read", look, "a")

    async with driving() as control:  # nobody here drives it yet
        run = await control.start(reader, "read")
        await control.cancel(run)
    async with driving(reader) as control:
        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert stage.begun == []


async def test_one_who_comes_back_to_a_run_can_still_stop_it(driving: Open) -> None:
    stage = Stage("come-back")
    look = stage.reader()
    stage.gate("long")

    @agent()
    async def reader(run: Run) -> None:
        await run.step("Read", look, "long")

    async with driving(reader) as control:
        run = await control.start(reader, "read")
        async with control.watch(run):
            await stage.until_begun("long")  # and here the watcher goes away
        assert (await control.state(run)).phase is Phase.RUNNING
        await Control(control.store).cancel(run)  # another client, with the id and nothing else

        assert (await control.ended(run)).phase is Phase.CANCELLED


async def test_a_stop_is_never_queued_behind_work(driving: Open) -> None:
    stage = Stage("four-stops")
    make = stage.writer(irreversible=True, approval=False, undo=None)  # it cannot be aborted
    stage.gate("first")

    @agent()
    async def worker(run: Run) -> None:
        for what in ("first", "second", "third"):
            await run.step(f"Make {what}", make, what)

    async with driving(worker) as control:
        run = await control.start(worker, "work")
        await stage.until_begun("first")
        stops = [await control.cancel(run) for _ in range(4)]

        assert len({stop.position for stop in stops}) == 1, "one stop, acknowledged four times"
        stage.gate("first").set()
        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert stage.begun == ["first"]


async def test_a_loop_of_failing_calls_ends_at_a_stop_and_holds_by_itself(driving: Open) -> None:
    denied: list[int] = []

    @tool(effect="read", name="complaints.denied")
    async def execute(number: int) -> None:
        denied.append(number)
        raise PermissionError("denied")

    @agent(limits=Limits(repeats=3))
    async def stubborn(run: Run) -> None:
        for number in range(1000):
            try:
                await run.step("Execute", execute, number)
            except StepFailed:
                continue

    async with driving(stubborn) as control:
        run = await control.start(stubborn, "try")
        state = await control.until(run, lambda state: state.phase is Phase.PAUSED)

        assert len(denied) < 15
        assert any("errors in a row" in question.message for question in state.questions.values())
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED


# ── wrong scope ──────────────────────────────────────────────────────────────────────────────


async def test_holding_the_main_run_does_not_lose_its_background_runs(driving: Open) -> None:
    stage = Stage("background")
    look = stage.reader()
    stage.gate("slow")

    @agent("complaints.scout")
    async def scout(run: Run) -> object:
        return await run.step("Scout", look, "slow")

    @agent()
    async def chief(run: Run) -> object:
        child = await run.spawn(scout, "look")
        return await child.result()

    async with driving(chief, scout) as control:
        run = await control.start(chief, "work")
        await stage.until_begun("slow")
        await control.applied(await control.pause(run))
        (child,) = (await control.state(run)).children
        await control.until(child, lambda state: state.phase is Phase.PAUSED)
        stage.gate("slow").set()
        await control.resume(run)

        assert await control.result(run) == "SLOW"


async def test_stop_reaches_every_background_run(driving: Open) -> None:
    stage = Stage("twenty")
    look = stage.reader()
    topics = [f"topic {n}" for n in range(20)]
    for topic in topics:
        stage.gate(topic)

    @agent("complaints.worker")
    async def worker(run: Run) -> object:
        return await run.step("Work", look, run.brief)

    @agent()
    async def chief(run: Run) -> None:
        children = [await run.spawn(worker, topic) for topic in topics]
        for child in children:
            await child.result()

    async with driving(chief, worker) as control:
        run = await control.start(chief, "work")
        for topic in topics:
            await stage.until_begun(topic)
        await control.cancel(run)
        await control.ended(run)

        phases = {
            (await control.state(child)).phase for child in (await control.state(run)).children
        }
        assert phases == {Phase.CANCELLED}, "all of them, before the parent says so"
        assert stage.done == []


async def test_a_mere_message_kills_nothing(driving: Open) -> None:
    stage = Stage("message")
    look = stage.reader()
    stage.gate("work")

    @agent("complaints.helper")
    async def helper(run: Run) -> object:
        return await run.step("Help", look, "work")

    @agent()
    async def chief(run: Run) -> object:
        child = await run.spawn(helper, "help")
        found = await child.result()
        return [found, [message.text for message in await run.inbox()]]

    async with driving(chief, helper) as control:
        run = await control.start(chief, "work")
        await stage.until_begun("work")
        await control.send(run, "how is it going?")
        stage.gate("work").set()

        assert await control.result(run) == ["WORK", ["how is it going?", "Done: help. WORK"]]


# ── messages lost ────────────────────────────────────────────────────────────────────────────


async def test_a_message_in_the_middle_of_a_run_neither_aborts_it_nor_is_dropped(
    driving: Open,
) -> None:
    stage = Stage("interjection")
    look = stage.reader()
    stage.gate("one")

    @agent()
    async def worker(run: Run) -> object:
        heard = []
        for what in ("one", "two", "three"):
            await run.step(f"Look at {what}", look, what)
            heard += [message.text for message in await run.inbox()]
        return heard

    async with driving(worker) as control:
        run = await control.start(worker, "work")
        await stage.until_begun("one")
        for text in ("first", "second", "third"):
            await control.send(run, text)
        stage.gate("one").set()

        assert await control.result(run) == ["first", "second", "third"]
        assert stage.done == ["one", "two", "three"]


async def test_a_stop_leaves_no_flag_behind_that_swallows_the_next_thing(driving: Open) -> None:
    stage = Stage("stale-flag")
    look = stage.reader()
    stage.gate("a")

    @agent()
    async def reader(run: Run) -> object:
        return await run.step("Read", look, run.brief)

    async with driving(reader) as control:
        first = await control.start(reader, "a", thread="t-same")
        await stage.until_begun("a")
        await control.cancel(first)
        second = await control.start(reader, "b", thread="t-same")

        assert await control.result(second) == "B"
        assert (await control.ended(first)).phase is Phase.CANCELLED


# ── duplicates ───────────────────────────────────────────────────────────────────────────────


async def test_questions_in_a_loop_repeat_nothing_that_was_done_before_them(
    driving: Open,
) -> None:
    stage = Stage("loop-of-questions")
    make = stage.writer()

    @agent(evict=True)
    async def worker(run: Run) -> None:
        for number in range(3):
            await run.step("Make", make, f"thing {number}")
            await run.ask(f"Go on after {number}?")

    async with driving(worker) as control:
        run = await control.start(worker, "work")
        for _ in range(3):
            state = await control.until(run, lambda state: bool(state.questions))
            await control.until(run, lambda state: state.phase is Phase.WAITING)
            await control.answer(run, next(iter(state.questions)), "yes")
            await control.until(run, _without(next(iter(state.questions))))
        await control.ended(run)

        assert stage.begun == ["thing 0", "thing 1", "thing 2"]


@pytest.mark.slow
async def test_a_long_tool_is_never_dispatched_again_behind_our_back(driving: Open) -> None:
    stage = Stage("long-tool")
    make = stage.writer()
    stage.gate("report")

    @agent()
    async def worker(run: Run) -> object:
        return await run.step("Make", make, "report")

    async with driving(worker) as control, driving(worker) as second:
        run = await control.start(worker, "work")
        await stage.until_begun("report")
        await second.store.due()
        await anyio.sleep(0.3)  # several sweeps of both engines
        stage.gate("report").set()

        assert await control.result(run) == "made report"
        assert stage.begun == ["report"]


async def test_an_interruption_does_not_drop_the_result_of_an_effect(driving: Open) -> None:
    stage = Stage("reservation")
    make = stage.writer()
    stage.gate("table")

    @agent()
    async def waiter(run: Run) -> object:
        return await run.step("Reserve", make, "table")

    async with driving(waiter) as control:
        run = await control.start(waiter, "work")
        await stage.until_begun("table")
        paused = await control.pause(run)
        assert paused.in_flight == ("thing",)
        stage.gate("table").set()
        await control.applied(paused)
        await control.resume(run)

        assert await control.result(run) == "made table"
        assert stage.begun == ["table"]


# ── lost state, stale resume, runaways ───────────────────────────────────────────────────────


async def test_a_cancel_keeps_what_was_done_since_the_last_checkpoint(driving: Open) -> None:
    said = anyio.Event()

    @tool(effect="read", name="complaints.write")
    async def write() -> None:
        emit("Dear customer, ")
        emit("we are happy to")
        said.set()
        await anyio.sleep_forever()

    @agent()
    async def writer(run: Run) -> None:
        await run.step("Write", write)

    async with driving(writer) as control:
        run = await control.start(writer, "write")
        await said.wait()
        await control.cancel(run)
        state = await control.ended(run)

        thread = [record.event for record in await control.store.read(state.thread)]
        assert "Dear customer, we are happy to" in str(thread[-1])
        assert (await control.receipt(run)).saved == ("text so far of Write (30 characters)",)


@pytest.mark.slow
async def test_a_policy_that_changed_while_it_was_paused_asks_for_a_fresh_approval(
    driving: Open, hours: Hours
) -> None:
    stage = Stage("policy")

    def declared(rule: str) -> Tool:
        return stage.writer(irreversible=True, undo=None, approval=rule, undo_window=10.0)

    @agent()
    async def payer(run: Run) -> object:
        return await run.step("Pay", declared(rules[-1]), "invoice")

    rules = ["Up to 100 a manager may approve."]
    async with driving(payer) as control:
        run = await control.start(payer, "pay")
        asked = await control.until(run, lambda state: bool(state.questions))
        await control.answer(run, next(iter(asked.questions)), "approve")
        until = await held_back(control, run)
        await control.applied(await control.pause(run))
    rules.append("Finance approves everything.")
    async with driving(payer) as control:
        await control.resume(run)
        asked = await control.until(run, lambda state: bool(state.questions))
        (question,) = asked.questions.values()

        assert "Finance approves everything." in question.message
        assert stage.begun == []
        await control.answer(run, question.position, "approve")
        hours.skip_to(await held_back(control, run, after=until))
        assert await control.result(run) == "made invoice"


@pytest.mark.slow
async def test_what_a_person_aborted_does_not_go_on_by_itself_after_a_restart(
    driving: Open,
) -> None:
    stage = Stage("restart")
    look = stage.reader()
    stage.gate("a")

    @agent()
    async def reader(run: Run) -> None:
        await run.step("Read", look, "a")

    async with driving(reader) as control:
        run = await control.start(reader, "read")
        await stage.until_begun("a")
        await control.applied(await control.pause(run))
    stage.begun.clear()
    async with driving(reader) as control:
        await anyio.sleep(0.3)

        assert (await control.state(run)).phase is Phase.PAUSED
        assert stage.begun == []


@pytest.mark.slow
async def test_recursive_agents_cannot_spend_more_than_the_first_was_given(driving: Open) -> None:
    @tool(effect="read", name="complaints.think")
    async def think() -> None:
        return None

    @agent("complaints.recursive")
    async def recursive(run: Run) -> None:
        await run.step("Think", think)
        child = await run.spawn("complaints.recursive", "again")
        await child.result()

    async with driving(recursive) as control:
        run = await control.start(recursive, "think", limits=Limits(steps=16))
        with anyio.fail_after(20):
            while not (held := await control.runs(Query(phases=(Phase.PAUSED,)))):  # noqa: ASYNC110
                await anyio.sleep(0.05)
        await anyio.sleep(0.2)

        assert sum(row.steps for row in await control.runs()) <= 16
        assert held
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED


async def test_steering_a_turn_that_has_moved_on_fails_loudly(driving: Open) -> None:
    @agent()
    async def worker(run: Run) -> None:
        await run.ask("Which?")

    async with driving(worker) as control:
        run = await control.start(worker, "work")
        seen = (await control.until(run, lambda state: state.phase is Phase.WAITING)).head
        state = await control.state(run)
        await control.answer(run, next(iter(state.questions)), "this one")

        with pytest.raises((Outdated, Refused)):
            await control.redirect(run, "elsewhere", expect=seen)


async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays(
    driving: Open,
) -> None:
    @agent()
    async def worker(run: Run) -> object:
        return (await run.ask("How many?", schema={"type": "integer", "minimum": 1})).payload

    async with driving(worker) as control:
        run = await control.start(worker, "work")
        state = await control.until(run, lambda state: bool(state.questions))
        question = next(iter(state.questions))
        for wrong in ("many", 0, None):
            with pytest.raises(InvalidRequest, match="does not fit"):
                await control.answer(run, question, wrong)
        await control.answer(run, question, 3)

        assert await control.result(run) == 3


async def test_every_stop_says_who_asked_for_it(driving: Open) -> None:
    stage = Stage("who")
    look = stage.reader()
    stage.gate("a")

    @agent()
    async def reader(run: Run) -> None:
        await run.step("Read", look, "a")

    async with driving(reader) as control:
        run = await control.start(reader, "read")
        await stage.until_begun("a")
        await control.cancel(run)
        state = await control.ended(run)

        assert state.ended_by is not None
        assert state.ended_by.by == "library"
        assert [x.who.by for x in await events(control, run) if isinstance(x, e.CancelRequested)]
