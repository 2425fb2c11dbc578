"""Agent code that catches everything, forgets its tasks or cleans up with effects."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.run import Run, Step, Stopped
from midflight.tools.declaration import Tool, tool
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio

Work = Callable[[], Awaitable[object]]
in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True)


async def lines(control: Control, run: str) -> list[str]:
    return [line.text for line in (await control.receipt(run)).lines]


# ── code that catches what is meant for others ───────────────────────────────────────────────


async def except_exception(work: Work) -> None:
    while True:
        try:
            await work()
        except Exception:  # noqa: BLE001 - what we test against
            continue


async def bare_except(work: Work) -> None:
    for _ in range(3):
        try:
            await work()
        except:  # noqa: E722
            continue


async def except_base_exception(work: Work) -> None:
    for _ in range(3):
        try:
            await work()
        except BaseException:  # noqa: BLE001
            continue


async def suppress_everything(work: Work) -> None:
    for _ in range(3):
        with contextlib.suppress(BaseException):
            await work()


async def gather_and_ignore(work: Work) -> None:
    await work()
    await asyncio.gather(work(), work(), return_exceptions=True)  # noqa: TID251
    await work()


async def in_a_task_group(work: Work) -> None:
    await work()
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(work())  # type: ignore[arg-type]


async def in_a_group_of_anyio(work: Work) -> None:
    await work()
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(work)  # type: ignore[arg-type]


async def turns_it_into_another_error(work: Work) -> None:
    await work()
    try:
        await work()
    except BaseException as error:
        raise RuntimeError("something went wrong") from error


async def returns_as_if_nothing_were(work: Work) -> None:
    await work()
    with contextlib.suppress(BaseException):
        await work()


async def cancelled_by(driving: Open, stubborn: Callable[[Work], Awaitable[None]]) -> None:
    stage = Stage(f"deaf-{stubborn.__name__}")
    look, make = stage.reader(), stage.writer()
    stage.gate("slow")

    @agent()
    async def deaf(run: Run) -> None:
        count = 0

        async def work() -> object:
            nonlocal count
            count += 1
            if count == 1:
                return await run.step("Make", make, "thing")
            return await run.step(Step("Read", key=f"read-{count}"), look, "slow")

        await stubborn(work)

    async with driving(deaf) as control:
        run = await control.start(deaf, "work")
        await stage.until_begun("slow")
        accepted = await control.cancel(run)
        with anyio.fail_after(20):
            ended = await control.ended(run)
        done = list(stage.done)
        await anyio.sleep(0.1)

        assert ended.phase is Phase.CANCELLED
        assert stage.done == done == ["thing", "undone thing"]
        assert await lines(control, run) == ["thing: undone"]
        assert not await appended_by_the_function(control, run, accepted.position)


async def appended_by_the_function(control: Control, run: str, after: int) -> list[str]:
    """What only a function that still thinks it may go on would have written."""
    kinds = (e.AttemptStarted, e.StepSettled, e.PlanSet, e.QuestionOpened, e.StateSaved)
    records = await control.store.read(run, after=after)
    return [type(r.event).__name__ for r in records if isinstance(r.event, kinds)]


@pytest.mark.parametrize(
    "stubborn",
    [
        except_exception,
        bare_except,
        except_base_exception,
        suppress_everything,
        gather_and_ignore,
        in_a_task_group,
        in_a_group_of_anyio,
        turns_it_into_another_error,
        returns_as_if_nothing_were,
    ],
)
async def test_an_agent_that_catches_it_is_stopped_all_the_same(
    driving: Open, stubborn: Callable[[Work], Awaitable[None]]
) -> None:
    await cancelled_by(driving, stubborn)


async def for_ever(work: Work, ending: Callable[[], bool] = sys.is_finalizing) -> None:
    while not ending():  # the interpreter itself may have its way
        try:
            await work()
        except BaseException:  # noqa: BLE001 - as such agents do
            continue


@in_memory
@pytest.mark.slow
async def test_an_agent_that_will_never_end_is_left_behind_and_named(
    driving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    await cancelled_by(driving, for_ever)

    (told,) = [one for one in caplog.messages if "did not end when it was told to" in one]
    assert "it was left behind, and the run goes on without it" in told


async def test_one_on_its_way_back_that_catches_it_is_told_again_and_given_no_more_records(
    driving: Open, crashing: Open
) -> None:
    """What it asks for next is on record, and would keep it going until the first that is not."""
    stage, second_life, astray = Stage("deaf-replay"), False, anyio.Event()
    look, heard = stage.reader(), list[object]()
    stage.gate("slow")

    @agent()
    async def deaf(run: Run) -> None:
        await run.step("Read one", look, "one")
        if second_life:
            astray.set()
            with contextlib.suppress(asyncio.CancelledError):
                await anyio.sleep(20)
        try:
            heard.append(await run.step("Read two", look, "two"))
        except Stopped as stopped:
            heard.append(type(stopped))
        await run.step("Read slowly", look, "slow")

    async with crashing(deaf) as control:
        run = await control.start(deaf, "work")
        await stage.until_begun("slow")
    second_life = True
    async with driving(deaf) as control:
        await astray.wait()
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED

    assert heard == ["TWO", Stopped]


async def test_while_a_function_is_unwound_its_clean_up_reaches_nobody(driving: Open) -> None:
    stage = Stage("finally")
    make, look = stage.writer(), stage.reader()
    stage.gate("slow")
    heard: list[str] = []

    @agent()
    async def tidy(run: Run) -> None:
        try:
            await run.step("Make a", make, "a")
            await run.step("Read", look, "slow")
        finally:
            calls: list[Callable[[], Awaitable[object]]] = [
                lambda: run.step("Tidy up", make, "b"),
                lambda: run.plan("tidy", "up"),
            ]
            for call in calls:
                try:
                    await call()
                except Stopped:
                    heard.append("stopped")

    async with driving(tidy) as control:
        run = await control.start(tidy, "work")
        await stage.until_begun("slow")
        accepted = await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED

        assert heard == ["stopped", "stopped"]
        assert stage.done == ["a", "undone a"]
        assert not await appended_by_the_function(control, run, accepted.position)


# ── tasks that nobody waits for ──────────────────────────────────────────────────────────────


class Forgetful:
    """An agent that starts a step, waits until it is under way, and ends without it."""

    def __init__(self, stage: Stage, made: Tool, what: str, *, waits: bool = True) -> None:
        self.tasks: list[asyncio.Task[object]] = []

        @agent("forgetful")
        async def forgetful(run: Run) -> str:
            step = run.step("Forgotten", made, what)
            self.tasks.append(asyncio.get_running_loop().create_task(step))
            if waits and len(self.tasks) == 1:
                await stage.until_begun(what)
            return run.brief

        self.agent = forgetful


async def test_a_forgotten_read_is_aborted_and_may_clean_up(driving: Open) -> None:
    stage, closed = Stage("forgotten-read"), []

    @tool(effect="read", name="forgotten.look")
    async def look(what: str) -> None:
        stage.note(stage.begun, what)
        try:
            await anyio.sleep_forever()
        finally:
            await asyncio.sleep(0.01)
            closed.append(what)

    forgetful = Forgetful(stage, look, "slow")
    async with driving(forgetful.agent) as control:
        run = await control.start(forgetful.agent, "work")
        with anyio.fail_after(5):
            assert await control.result(run) == "work"

        assert closed == ["slow"]
        (task,) = forgetful.tasks
        with pytest.raises(Stopped, match="its function has ended"):
            await task


async def test_a_forgotten_effect_comes_to_its_end_before_the_run_does(driving: Open) -> None:
    stage = Stage("forgotten-effect")
    forgetful = Forgetful(stage, stage.writer(), "a")
    stage.gate("a")
    async with driving(forgetful.agent) as control:
        run = await control.start(forgetful.agent, "work")
        await stage.until_begun("a")
        await anyio.sleep(0.05)
        assert (await control.state(run)).phase is Phase.RUNNING

        stage.gate("a").set()
        assert (await control.ended(run)).phase is Phase.DONE
        assert (stage.done, await lines(control, run)) == (["a"], ["thing: kept"])
        assert await forgetful.tasks[0] == "made a"


async def test_a_forgotten_step_that_has_not_begun_never_does(driving: Open) -> None:
    stage = Stage("forgotten-start")
    forgetful = Forgetful(stage, stage.writer(), "a", waits=False)
    async with driving(forgetful.agent) as control:
        run = await control.start(forgetful.agent, "work")
        with anyio.fail_after(5):
            assert await control.result(run) == "work"
            with pytest.raises(Stopped):
                await forgetful.tasks[0]

        assert (stage.begun, await lines(control, run)) == ([], [])


async def test_a_forgotten_effect_is_aborted_by_a_cancel(driving: Open) -> None:
    stage = Stage("forgotten-cancel")
    forgetful = Forgetful(stage, stage.writer(), "a")
    stage.gate("a")
    async with driving(forgetful.agent) as control:
        run = await control.start(forgetful.agent, "work")
        await stage.until_begun("a")
        await anyio.sleep(0.02)
        await control.cancel(run)
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.CANCELLED

        assert stage.done == ["undone a"]


async def test_a_pause_waits_for_a_forgotten_effect_and_holds_the_run_before_its_end(
    driving: Open,
) -> None:
    stage = Stage("forgotten-pause")
    forgetful = Forgetful(stage, stage.writer(), "a")
    stage.gate("a")
    async with driving(forgetful.agent) as control:
        run = await control.start(forgetful.agent, "work")
        await stage.until_begun("a")
        await anyio.sleep(0.02)
        paused = await control.pause(run)
        stage.gate("a").set()
        with anyio.fail_after(5):
            assert (await control.applied(paused)).status == "applied"
            assert (await control.state(run)).phase is Phase.PAUSED
            await control.resume(run)
            assert await control.result(run) == "work"


async def test_a_redirect_that_comes_when_the_function_has_just_ended_is_not_lost(
    driving: Open,
) -> None:
    stage = Stage("forgotten-redirect")
    forgetful = Forgetful(stage, stage.writer(), "a")
    stage.gate("a")
    async with driving(forgetful.agent) as control:
        run = await control.start(forgetful.agent, "old work")
        await stage.until_begun("a")
        await anyio.sleep(0.02)
        accepted = await control.redirect(run, "new work")
        stage.gate("a").set()
        with anyio.fail_after(5):
            assert await control.result(run) == "new work"

        assert (await control.applied(accepted)).status == "applied"
        assert stage.done == ["a"], "done once: its record is used again"
