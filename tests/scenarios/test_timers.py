"""Time that has to pass: back-off, hold windows and expiry survive eviction and a crash."""

from __future__ import annotations

import gc
import time
from typing import Any

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.record import Event, Recorded
from midflight.run import Run
from midflight.tools.declaration import NotDone, Tool, tool
from midflight.tools.options import Retry
from scenarios.conftest import Open
from scenarios.hours import Hours
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio

LONG_S = 10.0  # no machine dawdles for so long


def impatient(agent: Agent) -> Agent:
    """The same agent, let go as soon as it rests."""
    return Agent(agent.name, agent.function, evict_after=0.01)


async def history(control: Control, run: str, *kinds: type[Event]) -> list[Recorded]:
    return [r for r in await control.store.read(run) if isinstance(r.event, kinds)]


class Flaky:
    """A tool that fails a few times before it works."""

    def __init__(
        self, hours: Hours, name: str, fails: int, error: Exception, **declared: Any
    ) -> None:
        self.at: list[float] = []
        self._fails = fails
        self._error = error

        async def work() -> str:
            self.at.append(hours.now())
            if len(self.at) <= self._fails:
                raise self._error
            return "worked"

        self.tool: Tool = tool(name=f"flaky.{name}", **declared)(work)


TOOLS = pytest.mark.parametrize(
    ("effect", "error"),
    [("read", OSError("busy")), ("model", OSError("busy")), ("write", NotDone("busy"))],
)


@TOOLS
@pytest.mark.slow
async def test_a_crash_neither_shortens_a_back_off_nor_gives_more_tries(
    driving: Open, crashing: Open, hours: Hours, effect: str, error: Exception
) -> None:
    flaky = Flaky(
        hours, f"crash-{effect}", 9, error, effect=effect, retry=Retry(1, first_after=LONG_S)
    )

    @agent()
    async def worker(run: Run) -> object:
        return await run.step("Work", flaky.tool)

    async with crashing(worker) as control:
        run = await control.start(worker, "work")
        await control.until(run, lambda state: bool(state.timers))
    assert len(flaky.at) == 1

    async with driving(worker) as control:
        state = await control.until(run, lambda state: state.epoch == 2)
        await anyio.sleep(0.1)
        hours.skip_to(max(state.timers.values()))
        assert (await control.ended(run)).phase is Phase.FAILED
        (timer,) = await history(control, run, e.TimerSet)
    assert isinstance(timer.event, e.TimerSet)
    assert len(flaky.at) == 2, "one try and one retry, however often somebody takes over"
    assert flaky.at[1] >= timer.event.until, (
        "the second try has waited as long as the first driver wanted"
    )


@pytest.mark.slow
async def test_a_back_off_is_on_record_in_the_same_append_as_the_failure(
    driving: Open, hours: Hours
) -> None:
    flaky = Flaky(hours, "together", 1, NotDone("busy"), effect="write", retry=1)

    @agent()
    async def worker(run: Run) -> object:
        return await run.step("Work", flaky.tool)

    async with driving(worker) as control:
        run = await control.start(worker, "work")
        assert await control.result(run) == "worked"
        settled, timer, *_ = await history(control, run, e.AttemptSettled, e.TimerSet)
    assert (timer.position, timer.at) == (settled.position + 1, settled.at)


@pytest.mark.slow
async def test_a_paused_run_does_not_try_again_however_long_it_rests(
    driving: Open, hours: Hours
) -> None:
    flaky = Flaky(
        hours, "paused", 1, OSError("busy"), effect="read", retry=Retry(1, first_after=LONG_S)
    )

    @agent()
    async def worker(run: Run) -> object:
        return await run.step("Work", flaky.tool)

    letting_go = impatient(worker)
    async with driving(letting_go) as control:
        run = await control.start(letting_go, "work")
        await control.until(run, lambda state: bool(state.timers))
        await control.pause(run)
        state = await control.until(run, lambda s: s.phase is Phase.PAUSED and not s.driver)
        hours.skip_to(max(state.timers.values()))
        await anyio.sleep(0.2)
        resting = await control.state(run)
        assert (resting.epoch, len(flaky.at)) == (state.epoch, 1), "nobody has woken it"

        await control.resume(run)
        assert await control.result(run) == "worked"


@pytest.mark.slow
async def test_a_back_off_that_ends_wakes_a_run_that_waits_and_was_let_go(
    driving: Open, hours: Hours
) -> None:
    flaky = Flaky(
        hours, "waiting", 1, OSError("busy"), effect="read", retry=Retry(1, first_after=LONG_S)
    )
    worked: list[str] = []

    @agent()
    async def worker(run: Run) -> object:
        async def work() -> None:
            worked.append(await run.step("Work", flaky.tool))

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            answer = await run.ask("Which?")
        return answer.payload

    letting_go = impatient(worker)
    async with driving(letting_go) as control:
        run = await control.start(letting_go, "work")
        state = await control.until(run, lambda s: s.phase is Phase.WAITING and not s.driver)
        until = state.due_at
        assert until == max(state.timers.values())
        hours.skip_to(until)
        with anyio.fail_after(20):
            state = await control.until(
                run, lambda s: s.phase is Phase.WAITING and not s.driver and not s.timers
            )
        assert (len(flaky.at), state.due_at) == (2, None)
        assert flaky.at[1] >= until

        await control.answer(run, next(iter(state.questions)), "this")
        assert (await control.result(run), worked[-1]) == ("this", "worked")
        assert len(flaky.at) == 2, "the read is on record"


@pytest.mark.slow
async def test_a_question_of_a_run_that_was_let_go_expires_and_the_run_goes_on(
    driving: Open, hours: Hours
) -> None:
    @agent()
    async def asker(run: Run) -> object:
        answer = await run.ask("Which?", expires_in=LONG_S)
        return [answer.given, answer.payload]

    letting_go = impatient(asker)
    async with driving(letting_go) as control:
        run = await control.start(letting_go, "ask")
        state = await control.until(run, lambda s: s.phase is Phase.WAITING and not s.driver)
        assert state.due_at is not None
        hours.skip_to(state.due_at)
        with anyio.fail_after(20):
            assert await control.result(run) == [False, None]
        (closed,) = await history(control, run, e.QuestionClosed)
        assert closed.at >= state.due_at


@pytest.mark.slow
async def test_a_question_expires_although_the_process_that_asked_has_died(
    driving: Open, crashing: Open, hours: Hours
) -> None:
    @agent()
    async def asker(run: Run) -> object:
        return (await run.ask("Which?", expires_in=LONG_S)).given

    async with crashing(asker) as control:
        run = await control.start(asker, "ask")
        state = await control.until(run, lambda s: s.phase is Phase.WAITING)
    assert state.due_at is not None
    async with driving(asker) as control:
        hours.skip_to(state.due_at)
        with anyio.fail_after(20):
            assert await control.result(run) is False
        (closed,) = await history(control, run, e.QuestionClosed)
        assert closed.at >= state.due_at


@pytest.mark.slow
@pytest.mark.parametrize("let_go", [True, False])
async def test_a_question_of_a_paused_run_waits_until_it_is_resumed(
    driving: Open, hours: Hours, let_go: bool
) -> None:
    @agent()
    async def asker(run: Run) -> object:
        return (await run.ask("Which?", expires_in=LONG_S)).given

    asking = impatient(asker) if let_go else asker
    async with driving(asking) as control:
        run = await control.start(asking, "ask")
        await control.until(run, lambda s: s.phase is Phase.WAITING)
        await control.pause(run)
        hours.skip(LONG_S)
        await anyio.sleep(0.2)
        state = await control.state(run)
        assert (len(state.questions), state.epoch) == (1, 1)

        await control.resume(run)
        with anyio.fail_after(20):
            assert await control.result(run) is False


@pytest.mark.slow
async def test_a_hold_begins_anew_after_a_crash_and_is_then_kept_in_full(
    driving: Open, crashing: Open, hours: Hours
) -> None:
    stage = Stage("hold-crash")
    send = stage.writer(irreversible=True, undo=None, approval=False, undo_window=LONG_S)

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Send", send, "letter")

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        state = await control.until(run, lambda state: bool(state.windows))
        ((_, until),) = state.windows.values()
        hours.skip(LONG_S / 2)
        await anyio.sleep(0.1)
    assert stage.begun == []

    async with driving(clerk) as control:
        state = await control.until(
            run, lambda state: any(later > until for _, later in state.windows.values())
        )
        ((_, until),) = state.windows.values()
        hours.skip_to(until)
        assert await control.result(run) == "made letter"
        first, second = await history(control, run, e.WindowOpened)
        (started,) = await history(control, run, e.AttemptStarted)
        (claimed,) = (await history(control, run, e.DriverClaimed))[1:]
    assert isinstance(second.event, e.WindowOpened)
    assert first.position < claimed.position < second.position < started.position
    assert started.at >= second.event.until >= claimed.at + LONG_S


@pytest.mark.slow
async def test_a_hold_that_is_over_while_the_run_cannot_move_costs_no_time(
    driving: Open, hours: Hours
) -> None:
    """A redirect waits for an effect; a window beside it has run out. Nothing must spin."""
    stage = Stage("hold-spin")
    make = stage.writer()
    send = tool(effect="once", name="hold-spin.send", undo_window=LONG_S)(stage.reader().function)
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> str:
        if run.brief == "again":
            return "redirected"
        async with anyio.create_task_group() as group:
            group.start_soon(run.step, "Make", make, "slow")
            group.start_soon(run.step, "Send", send, "letter")
        return "sent"

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        state = await control.until(run, lambda state: bool(state.windows))
        await control.redirect(run, "again")
        ((_, until),) = state.windows.values()
        hours.skip_to(until)
        await anyio.sleep(0.1)
        gc.collect()
        before = time.thread_time()
        await anyio.sleep(0.5)
        assert time.thread_time() - before < 0.25
        stage.gate("slow").set()
        assert await control.result(run) == "redirected"
        assert "letter" not in stage.begun


@pytest.mark.parametrize("effect", ["read", "write", "model"])
@pytest.mark.slow
async def test_a_tool_that_always_fails_is_tried_as_often_as_it_says_and_no_more(
    driving: Open, hours: Hours, effect: str
) -> None:
    flaky = Flaky(hours, f"always-{effect}", 99, ValueError("no"), effect=effect, retry=1)

    @agent()
    async def worker(run: Run) -> object:
        try:
            return await run.step("Work", flaky.tool)
        except StepFailed as failed:
            return failed.error

    async with driving(worker) as control:
        with anyio.fail_after(20):
            assert await control.result(await control.start(worker, "work")) == "ValueError: no"
    assert len(flaky.at) == 2


@pytest.mark.slow
async def test_what_a_check_proves_not_done_is_tried_as_often_as_it_says(
    driving: Open, hours: Hours
) -> None:
    async def never_happened(_: object) -> NotDone:
        return NotDone()

    no = ValueError("no")
    flaky = Flaky(
        hours, "checked", 99, no, effect="once", retry=1, check=never_happened, settles_within=0
    )

    @agent()
    async def worker(run: Run) -> object:
        try:
            return await run.step("Work", flaky.tool)
        except StepFailed as failed:
            return failed.error

    async with driving(worker) as control:
        with anyio.fail_after(20):
            assert await control.result(await control.start(worker, "work")) == "ValueError: no"
    assert len(flaky.at) == 2


async def test_one_of_two_answers_brings_a_run_on_that_was_let_go(driving: Open) -> None:
    stage = Stage("two-questions")
    make = stage.writer()

    @agent()
    async def asker(run: Run) -> list[object]:
        got: dict[str, object] = {}

        async def ask(what: str) -> None:
            got[what] = await run.step(f"Make {what}", make, (await run.ask(what)).payload)

        async with anyio.create_task_group() as group:
            group.start_soon(ask, "a")
            group.start_soon(ask, "b")
        return [got["a"], got["b"]]

    letting_go = impatient(asker)
    async with driving(letting_go) as control:
        run = await control.start(letting_go, "ask")
        state = await control.until(
            run, lambda s: s.phase is Phase.WAITING and not s.driver and len(s.questions) == 2
        )
        first, second = state.questions
        await control.answer(run, first, "one")
        await stage.until_begun("one")
        await control.until(run, lambda s: s.phase is Phase.WAITING and not s.driver)
        await control.answer(run, second, "two")

        assert await control.result(run) == ["made one", "made two"]


async def test_the_first_answer_may_end_a_run_that_asks_for_two(driving: Open) -> None:
    @agent()
    async def asker(run: Run) -> list[object]:
        got: list[object] = []

        async with anyio.create_task_group() as group:

            async def ask(what: str) -> None:
                got.append((await run.ask(what)).payload)
                group.cancel_scope.cancel()

            group.start_soon(ask, "a")
            group.start_soon(ask, "b")
        return got

    async with driving(asker) as control:
        run = await control.start(asker, "ask")
        state = await control.until(
            run, lambda s: s.phase is Phase.WAITING and len(s.questions) == 2
        )
        await control.answer(run, max(state.questions), "this")
        with anyio.fail_after(20):
            assert await control.result(run) == ["this"]


async def test_of_two_approvals_the_first_opens_its_hold_while_the_other_is_awaited(
    driving: Open,
) -> None:
    stage = Stage("two-approvals")
    send = stage.writer(irreversible=True, undo=None, undo_window=0.05)

    @agent()
    async def clerk(run: Run) -> str:
        async with anyio.create_task_group() as group:
            group.start_soon(run.step, "Send a", send, "a")
            group.start_soon(run.step, "Send b", send, "b")
        return "sent"

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        state = await control.until(
            run, lambda s: s.phase is Phase.WAITING and len(s.questions) == 2
        )
        first, second = state.questions
        await control.answer(run, first, "approve")
        with anyio.fail_after(20):
            while len(stage.done) < 1:
                await stage.news.wait()
            await control.answer(run, second, "approve")
            assert await control.result(run) == "sent"


async def test_a_plan_may_be_set_while_something_is_asked(driving: Open) -> None:
    waits = anyio.Event()

    @agent()
    async def asker(run: Run) -> object:
        async def plan() -> None:
            await waits.wait()
            await run.plan("Ask", "Go on")

        async with anyio.create_task_group() as group:
            group.start_soon(plan)
            answer = await run.ask("Which?")
        return answer.payload

    async with driving(asker) as control:
        run = await control.start(asker, "ask")
        await control.until(run, lambda s: s.phase is Phase.WAITING)
        waits.set()
        with anyio.fail_after(20):
            state = await control.until(run, lambda s: s.phase is Phase.WAITING and bool(s.plan))
        await control.answer(run, next(iter(state.questions)), "this")
        assert await control.result(run) == "this"


class ComeBackLater(Exception):
    """A refusal that says when to come back."""

    retry_after = 2 * LONG_S


class NeverComeBack(Exception):
    """A refusal that would only come again."""

    retryable = False


def checked(
    hours: Hours, name: str, error: Exception, first_after: float = 0.5
) -> tuple[Flaky, Agent]:
    """A tool that fails once without saying whether it was done; its check says that it was not."""

    async def not_there(_: object) -> NotDone:
        return NotDone()

    flaky = Flaky(
        hours,
        name,
        1,
        error,
        effect="once",
        retry=Retry(1, first_after=first_after),
        check=not_there,
        settles_within=0,
    )

    @agent(name)
    async def worker(run: Run) -> object:
        try:
            return await run.step("Work", flaky.tool)
        except StepFailed as failed:
            return failed.error

    return flaky, worker


@pytest.mark.parametrize(
    ("error", "waits_s"), [(OSError("reset"), LONG_S), (ComeBackLater("busy"), 2 * LONG_S)]
)
async def test_the_first_retry_of_what_a_check_proves_not_done_waits_for_its_back_off(
    driving: Open, hours: Hours, error: Exception, waits_s: float
) -> None:
    flaky, worker = checked(hours, f"backs-off-{waits_s:g}", error, first_after=LONG_S)
    async with driving(worker) as control:
        run = await control.start(worker, "work")
        state = await control.until(run, lambda s: bool(s.timers))
        await anyio.sleep(0.1)
        assert len(flaky.at) == 1, "its time has not come"
        (until,) = state.timers.values()
        assert until - flaky.at[0] >= waits_s
        hours.skip_to(until)
        assert await control.result(run) == "worked"
    assert flaky.at[1] - flaky.at[0] >= waits_s


async def test_what_would_only_fail_again_is_not_tried_again_whatever_its_check_says(
    driving: Open, hours: Hours
) -> None:
    flaky, worker = checked(hours, "never-again", NeverComeBack("no"))
    async with driving(worker) as control:
        assert await control.result(await control.start(worker, "work")) == "NeverComeBack: no"
    assert len(flaky.at) == 1
