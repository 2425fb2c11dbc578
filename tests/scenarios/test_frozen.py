"""A process that is frozen, or whose machine sleeps: what its tools do meanwhile and afterwards.

Others rely on a tool's timeout when they say that what it had begun cannot happen any more.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from forks import Forked
from midflight import Run, agent, tool
from midflight.inputs import steady
from midflight.journal.phases import Effect, Outcome
from midflight.runtime.steps.bounds import Aborted, Alarms, Returned
from midflight.runtime.steps.tool_call import Call
from midflight.tools.declaration import undeclared
from midflight.tools.processes.process import run_process
from midflight.tools.processes.supervised import OVERTIME_S, limit
from scenarios import keeper
from scenarios.conftest import Open

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(80)]

TIMEOUT_S = 0.3


async def test_an_effect_whose_time_is_over_on_waking_does_not_go_on(driving: Open) -> None:
    """What it waited for had come, so its next line was due before any timer could ring."""
    begun, came = anyio.Event(), anyio.Event()
    world: list[str] = []

    @tool(effect="once", name="frozen.send", timeout=TIMEOUT_S)
    async def send() -> None:
        begun.set()
        try:
            await came.wait()
            world.append("sent")
        finally:
            await anyio.sleep(0.01)  # its clean-up may wait
            world.append("tidied up")

    @agent("frozen-clerk")
    async def clerk(run: Run) -> None:
        await run.step("Send", send)

    async with driving(clerk) as control:
        run = await control.start(clerk, "")
        await begun.wait()
        came.set()
        time.sleep(2 * TIMEOUT_S)  # noqa: ASYNC251 - nothing moves
        state = await control.until(run, lambda state: bool(state.questions))

        assert world == ["tidied up"]
        (effect,) = state.effects.values()
        assert effect.outcome is Outcome.UNKNOWN
        assert effect.why == "TimeoutError: no end within 0.3 s"


async def test_one_that_is_in_time_on_waking_goes_on(driving: Open) -> None:
    begun, came = anyio.Event(), anyio.Event()

    @tool(effect="once", name="frozen.patient", timeout=30)
    async def send() -> str:
        begun.set()
        await came.wait()
        return "sent"

    @agent("frozen-patient-clerk")
    async def clerk(run: Run) -> object:
        return await run.step("Send", send)

    async with driving(clerk) as control:
        run = await control.start(clerk, "")
        await begun.wait()
        came.set()
        time.sleep(2 * TIMEOUT_S)  # noqa: ASYNC251 - nothing moves
        assert await control.result(run) == "sent"


async def test_what_was_waited_for_ends_as_it_would_without_us(driving: Open) -> None:
    """An effect may be any awaitable, and what it holds is let go of when it is aborted."""
    begun, held = anyio.Event(), list[Any]()

    class Held:
        """Something that a tool keeps."""

    async def waits() -> None:
        mine = Held()
        held.append(weakref.ref(mine))
        begun.set()
        await anyio.sleep_forever()

    @tool(effect="once", name="frozen.holds", runs="async", timeout=30)
    def holds() -> Any:
        return waits()

    @agent("frozen-holder")
    async def clerk(run: Run) -> None:
        await run.step("Hold", holds)

    async with driving(clerk) as control:
        run = await control.start(clerk, "")
        await begun.wait()
        gc.disable()
        try:
            await control.cancel(run)
            await control.ended(run)
            assert held[0]() is None
        finally:
            gc.enable()


async def test_what_waits_for_a_thread_does_not_begin_when_its_worker_is_not_to_any_more() -> None:
    began = list[str]()
    late = Call(undeclared(lambda: began.append("late")), (), {}, Alarms(), may_begin=lambda: False)

    assert await late.run() == Aborted("it waited too long for a thread", began=False)
    assert began == []


async def test_a_process_that_a_read_starts_may_outlive_it() -> None:
    """Nobody relies on the timeout of what does not touch the world."""
    call = Call(undeclared(_starts_a_process), (), {}, Alarms())
    assert call.tool.effect is Effect.ONCE
    read = msgspec.structs.replace(call.tool, effect=Effect.READ, timeout=0.1)
    ending = await Call(read, (), {}, Alarms()).run()
    assert isinstance(ending, Returned)
    assert ending.value is None
    bounded = await Call(call.tool, (), {}, Alarms()).run()
    assert isinstance(bounded, Returned)
    assert bounded.value is not None


async def _starts_a_process() -> float | None:
    await anyio.lowlevel.checkpoint()
    return limit.get()


async def test_what_its_supervisor_has_ended_is_said_to_have_taken_too_long() -> None:
    token = limit.set(steady() - OVERTIME_S + 0.5)
    try:
        ended = await run_process(["sleep", "30"])
    finally:
        limit.reset(token)
    assert ended.timed_out
    assert ended.proven_dead or sys.platform != "linux"


@pytest.mark.skipif(sys.platform != "linux", reason="the supervisor proves it on Linux")
def test_a_process_tool_is_ended_in_time_although_its_driver_is_frozen(tmp_path: Path) -> None:
    driver = Forked(
        [sys.executable, keeper.__file__, str(tmp_path), "limit"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        process, _ = keeper.pids(tmp_path)
        os.kill(driver.pid, signal.SIGSTOP)
        deadline = (
            time.monotonic() + keeper.LIMIT_S + OVERTIME_S + 20
        )  # its timeout, and a slow machine
        while Path(f"/proc/{process}").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert driver.poll() is None
    finally:
        driver.kill()
        driver.wait(10)
