"""A tool that ignores its own timeout is left behind, and that try counts as any other failure."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Outcome, Phase
from midflight.run import Run
from midflight.tools.declaration import NotDone, Tool, tool
from midflight.tools.options import EffectName, EffectRecord, Retry
from scenarios.conftest import Open
from scenarios.rests import events_of

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("store", ["memory"], indirect=True),
]

IN_TIME: dict[str, Any] = {"timeout": 0.05, "stops_within": 0.05}
WORDS = "no end within 0.05 s; it ignored that for 0.05 s and was left behind"


class Deaf:
    """Swallows every cancel. Counts how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    async def go_on(self) -> None:
        self.calls += 1
        while True:
            try:
                await anyio.sleep(3600)
            except asyncio.CancelledError:
                continue


async def not_done(_: EffectRecord) -> object:
    return NotDone()


def telling(made: Tool) -> Agent:
    """An agent whose result is how its only step failed."""

    @agent()
    async def clerk(run: Run) -> str:
        try:
            await run.step("Make", made)
        except StepFailed as failed:
            return failed.error
        return "made"

    return clerk


async def settled(control: Control, run: str) -> list[Outcome]:
    return [one.outcome for one in await events_of(control, run, e.AttemptSettled)]


@pytest.mark.parametrize("retry", [0, 2])
@pytest.mark.parametrize("effect", ["read", "model", "write", "once"])
async def test_a_try_that_ignored_its_timeout_counts_and_is_repeated_as_often_as_declared(
    driving: Open, effect: EffectName, retry: int
) -> None:
    deaf = Deaf()
    checked: dict[str, Any] = {"check": not_done, "settles_within": 0.0} if effect == "once" else {}
    name = f"deaf-timeout.{effect}-{retry}"
    made = tool(
        effect=effect, name=name, retry=Retry(retry, first_after=0.01), **IN_TIME, **checked
    )(deaf.go_on)
    clerk = telling(made)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        with anyio.fail_after(5):
            state = await control.ended(run)
        waits = await events_of(control, run, e.TimerSet)
        outcomes = await settled(control, run)

    assert state.phase is Phase.DONE
    assert deaf.calls == 1 + retry
    assert len(waits) == retry, "each repeat waits for its turn, on record"
    unknown = {"write": Outcome.UNKNOWN, "once": Outcome.UNKNOWN, "model": Outcome.FAILED}
    assert outcomes == ([unknown[effect]] * (1 + retry) if effect in unknown else [])


async def test_the_question_about_it_says_what_the_tool_raised(driving: Open) -> None:
    deaf = Deaf()
    made = tool(effect="once", name="deaf-timeout.asked", label="letter", **IN_TIME)(deaf.go_on)
    clerk = telling(made)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        with anyio.fail_after(5):
            state = await control.until(run, lambda s: s.phase is Phase.WAITING)
        (question,) = state.questions.values()
        assert f"TimeoutError: {WORDS}" in question.message
        assert deaf.calls == 1
        await control.cancel(run, now=True)
        await control.ended(run)


@pytest.mark.parametrize("effect", ["read", "model"])
async def test_a_thread_past_its_time_is_a_try_that_counts(
    driving: Open, effect: EffectName
) -> None:
    go, calls = threading.Event(), list[int]()

    @tool(
        effect=effect,
        name=f"deaf-timeout.thread-{effect}",
        retry=Retry(1, first_after=0.01),
        timeout=0.05,
    )
    def hang() -> None:
        calls.append(1)
        go.wait(10)

    clerk = telling(hang)
    try:
        async with driving(clerk) as control:
            run = await control.start(clerk, "work")
            with anyio.fail_after(5):
                assert (await control.ended(run)).phase is Phase.DONE
    finally:
        go.set()
    assert len(calls) == 2
