"""A tool that blocks the event loop is noticed and named, while it blocks and afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from cli.scene import MIDFLIGHT, Scene
from forks import Forked
from midflight import EffectRecord, Run, agent, tool
from midflight.agents import Agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.engines.watchdog import Blocked, watching
from midflight.stores.memory import MemoryStore
from scenarios.stories import environment

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
BLOCKED_S = 0.2
LONG_S = 0.6


@tool(effect="read", name="watchdog.block")
async def block() -> None:
    time.sleep(LONG_S)  # noqa: ASYNC251 - that is the story


@tool(effect="read", name="watchdog.block-in-a-task")
async def block_in_a_task() -> None:
    async def inner() -> None:
        time.sleep(LONG_S)  # noqa: ASYNC251 - that is the story

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(inner)


@tool(effect="read", name="watchdog.compute")
async def compute() -> None:
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        pass


@tool(effect="read", name="watchdog.wait")
async def wait() -> None:
    await asyncio.sleep(LONG_S)


async def block_undo(_: EffectRecord) -> None:
    time.sleep(LONG_S)  # noqa: ASYNC251 - that is the story


@tool(effect="write", name="watchdog.make", undo=block_undo)
async def make() -> None:
    pass


@asynccontextmanager
async def driving(tmp_path: Path, *agents: Agent) -> AsyncIterator[Control]:
    store = MemoryStore()
    async with LocalEngine.open(store, agents, workdir=tmp_path, blocked_s=BLOCKED_S) as engine:
        yield Control(store, engine)


def told(caplog: pytest.LogCaptureFixture, action: str) -> list[Any]:
    return [record for record in caplog.records if getattr(record, "action", "") == action]


@pytest.mark.parametrize(
    "anyio_backend",
    [("asyncio", {"use_uvloop": uvloop}) for uvloop in (False, True)],
    ids=["asyncio", "uvloop"],
)
@pytest.mark.parametrize("blocking", [block, block_in_a_task, compute])
async def test_a_tool_that_blocks_the_loop_is_named_with_its_run_its_step_and_its_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, blocking: Any
) -> None:
    @agent("watchdog-clerk")
    async def clerk(run: Run) -> None:
        await run.step("Block", blocking)
        await run.step("Wait", wait)

    async with driving(tmp_path, clerk) as control:
        run = await control.start(clerk, "")
        await control.result(run)
        state = await control.ended(run)

    (noticed,) = told(caplog, "loop_blocked")
    assert (noticed.run, noticed.tool, noticed.step) == (run, blocking.name, "Block")
    assert __file__ in noticed.where
    assert __file__ in noticed.stack
    words = noticed.getMessage()
    assert f"the tool {blocking.name} (step 'Block') of run {run} blocks the event loop" in words
    assert "runs='thread' or runs='process'" in words
    (over,) = told(caplog, "loop_free")
    assert (over.run, over.tool) == (run, blocking.name)
    assert over.seconds >= BLOCKED_S
    ((kind, text),) = state.notices
    assert kind == f"blocked:{blocking.name}"
    assert text.startswith(
        f"The tool {blocking.name} blocked everything in this process for about "
    )


async def test_code_of_the_agent_itself_that_blocks_the_loop_is_named_by_its_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @agent("watchdog-thinker")
    async def thinker(run: Run) -> None:
        time.sleep(LONG_S)  # noqa: ASYNC251 - that is the story
        await run.step("Wait", wait)

    async with driving(tmp_path, thinker) as control:
        run = await control.start(thinker, "")
        state = await control.ended(run)

    (noticed,) = told(caplog, "loop_blocked")
    assert (noticed.run, noticed.tool) == (run, "")
    assert f"code outside the tools of run {run} blocks the event loop" in noticed.getMessage()
    assert "thinker" in noticed.where
    assert [kind for kind, _ in state.notices] == ["blocked:"]


async def test_an_undo_that_blocks_the_loop_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @agent("watchdog-maker")
    async def maker(run: Run) -> None:
        await run.step("Make", make)
        await run.ask("May it stay?")

    async with driving(tmp_path, maker) as control:
        run = await control.start(maker, "")
        await control.until(run, lambda state: bool(state.questions))
        await control.cancel(run)
        await control.ended(run)

    (noticed,) = told(caplog, "loop_blocked")
    assert noticed.run == run
    assert f"an undo of run {run} blocks the event loop" in noticed.getMessage()
    assert "block_undo" in noticed.where


async def test_the_time_that_it_tells_is_right_by_half_of_the_interval_at_which_it_looks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    look_s, block_s, late_s = 0.6, 1.5, 0.15  # late_s: for threads that get their turn late
    told_of: list[float] = []
    free = asyncio.Event()

    def tell(_: Blocked, seconds: float) -> None:
        told_of.append(seconds)
        free.set()

    with watching(lambda _run, _call: "", tell, look_s):
        await asyncio.sleep(look_s + 0.03)  # the loop has just answered: the next look is far off
        time.sleep(block_s)  # noqa: ASYNC251 - that is the story
        with anyio.fail_after(5):
            await free.wait()

    assert told_of == [pytest.approx(block_s, abs=look_s / 2 + late_s)]
    (over,) = told(caplog, "loop_free")
    assert over.getMessage().endswith(f"blocked it for about {told_of[0]:.0f} s")
    (noticed,) = told(caplog, "loop_blocked")
    assert "has moved for about 1 s: " in noticed.getMessage()


async def test_a_tool_that_waits_as_it_should_is_no_news(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @agent("watchdog-waiter")
    async def waiter(run: Run) -> None:
        await run.step("Wait", wait)

    async with driving(tmp_path, waiter) as control:
        state = await control.ended(await control.start(waiter, ""))

    assert told(caplog, "loop_blocked") == []
    assert state.notices == []


# ── in processes ─────────────────────────────────────────────────────────────────────────────

AGENT = """
import time
from pathlib import Path
from midflight import Run, agent, tool

@tool(effect="read", name="blocker.block")
async def block() -> None:
    Path("begun").touch()
    while not Path("go").exists():
        time.sleep(0.01)

@agent()
async def blocker(run: Run) -> None:
    await run.step("Block", block)
    await run.ask("Go on?")
"""

STOPPED = """
import asyncio, sys
from midflight.engines.local_engine import LocalEngine
from midflight.stores.memory import MemoryStore

async def main():
    async with LocalEngine.open(MemoryStore(), [], workdir=sys.argv[1], blocked_s=0.6):
        print("up", flush=True)
        sys.stdin.readline()  # so that the question to the loop is open when the process is stopped
        await asyncio.sleep(0.3)

asyncio.run(main())
"""


def test_a_cancel_is_acknowledged_while_a_tool_blocks_its_driver_and_takes_effect_after_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "blockers.py").write_text(AGENT, encoding="utf-8")
    scene = Scene(tmp_path)
    env = {**scene.env, "PYTHONPATH": str(tmp_path)}
    driver = Forked(
        [*MIDFLIGHT, "run", "blockers:blocker", "--plain"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert driver.stderr is not None
        told = driver.stderr.readline()
        assert "the tool blocker.block (step 'Block') of run r-" in told
        assert "blocks the event loop" in told

        pressed = time.monotonic()
        scene.said("cancel", "last", "--wait", "0")
        assert time.monotonic() - pressed < 5
        assert scene.json("show", "last")["phase"] == "cancelling"
        (tmp_path / "go").touch()
        out, err = driver.communicate(timeout=30)
    finally:
        driver.kill()
        driver.wait()
    assert driver.returncode == 11, (out, err)
    assert "This process moves again: the tool blocker.block" in err


def test_a_process_that_was_stopped_and_goes_on_blames_nobody(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(tmp_path)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        time.sleep(0.8)
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1.8)
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(0.1)
        _, err = process.communicate("go\n", timeout=20)
    finally:
        process.kill()
        process.wait()
    assert err == ""
