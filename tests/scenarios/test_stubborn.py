"""Tools that will not be stopped: each ends in a state and a receipt that tell the truth."""

from __future__ import annotations

import asyncio
import sys
import threading
from itertools import pairwise
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.runtime.steps.bounds import Aborted, Alarms
from midflight.runtime.steps.tool_call import Call
from midflight.tools.declaration import ChangedSince, Done, NotDone, Tool, tool
from midflight.tools.options import EffectName, EffectRecord
from scenarios import stubborn_tools
from scenarios.conftest import Open
from scenarios.stage import Stage
from tools.processes import gone_within

pytestmark = pytest.mark.anyio

in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True)


async def lines(control: Control, run: str) -> list[str]:
    return [line.text for line in (await control.receipt(run)).lines]


def doing(made: Tool, *args: object) -> Agent:
    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Make", made, *args)

    return clerk


# ── tools in the event loop ──────────────────────────────────────────────────────────────────


@in_memory
@pytest.mark.slow
async def test_a_tool_that_swallows_every_cancel_is_told_again_and_waited_for(
    driving: Open,
) -> None:
    begun = anyio.Event()
    swallowed: list[float] = []

    @tool(effect="once", name="stubborn.swallow", label="letter")
    async def make() -> str:
        begun.set()
        while len(swallowed) < 4:
            try:
                await anyio.sleep(30)
            except asyncio.CancelledError:
                swallowed.append(anyio.current_time())
        return "made anyway"

    clerk = doing(make)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await begun.wait()
        await control.cancel(run)
        assert (await control.state(run)).phase is Phase.CANCELLING
        assert (await control.ended(run)).phase is Phase.CANCELLED

        assert await lines(control, run) == ["letter: kept (no undo)"]
        grace, *again = [after - before for before, after in pairwise(swallowed)]
        assert grace > 1.9, "its clean-up may take a while"
        assert all(0.05 < pause < 20 for pause in again), "now and then, not at full speed"


@pytest.mark.parametrize(
    ("raises", "line", "undone"),
    [
        (RuntimeError("not now"), "thing: unknown (undo attempted)", ["undone"]),
        (NotDone("rolled back"), "thing: aborted (proven)", []),
    ],
)
async def test_a_tool_that_raises_while_it_is_cancelled(
    driving: Open, raises: Exception, line: str, undone: list[str]
) -> None:
    begun, done = anyio.Event(), []

    async def unmake(_: EffectRecord) -> None:
        done.append("undone")

    name = f"stubborn.raise-{type(raises).__name__}"

    @tool(effect="once", name=name, label="thing", undo=unmake)
    async def make() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            raise raises from None

    clerk = doing(make)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await begun.wait()
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED

        assert await lines(control, run) == [line]
        assert done == undone


async def test_what_a_tool_cleans_up_when_it_is_cancelled_may_take_its_time(driving: Open) -> None:
    begun, done = anyio.Event(), []

    @tool(effect="once", name="stubborn.cleans", label="thing")
    async def make() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            await asyncio.sleep(0.1)
            done.append("closed")

    clerk = doing(make)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await begun.wait()
        await control.cancel(run)
        await control.ended(run)

        assert done == ["closed"]


class Unusual(BaseException): ...


async def waits_for_something_cancelled() -> None:
    task = asyncio.get_running_loop().create_task(anyio.sleep_forever())
    task.cancel()
    await task


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


async def exits() -> None:
    sys.exit(3)


async def raises_what_is_no_exception() -> None:
    raise Unusual("of my own")


@pytest.mark.parametrize(
    ("strange", "words"),
    [
        (waits_for_something_cancelled, "CancelledError"),
        (cancels_itself, "CancelledError"),
        (exits, "SystemExit: 3"),
        (raises_what_is_no_exception, "Unusual: of my own"),
    ],
)
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_tool_that_ends_in_a_strange_way_has_failed_and_nothing_else_has(
    driving: Open, strange: object, words: str, effect: EffectName
) -> None:
    name = f"strange.{effect}-{getattr(strange, '__name__', '')}"
    made = tool(effect=effect, name=name, label="thing")(strange)  # type: ignore[arg-type]

    @agent()
    async def clerk(run: Run) -> str:
        try:
            await run.step("Make", made)
        except StepFailed as failed:
            return failed.error
        return "fine"

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        with anyio.fail_after(5):
            assert await control.result(run) == words
        known = [f"thing: unknown ({words})"] if effect == "write" else []
        assert await lines(control, run) == known


async def test_a_cancel_of_its_own_is_not_taken_for_ours(driving: Open) -> None:
    @agent()
    async def clerk(run: Run) -> None:
        await waits_for_something_cancelled()

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        with anyio.fail_after(5):
            ended = await control.ended(run)
        assert (ended.phase, ended.error) == (Phase.FAILED, "CancelledError")


async def test_an_effect_whose_result_cannot_be_stored_has_happened_and_is_undone(
    driving: Open,
) -> None:
    stage = Stage("stubborn-result")
    look = stage.reader()
    stage.gate("slow")
    undone: list[object] = []

    async def unmake(performed: EffectRecord) -> None:
        undone.append(performed.result)

    @tool(effect="once", name="stubborn.result", label="thing", undo=unmake)
    async def make() -> object:
        return object()

    @agent()
    async def clerk(run: Run) -> None:
        with pytest.raises(
            StepFailed,
            match="it was done, but its result cannot be stored: its result is of type object",
        ):
            await run.step("Make", make)
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        await control.ended(run)

        assert (await lines(control, run), undone) == (["thing: undone"], [None])


async def test_a_timeout_of_its_own_is_not_called_ours(driving: Open) -> None:
    @tool(effect="write", name="stubborn.times-out", label="thing")
    async def make() -> None:
        raise TimeoutError("the printer is silent")

    @tool(effect="write", name="stubborn.takes-long", label="thing", timeout=0.05)
    async def wait() -> None:
        await anyio.sleep_forever()

    @agent()
    async def clerk(run: Run) -> list[str]:
        errors = []
        for made in (make, wait):
            try:
                await run.step("Make", made)
            except StepFailed as failed:
                errors.append(failed.error)
        return errors

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        assert await control.result(run) == [
            "TimeoutError: the printer is silent",
            "TimeoutError: no end within 0.05 s",
        ]


@pytest.mark.slow
async def test_a_write_that_always_fails_is_tried_as_often_as_declared(driving: Open) -> None:
    tries: list[str] = []

    @tool(effect="write", name="stubborn.fails", label="row", retry=1)
    async def upsert(idempotency_key: str = "") -> None:
        tries.append(idempotency_key)
        raise ConnectionError("reset by peer")

    clerk = doing(upsert)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.FAILED
        assert tries == [tries[0]] * 2


async def test_a_once_that_fails_whatever_its_check_says_does_not_go_round_for_ever(
    driving: Open,
) -> None:
    tries: list[str] = []

    async def ask_the_bank(_: EffectRecord) -> object:
        return NotDone()

    @tool(effect="once", name="stubborn.pay", label="payment", check=ask_the_bank, settles_within=0)
    async def pay() -> None:
        tries.append("pay")
        raise ConnectionError("reset by peer")

    clerk = doing(pay)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.FAILED
        assert tries == ["pay"]
        assert set(await lines(control, run)) == {"payment: aborted (proven)"}


async def test_a_check_that_hangs_stands_in_the_way_of_neither_pause_nor_cancel(
    driving: Open,
) -> None:
    asked: list[str] = []
    news = anyio.Event()

    async def ask_the_bank(_: EffectRecord) -> object:
        asked.append("check")
        news.set()
        await anyio.sleep_forever()
        return Done()

    @tool(
        effect="once", name="stubborn.check", label="payment", check=ask_the_bank, settles_within=0
    )
    async def pay() -> None:
        raise ConnectionError("reset by peer")

    clerk = doing(pay)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await news.wait()
        with anyio.fail_after(5):
            await control.applied(await control.pause(run))
            assert (await control.state(run)).questions == {}, "nothing was learned, nobody asked"
            news = anyio.Event()
            await control.resume(run)
            await news.wait()
            await control.cancel(run, now=True)
            assert (await control.ended(run)).phase is Phase.CANCELLED
        assert asked == ["check", "check"]


async def test_a_model_call_is_aborted_by_a_pause_and_made_again(driving: Open) -> None:
    begun: list[str] = []
    news, gate = anyio.Event(), anyio.Event()

    @tool(effect="model", name="stubborn.model")
    async def think() -> str:
        begun.append("thinks")
        news.set()
        await gate.wait()
        return "42"

    clerk = doing(think)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await news.wait()
        with anyio.fail_after(5):
            await control.applied(await control.pause(run))
            gate.set()
            await control.resume(run)
            assert await control.result(run) == "42"
        assert begun == ["thinks", "thinks"]


# ── threads and processes ────────────────────────────────────────────────────────────────────


@pytest.mark.slow
async def test_a_thread_cannot_be_ended_and_is_waited_for(driving: Open) -> None:
    begun, go, done = anyio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()

    def unmake(_: EffectRecord) -> None:
        done.append("undone")

    @tool(effect="once", name="stubborn.thread", label="plate", undo=unmake)
    def engrave() -> str:
        loop.call_soon_threadsafe(begun.set)
        go.wait(20)
        done.append("engraved")
        return "engraved"

    clerk = doing(engrave)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await begun.wait()
        assert (await control.cancel(run)).in_flight == ("plate",)
        await anyio.sleep(0.1)
        assert (await control.state(run)).phase is Phase.CANCELLING
        go.set()
        assert (await control.ended(run)).phase is Phase.CANCELLED

        assert (await lines(control, run), done) == (["plate: undone"], ["engraved", "undone"])


async def test_a_thread_that_has_not_begun_never_does() -> None:
    done: list[str] = []

    def note() -> None:
        done.append("done")

    call = Call(Tool(name="t", function=note, runs="thread"), (), {}, Alarms())
    ending: list[object] = []

    async def run() -> None:
        ending.append(await call.run())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.lowlevel.checkpoint()
        call.abort("cancelled")
    await anyio.sleep(0.05)

    assert (ending, done) == ([Aborted("cancelled", began=False)], [])


@pytest.mark.parametrize("kind", ["blocks_in_c", "ignores_the_polite_signals"])
async def test_a_process_is_killed_whatever_it_does(
    driving: Open, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "pid"
    clerk = doing(getattr(stubborn_tools, kind), str(path))
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        pid = await number_in(path)
        began = anyio.current_time()
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED

        assert anyio.current_time() - began < 20
        assert not Path(f"/proc/{pid}").exists()
        assert await lines(control, run) == ["film: unknown (aborted: cancelled)"]


@pytest.mark.slow
async def test_a_grandchild_in_a_session_of_its_own_is_dead_when_the_run_is_cancelled(
    driving: Open, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    clerk = doing(stubborn_tools.has_a_runaway_grandchild, str(path))
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        pid = await number_in(path)
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED

        assert not Path(f"/proc/{pid}").exists()
        assert gone_within(0, str(tmp_path))


async def test_a_call_that_no_process_can_take_has_not_happened(driving: Open) -> None:
    @tool(effect="once", name="stubborn.local", label="film", runs="process")
    def local() -> None: ...

    @agent()
    async def clerk(run: Run) -> str:
        with pytest.raises(StepFailed) as failed:
            await run.step("Make", local)
        return failed.value.error

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        with anyio.fail_after(5):
            assert "Nothing was run" in await control.result(run)
        assert await lines(control, run) == ["film: aborted (proven)"]


async def number_in(path: Path) -> int:
    with anyio.fail_after(20):
        while not path.exists():  # noqa: ASYNC110 - another process makes it
            await anyio.sleep(0.01)
    return int(path.read_text(encoding="utf-8"))


# ── undos ────────────────────────────────────────────────────────────────────────────────────


async def cancelled_after_making(driving: Open, stage: Stage, make: Tool, *args: object) -> str:
    """Cancel a run that has made something; give the receipt's only line."""
    look = stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make", make, *args)
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        with anyio.fail_after(10):
            assert (await control.ended(run)).phase is Phase.CANCELLED
        undos = [r.event for r in await control.store.read(run) if type(r.event) is e.UndoStarted]
        assert len({undo.idempotency_key for undo in undos}) == 1, "a repeat keeps its key"
        (line,) = await lines(control, run)
        return line


@pytest.mark.parametrize(
    ("failures", "line"),
    [(2, "thing: undone"), (99, "thing: could not be undone (OSError: the provider is down)")],
)
@pytest.mark.slow
async def test_an_undo_that_fails_is_tried_three_times(
    driving: Open, failures: int, line: str
) -> None:
    stage, tries = Stage(f"stubborn-undo-{failures}"), []

    async def unmake(_: EffectRecord) -> None:
        tries.append("undo")
        if len(tries) <= failures:
            raise OSError("the provider is down")

    assert await cancelled_after_making(driving, stage, stage.writer(undo=unmake), "a") == line
    assert len(tries) == 3


async def test_a_file_that_somebody_else_has_changed_is_left_alone(
    driving: Open, tmp_path: Path
) -> None:
    stage, path = Stage("stubborn-file"), tmp_path / "report.txt"

    async def unwrite(performed: EffectRecord) -> None:
        if path.read_text() != performed.result:
            raise ChangedSince(path.name)
        path.unlink()

    @tool(effect="once", name="stubborn.write", label="file", undo=unwrite)
    async def write(text: str) -> str:
        path.write_text(text)
        return text

    @tool(effect="read", name="stubborn.meddle")
    async def meddle() -> None:
        path.write_text("what Bob has written")

    look = stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Write", write, "ours")
        await run.step("Somebody else writes", meddle)
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        await control.ended(run)

        assert await lines(control, run) == [
            "file ours: could not be undone (changed by others since: report.txt)"
        ]
        assert path.read_text() == "what Bob has written"
