"""What would never end is left behind after a bound, and the receipt says what it may still do."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.tools.declaration import STOPS_S, NotDone, Tool, tool
from midflight.tools.options import EffectName, EffectRecord
from scenarios import left_behind
from scenarios.conftest import Open

pytestmark = pytest.mark.anyio

in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True)
STOPS_WITHIN_S = 0.2


async def lines(control: Control, run: str) -> list[str]:
    return [line.text for line in (await control.receipt(run)).lines]


class Deaf:
    """Swallows every cancel and goes on. Counts how often it went round."""

    def __init__(self) -> None:
        self.rounds = 0
        self.begun = anyio.Event()

    async def go_on(self) -> None:
        while True:
            self.rounds += 1
            self.begun.set()
            try:
                with anyio.move_on_after(0.5):
                    await anyio.sleep(3600)
            except asyncio.CancelledError:
                continue


def asking(made: Tool) -> Agent:
    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make", made)
        await run.ask("Go on?")

    return clerk


@in_memory
@pytest.mark.parametrize("now", [False, True])
@pytest.mark.parametrize("effect", ["once", "read"])
async def test_a_deaf_tool_does_not_keep_a_cancel_for_ever(
    driving: Open, now: bool, effect: EffectName
) -> None:
    deaf = Deaf()
    name = f"left.deaf-{now}-{effect}"
    clerk = asking(
        tool(effect=effect, name=name, label="letter", stops_within=STOPS_WITHIN_S)(deaf.go_on)
    )
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await deaf.begun.wait()
        await control.cancel(run, now=now)
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.CANCELLED

        why = "aborted: cancelled; it ignored that for 0.2 s and was left behind"
        assert await lines(control, run) == (
            [f"letter: unknown ({why})"] if effect == "once" else []
        )
        rounds = deaf.rounds
        await anyio.sleep(0.7)  # its own deadline passes meanwhile
        assert deaf.rounds == rounds, "after 'cancelled' no line of it runs"


@in_memory
@pytest.mark.parametrize("now", [False, True])
async def test_a_deaf_undo_is_given_up_and_named(driving: Open, now: bool) -> None:
    """Also for somebody who cannot wait, and says so while it is at work."""
    deaf = Deaf()

    async def undo(_: EffectRecord) -> None:
        await deaf.go_on()

    timeout_s = 600 if now else 0.1
    name = f"left.undo-{now}"

    @tool(name=name, label="letter", undo=undo, timeout=timeout_s, stops_within=STOPS_WITHIN_S)
    async def make() -> None: ...

    clerk = asking(make)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.until(run, lambda s: s.phase is Phase.WAITING)
        await control.cancel(run)
        if now:
            await deaf.begun.wait()
            await control.cancel(run, now=True)
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.CANCELLED

        why = "stopped" if now else "no end within 0.1 s"
        assert await lines(control, run) == [
            f"letter: could not be undone ({why}; it ignored that for 0.2 s and was left behind)"
        ]
        rounds = deaf.rounds
        await anyio.sleep(0.7)
        assert deaf.rounds == rounds


@in_memory
@pytest.mark.parametrize("cancelled", ["not", "plainly", "now"])
async def test_a_deaf_check_keeps_neither_a_step_nor_a_cancel(
    driving: Open, cancelled: str
) -> None:
    deaf = Deaf()

    async def check(_: EffectRecord) -> object:
        await deaf.go_on()
        return NotDone()

    name = f"left.check-{cancelled}"

    @tool(name=name, label="letter", check=check, timeout=0.3, stops_within=STOPS_WITHIN_S)
    async def make() -> None:
        raise ConnectionError("reset by peer")

    clerk = asking(make)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await deaf.begun.wait()
        with anyio.fail_after(5):
            if cancelled != "not":
                await control.cancel(run, now=cancelled == "now")
                await control.ended(run)
                assert await lines(control, run) == [
                    "letter: unknown (ConnectionError: reset by peer)"
                ]
            else:
                state = await control.until(run, lambda s: s.phase is Phase.WAITING)
                (question,) = state.questions.values()
                assert "left behind" in question.message
        rounds = deaf.rounds
        await anyio.sleep(0.7)
        assert deaf.rounds == rounds


@in_memory
@pytest.mark.parametrize(("now", "timeout_s"), [(True, 600.0), (False, 0.3)])
async def test_a_thread_that_never_ends_is_named_as_one_that_may_still_act(
    driving: Open, now: bool, timeout_s: float
) -> None:
    begun, go, done = threading.Event(), threading.Event(), list[str]()
    name = f"left.thread-{now}"

    @tool(name=name, label="plate", timeout=timeout_s, stops_within=STOPS_WITHIN_S)
    def engrave() -> None:
        begun.set()
        go.wait(20)
        done.append("engraved")

    clerk = asking(engrave)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await anyio.to_thread.run_sync(begun.wait)
        await control.cancel(run, now=now)
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.CANCELLED
        ((word, why),) = [(x.word, x.why) for x in (await control.receipt(run)).lines]
        assert (word, why.partition(" after ")[0]) == (
            "unknown",
            "aborted: cancelled; it runs in a thread that has not ended",
        )
        assert why.endswith("and may still act")
        assert done == []

        go.set()  # it acts after all, and that is not thrown away
        with anyio.fail_after(5):
            await control.until(run, lambda s: not next(iter(s.effects.values())).at_work)
        assert (done, await lines(control, run)) == (["engraved"], ["plate: kept (no undo)"])


@in_memory
async def test_a_blocking_undo_past_its_time_is_not_said_to_be_over(driving: Open) -> None:
    go = threading.Event()

    def undo(_: EffectRecord) -> None:
        go.wait(20)

    @tool(name="left.blocking-undo", label="plate", undo=undo, timeout=0.1)
    async def engrave() -> None: ...

    clerk = asking(engrave)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.until(run, lambda s: s.phase is Phase.WAITING)
        await control.cancel(run)
        with anyio.fail_after(5):
            await control.ended(run)
        (line,) = await lines(control, run)
        assert line.startswith("plate: unknown (undo: it did not end within 0.1")
        assert line.endswith("and may still be at work)")
        go.set()


@in_memory
@pytest.mark.parametrize("cancelled", ["not", "plainly", "now"])
async def test_a_blocking_check_keeps_neither_a_step_nor_a_cancel(
    driving: Open, cancelled: str
) -> None:
    begun, go = threading.Event(), threading.Event()

    def check(_: EffectRecord) -> object:
        begun.set()
        go.wait(20)
        return NotDone()

    name = f"left.blocking-check-{cancelled}"

    @tool(name=name, label="plate", check=check, timeout=0.3, stops_within=STOPS_WITHIN_S)
    async def engrave() -> None:
        raise ConnectionError("reset by peer")

    clerk = asking(engrave)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await anyio.to_thread.run_sync(begun.wait)
        with anyio.fail_after(5):
            if cancelled != "not":
                await control.cancel(run, now=cancelled == "now")
                await control.ended(run)
                assert await lines(control, run) == [
                    "plate: unknown (ConnectionError: reset by peer)"
                ]
            else:
                state = await control.until(run, lambda s: s.phase is Phase.WAITING)
                (question,) = state.questions.values()
                assert question.message.endswith("within 0.3 s and may still be at work")
        go.set()


KINDS = [f"{how} {what}" for what in ("tool", "undo", "check") for how in ("deaf", "blocked")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_block_ends_whatever_its_tools_do(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, left_behind.__file__, kind, str(tmp_path / "m.db")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert (ended.stdout.split(), ended.returncode) == (["left", "ended"], 0), ended.stderr


def test_a_tool_that_says_nothing_has_half_a_minute_to_stop() -> None:
    @tool(effect="once", name="left.silent")
    async def make() -> None: ...

    assert make.stops_within == STOPS_S == 30.0
