"""What no edge has caught: one append fails in words, and no driver is tried for ever."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import math
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import Raw

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.conversation import Choice, TriageView
from midflight.engines.local_engine import LocalEngine
from midflight.errors import InvalidRequest, NotReadable, PayloadTooLarge, StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Outcome, Phase
from midflight.journal.record import Usage
from midflight.run import Run
from midflight.runtime import foreign
from midflight.stores.codec import encode
from midflight.stores.protocol import Store
from midflight.tools.declaration import Tool, tool
from midflight.tools.progress import emit, spend
from scenarios import odd
from scenarios.conftest import Open, failed_drivers
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


# ── what is spent ────────────────────────────────────────────────────────────────────────────

NOT_SPENT: list[tuple[Any, Any]] = [
    (0, math.nan),
    (0, math.inf),
    (0, -1.0),
    (0, "1"),
    (0, True),
    (-1, None),
    (1.5, None),
    (math.nan, None),
    (2**70, None),
    (None, None),
]


async def test_what_nobody_can_have_spent_is_refused_at_once_and_not_counted(driving: Open) -> None:
    @tool(effect="model", name="second.think")
    async def think() -> str:
        spend(7, 0.5)
        for tokens, usd in NOT_SPENT:
            with pytest.raises(InvalidRequest, match="Nothing was counted"):
                spend(tokens, usd)
        return "thought"

    @agent("second.thinker")
    async def clerk(run: Run) -> str:
        return await run.step("Think", think)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        assert await control.result(run) == "thought"
        spent = (await control.state(run)).spent
        assert (spent.tokens, spent.usd) == (7, 0.5)


async def test_a_reserve_that_nobody_can_spend_fails_its_step_before_it_begins(
    driving: Open,
) -> None:
    begun: list[str] = []

    @tool(effect="model", name="second.reserve", reserves=lambda: Usage(tokens=1, usd=math.nan))
    async def think() -> None:
        begun.append("think")

    @agent("second.reserver")
    async def clerk(run: Run) -> str:
        with pytest.raises(
            InvalidRequest, match=r"reserves= of second\.reserve: usd= has to be a sum"
        ):
            await run.step("Think", think)
        return "went on"

    async with driving(clerk) as control:
        assert await control.result(await control.start(clerk, "work")) == "went on"
    assert begun == []


# ── messages ─────────────────────────────────────────────────────────────────────────────────

LONG = "x" * 2 * odd.MEGABYTE
CHOSEN: dict[str, Any] = {
    "half of a character": lambda m: [Choice(m, "incorporate", say=odd.HALF, why=odd.HALF)],
    "2 MB": lambda m: [Choice(m, "defer", title=LONG, say=LONG)],
    "no text": lambda m: [Choice(m, "incorporate", say=5, why=math.nan)],  # type: ignore[arg-type]
    "no number": lambda m: [Choice("x", "incorporate")],  # type: ignore[arg-type]
    "an object": lambda m: object(),
    **{f"raises {what}": make for what, make in odd.RAISED.items()},
}


@pytest.mark.slow
async def test_whatever_a_triage_says_each_message_is_looked_at_once_and_the_run_ends(
    driving: Open,
) -> None:
    calls: dict[str, int] = {}

    async def triage(view: TriageView) -> Sequence[Choice]:
        calls[view.brief] = calls.get(view.brief, 0) + 1
        made = CHOSEN[view.brief]
        if view.brief.startswith("raises"):
            raise made()
        chosen: Sequence[Choice] = made(view.messages[-1].id)
        return chosen

    looked = anyio.Event()
    stage = Stage("second-triage")
    look = stage.reader()
    stage.gate("end")

    @agent("second.talker", converses=True, triage=triage, triage_after=0.01)
    async def clerk(run: Run) -> str:
        await run.step("Look", look, "end")
        return "done"

    async with driving(clerk) as control:
        runs = {name: await control.start(clerk, name) for name in CHOSEN}
        for run in runs.values():
            state = await control.until(run, lambda s: s.phase is Phase.RUNNING)
            sent = await control.send(state.thread, "and this")
            with anyio.fail_after(20):
                await _chosen(control, state.thread, sent.position)
        stage.gates["end"].set()
        looked.set()
        for name, run in runs.items():
            assert (await control.ended(run)).phase is Phase.DONE, name
    assert {name for name, times in calls.items() if times != 1} == set()


async def _chosen(control: Control, thread: str, message: int) -> None:
    async with control.watch(thread) as news:
        async for record in news:
            if getattr(record.event, "message", 0) == message:
                return


# ── the second line ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", [odd.HALF, "x" * 2 * odd.MEGABYTE])
def test_an_event_that_cannot_be_encoded_is_an_error_in_words(what: str) -> None:
    fact = e.UndoSettled(epoch=1, undo=1, undone=False, why=what)
    with pytest.raises((NotReadable, PayloadTooLarge), match="Nothing was appended"):
        encode("r-1", fact)


@pytest.mark.parametrize(
    "fact",
    [
        e.AttemptSettled(epoch=1, attempt=5, outcome=Outcome.DONE, error=odd.HALF),
        e.StepSettled(epoch=1, step="s", name="n", result=Raw(odd.DEEP_JSON), error=""),
        e.StepLeft(epoch=1, step="s", name="n", waited=math.nan),
        e.TextStreamed(epoch=1, step="s", attempt=1, offset=0, text="\x01" * odd.MEGABYTE),
    ],
    ids=lambda fact: fact.stored_name(),
)
def test_a_fact_that_a_store_refuses_is_mended_so_that_it_takes_it(fact: Any) -> None:
    with pytest.raises((NotReadable, PayloadTooLarge)) as refused:
        encode("r-1", fact)
    mended = foreign.mended(fact, refused.value)
    encode("r-1", mended)
    assert type(mended) is type(fact)
    if isinstance(fact, e.StepSettled):
        assert "what it returned could not be stored" in mended.error  # type: ignore[attr-defined]


@agent("second.plain")
async def plain(run: Run) -> str:
    return "well"


async def test_an_error_that_ends_our_own_task_ends_its_run_and_not_the_process(
    store: Store, tmp_path: Path
) -> None:
    """GeneratorExit that comes through a future closes the task that waits: none can catch it."""
    called: list[int] = []

    def fail() -> None:
        raise GeneratorExit

    @tool(effect="read", name="second.pool")
    async def look() -> None:
        called.append(1)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            await asyncio.get_running_loop().run_in_executor(pool, fail)

    @agent("second.pooled")
    async def clerk(run: Run) -> None:
        await run.step("Look", look)

    agents = (clerk, plain)
    async with LocalEngine.open(store, agents, workdir=tmp_path, sweep_s=0.05) as engine:
        control = Control(store, engine)
        with anyio.fail_after(20):
            state = await control.ended(await control.start(clerk, "work"))
            assert (state.phase, called) == (Phase.FAILED, [1])
            assert await control.result(await control.start(plain, "work")) == "well"


async def test_a_run_whose_driver_fails_again_and_again_is_ended_in_words(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sideways: Any = "sideways"
    nonsense = Agent("second.nonsense", plain.function, mode=sideways)  # past what @agent checks
    agents = (nonsense, plain)
    async with LocalEngine.open(store, agents, workdir=tmp_path, sweep_s=0.05) as engine:
        control = Control(store, engine)
        run = await Control(store).start("second.nonsense", "work")
        with anyio.fail_after(20):
            state = await control.ended(run)
        assert state.phase is Phase.FAILED
        told = "its driver failed 5 times, and it was given up: ValueError: 'sideways'"
        assert state.error.startswith(told)
        assert await control.result(await control.start(plain, "work")) == "well"
    assert len(failed_drivers(caplog)) == 5


# ── the process itself ───────────────────────────────────────────────────────────────────────

PROGRAM = """
import asyncio, sys, time
from midflight import Run, agent, tool
from midflight.control import local

@tool(effect="read")
async def look() -> None:
    print("looking", flush=True)
    while True:
        time.sleep(0.01)  # in the middle of a tool's own lines

@agent()
async def clerk(run: Run) -> None:
    await run.step("Look", look)

async def main() -> None:
    async with local("memory:", clerk) as control:
        await control.result(await control.start(clerk, "work"))

asyncio.new_event_loop().run_until_complete(main())
"""


@pytest.mark.slow
async def test_ctrl_c_in_the_middle_of_a_tool_still_ends_the_process(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(program),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    with anyio.fail_after(30):
        assert await process.stdout.readline() == b"looking\n"
        os.kill(process.pid, signal.SIGINT)
        assert await process.wait() not in {0, None}


# ── tools in processes ───────────────────────────────────────────────────────────────────────


def in_a_process(name: str) -> None:
    raise odd.RAISED[name]()


def from_a_process(name: str) -> Any:
    return odd.RETURNED[name]()


@pytest.mark.slow
async def test_whatever_a_tool_raises_or_returns_in_a_process_its_step_fails(
    driving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "midflight.runtime")
    raises: Tool = tool(effect="read", name="second.raises", runs="process")(in_a_process)
    returns: Tool = tool(effect="read", name="second.returns", runs="process")(from_a_process)
    some = ["half of a character", "20 MB", "a text that interrupts", "no class"]
    some += ["GeneratorExit", "SystemExit", "KeyboardInterrupt", "a group of the worst"]
    given = ["half of a character", "NaN", "a generator"]

    @agent("second.processes")
    async def clerk(run: Run) -> int:
        failed: list[str] = []

        async def act(called: Tool, name: str) -> None:
            with pytest.raises(StepFailed):
                await run.step("Act", called, name)
            failed.append(name)

        async with anyio.create_task_group() as tasks:
            for called, names in ((raises, some), (returns, given)):
                for name in names:
                    tasks.start_soon(act, called, name)
        return len(failed)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        assert await control.result(run) == len(some) + len(given)


# ── what is said, and what is left in the folder ─────────────────────────────────────────────


async def test_a_file_whose_name_is_no_text_does_not_keep_a_cancel(driving: Open) -> None:
    @agent("second.filer")
    async def clerk(run: Run) -> None:
        (run.workdir / os.fsdecode(b"caf\xe9.txt")).write_text("x", encoding="utf-8")
        await run.ask("Well?")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.until(run, lambda s: bool(s.questions))
        await control.cancel(run)
        with anyio.fail_after(10):
            assert (await control.ended(run)).phase is Phase.CANCELLED


async def test_much_that_steps_have_said_does_not_keep_a_cancel(driving: Open) -> None:
    @tool(effect="read", name="second.talks")
    async def talks(number: int) -> None:
        emit("\x01" * 200_000)  # each of them is six bytes in JSON
        await anyio.sleep_forever()

    @agent("second.crowd")
    async def clerk(run: Run) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon(run.step, "Talk", talks, number)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.until(run, lambda s: s.phase is Phase.RUNNING)
        await anyio.sleep(0.2)
        await control.cancel(run)
        with anyio.fail_after(20):
            assert (await control.ended(run)).phase is Phase.CANCELLED
