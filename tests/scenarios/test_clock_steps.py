"""The world's clock is set while something is waited for: it comes neither earlier nor later."""

from __future__ import annotations

import anyio
import pytest
from msgspec.structs import replace

from midflight.agents import agent
from midflight.journal.phases import Phase
from midflight.journal.record import Limits
from midflight.run import Run
from midflight.tools.declaration import NotDone, tool
from midflight.tools.options import Retry
from scenarios.conftest import Open
from scenarios.hours import Hours
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio

HOUR_S = 3600.0
STEPS = pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
WAIT_S = 0.4
LONG_S = 1.5  # longer than a run is kept


async def took(begun: float) -> float:
    return anyio.current_time() - begun


@STEPS
async def test_an_undo_window_is_as_long_as_it_was_said_to_be(
    driving: Open, hours: Hours, step_s: float
) -> None:
    stage = Stage(f"clock-hold-{step_s:g}")
    send = stage.writer(undo_window=WAIT_S, undo=None)

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Send", send, "letter")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.until(run, lambda s: bool(s.windows))
        begun = anyio.current_time()
        hours.step(step_s)
        await stage.until_begun("letter")
        assert WAIT_S / 2 < await took(begun) < 10
        assert await control.result(run) == "made letter"


@STEPS
async def test_a_back_off_is_as_long_as_it_was_declared(
    driving: Open, hours: Hours, step_s: float
) -> None:
    tries: list[float] = []

    @tool(effect="write", name=f"clock.retry-{step_s:g}", retry=Retry(1, first_after=WAIT_S))
    async def work() -> str:
        tries.append(anyio.current_time())
        if len(tries) == 1:
            raise NotDone("busy")
        return "worked"

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Work", work)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.until(run, lambda s: bool(s.timers))
        hours.step(step_s)
        with anyio.fail_after(10):
            assert await control.result(run) == "worked"
    assert WAIT_S / 2 < tries[1] - tries[0] < 10


@STEPS
async def test_a_question_expires_after_the_time_that_it_was_given(
    driving: Open, hours: Hours, step_s: float
) -> None:
    @agent()
    async def asker(run: Run) -> object:
        return (await run.ask("Which?", expires_in=WAIT_S)).given

    async with driving(asker) as control:
        run = await control.start(asker, "ask")
        await control.until(run, lambda s: s.phase is Phase.WAITING)
        begun = anyio.current_time()
        hours.step(step_s)
        with anyio.fail_after(10):
            assert await control.result(run) is False
        assert WAIT_S / 2 < await took(begun) < 10


@STEPS
async def test_a_question_of_a_run_that_was_let_go_expires_in_its_time(
    driving: Open, hours: Hours, step_s: float
) -> None:
    """Also if the clock is set once more, and also if it is set just before the run is let go."""

    @agent()
    async def asker(run: Run) -> object:
        return (await run.ask("Which?", expires_in=LONG_S)).given

    early, late = (replace(asker, name=name, evict_after=0.1) for name in ("early", "late"))
    async with driving(early, late) as control:
        runs = [await control.start(early, "ask"), await control.start(late, "ask")]
        await control.until(runs[0], lambda s: s.phase is Phase.WAITING and not s.driver)
        begun = anyio.current_time()
        await control.until(runs[1], lambda s: s.phase is Phase.WAITING)
        hours.step(step_s)
        await control.until(runs[1], lambda s: not s.driver)
        hours.step(step_s)
        for run in runs:
            with anyio.fail_after(10):
                assert await control.result(run) is False
            assert LONG_S / 2 < await took(begun) < 10


@STEPS
async def test_a_wait_that_began_after_the_clock_was_set_is_not_moved(
    driving: Open, hours: Hours, step_s: float
) -> None:
    @agent()
    async def asker(run: Run) -> object:
        await run.ask("First?", expires_in=HOUR_S)
        return (await run.ask("Then?", expires_in=LONG_S)).given

    async with driving(replace(asker, evict_after=0.1)) as control:
        run = await control.start("asker", "ask")
        first = await control.until(run, lambda s: s.phase is Phase.WAITING and not s.driver)
        hours.step(step_s)
        await anyio.sleep(0.2)
        assert (await control.state(run)).questions.keys() == first.questions.keys()
        begun = anyio.current_time()
        await control.answer(run, next(iter(first.questions)), True)
        with anyio.fail_after(10):
            assert await control.result(run) is False
        assert LONG_S / 2 < await took(begun) < 10


@STEPS
async def test_a_cap_on_time_counts_the_time_that_has_passed(
    driving: Open, hours: Hours, step_s: float
) -> None:
    stage = Stage(f"clock-cap-{step_s:g}")
    look = stage.reader()
    stage.gate("one")

    @agent()
    async def clerk(run: Run) -> str:
        await run.step("One", look, "one")
        await run.step("Two", look, "two")
        return "done"

    async with driving(clerk) as control:
        run = await control.start(clerk, "work", limits=Limits(seconds=600))
        await stage.until_begun("one")
        hours.step(step_s)
        stage.gate("one").set()
        with anyio.fail_after(10):
            state = await control.until(run, lambda s: bool(s.holds) or not s.alive)
        assert (state.phase, state.holds) == (Phase.DONE, set())


@STEPS
async def test_what_may_still_arrive_is_given_its_time(
    driving: Open, hours: Hours, step_s: float
) -> None:
    begun, looks = anyio.Event(), list[float]()

    async def look_up(_: object) -> NotDone:
        looks.append(anyio.current_time())
        return NotDone()

    @tool(effect="once", name=f"clock.settle-{step_s:g}", check=look_up, settles_within=WAIT_S)
    async def order() -> None:
        begun.set()
        await anyio.sleep_forever()

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Order", order)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await begun.wait()
        await control.cancel(run)
        await control.until(run, lambda s: bool(s.timers))
        hours.step(step_s)
        with anyio.fail_after(10):
            await control.ended(run)
    assert WAIT_S / 2 < looks[1] - looks[0] < 10
