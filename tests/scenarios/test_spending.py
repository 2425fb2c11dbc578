"""What a step spends counts against the caps, however the step ends."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.record import Limits, Usage
from midflight.run import Run
from midflight.tools.declaration import Tool, tool
from midflight.tools.options import EffectName, Retry
from midflight.tools.progress import spend
from scenarios.company import events
from scenarios.conftest import Open

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]


class Busy(Exception):
    retry_after = 0.3


class Wrong(Exception):
    retryable = False


def thinker(name: str, *, effect: EffectName = "model", tokens: int = 100, **declared: Any) -> Tool:
    async def think(_about: str) -> str:
        spend(tokens, usd=tokens / 1000)
        return "a thought"

    return tool(effect=effect, name=f"{name}.think", **declared)(think)


def thoughts(name: str, think: Tool, times: int) -> Agent:
    @agent(name)
    async def thinks(run: Run) -> int:
        for number in range(times):
            await run.step("Think", think, f"{number}")
        return times

    return thinks


async def held_at_its_cap(control: Control, run: str) -> None:
    with anyio.fail_after(10):
        await control.until(run, lambda s: s.phase is Phase.PAUSED and bool(s.questions))


@pytest.mark.parametrize("effect", ["model", "read", "write", "once"])
async def test_what_a_step_spends_is_the_runs(driving: Open, effect: EffectName) -> None:
    thinks = thoughts(f"spends-{effect}", thinker(f"spends-{effect}", effect=effect), 3)

    async with driving(thinks) as control:
        run = await control.start(thinks, "think")
        await control.result(run)

        spent = (await control.state(run)).spent
        assert (spent.tokens, round(spent.usd, 6), spent.unpriced) == (300, 0.3, 0)


async def test_what_has_no_price_is_counted_in_tokens_and_never_as_money(driving: Open) -> None:
    async def think() -> None:
        spend(10, usd=0.5)
        spend(7)

    half_priced = tool(effect="model", name="unpriced.think")(think)

    @agent("unpriced")
    async def thinks(run: Run) -> None:
        await run.step("Think", half_priced)

    async with driving(thinks) as control:
        run = await control.start(thinks, "think")
        await control.result(run)

        spent = (await control.state(run)).spent
        assert (spent.tokens, spent.usd, spent.unpriced) == (17, 0.0, 17)


async def test_a_call_that_fails_has_cost_what_it_has_cost(driving: Open) -> None:
    tries = 0

    async def think() -> str:
        nonlocal tries
        tries += 1
        spend(50, usd=0.05)
        if tries < 3:
            raise RuntimeError("dropped")
        return "at last"

    dear = tool(effect="model", name="dear.think", retry=Retry(2, first_after=0.01))(think)

    @agent("dear")
    async def thinks(run: Run) -> str:
        return str(await run.step("Think", dear))

    async with driving(thinks) as control:
        run = await control.start(thinks, "think")

        assert await control.result(run) == "at last"
        assert (await control.state(run)).spent.tokens == 150


async def test_a_call_that_was_aborted_has_cost_what_it_has_cost(driving: Open) -> None:
    began = anyio.Event()

    async def think() -> None:
        spend(33, usd=0.01)
        began.set()
        await anyio.sleep(30)

    long = tool(effect="model", name="aborted.think")(think)

    @agent("aborted-thought")
    async def thinks(run: Run) -> None:
        await run.step("Think", long)

    async with driving(thinks) as control:
        run = await control.start(thinks, "think")
        await began.wait()
        await control.cancel(run)
        state = await control.ended(run)

        assert (state.phase, state.spent.tokens) == (Phase.CANCELLED, 33)


async def test_the_cap_on_tokens_holds_the_run_one_call_late_at_most(driving: Open) -> None:
    thinks = thoughts("token-cap", thinker("token-cap"), 10)

    async with driving(thinks) as control:
        run = await control.start(thinks, "think", limits=Limits(tokens=250))
        await held_at_its_cap(control, run)

        assert (await control.state(run)).spent.tokens == 300
        await control.raise_limits(run, Limits(tokens=2_000))
        assert await control.result(run) == 10


async def test_what_calls_at_once_have_reserved_counts_as_spent(driving: Open) -> None:
    think = thinker("reserve", reserves=lambda _about: Usage(tokens=100, usd=0.1))

    @agent("reserve")
    async def thinks(run: Run) -> str:
        async with anyio.create_task_group() as together:
            for number in range(10):
                together.start_soon(run.step, "Think", think, f"{number}")
        return "all"

    async with driving(thinks) as control:
        run = await control.start(thinks, "think", limits=Limits(tokens=300))
        await held_at_its_cap(control, run)

        assert (await control.state(run)).spent.tokens <= 400
        await control.raise_limits(run, Limits(tokens=2_000))
        assert await control.result(run) == "all"


async def test_thoughts_are_no_tool_calls_so_a_run_at_that_cap_can_still_conclude(
    driving: Open,
) -> None:
    think, look = thinker("concludes"), thinker("concludes-look", effect="read", tokens=0)

    @agent("concludes")
    async def works(run: Run) -> str:
        for number in range(2):
            await run.step("Think", think, f"{number}")
            await run.step("Look", look, f"{number}")
        return str(await run.step("Conclude", think, "the end"))

    async with driving(works) as control:
        run = await control.start(works, "work", limits=Limits(tool_calls=2))

        assert await control.result(run) == "a thought"


async def test_an_error_that_is_final_is_not_tried_again(driving: Open) -> None:
    tries = 0

    async def think() -> None:
        nonlocal tries
        tries += 1
        raise Wrong("no such model")

    wrong = tool(effect="model", name="final.think", retry=Retry(5, first_after=0.01))(think)

    @agent("final-error")
    async def thinks(run: Run) -> str:
        try:
            await run.step("Think", wrong)
        except StepFailed as failed:
            return str(failed)
        return ""

    async with driving(thinks) as control:
        run = await control.start(thinks, "think")

        assert "no such model" in await control.result(run)
        assert tries == 1


@pytest.mark.slow
async def test_who_asks_us_to_wait_is_waited_for(driving: Open) -> None:
    tries = 0

    async def think() -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise Busy
        return "now"

    busy = tool(effect="model", name="busy.think", retry=Retry(1, first_after=0.01))(think)

    @agent("asked-to-wait")
    async def thinks(run: Run) -> str:
        return str(await run.step("Think", busy))

    async with driving(thinks) as control:
        run = await control.start(thinks, "think")
        assert await control.result(run) == "now"

        records = [r async for r in _records(control, run)]
        set_at, until = next((r.at, r.event.until) for r in records if _is_timer(r))
        assert until - set_at > 0.2


def _is_timer(record: object) -> bool:
    return isinstance(getattr(record, "event", None), e.TimerSet)


async def _records(control: Control, run: str):  # type: ignore[no-untyped-def]
    for record in await control.store.read(run):
        yield record


async def test_a_thought_is_on_record_before_it_begins(driving: Open) -> None:
    thinks = thoughts("on-record", thinker("on-record"), 1)

    async with driving(thinks) as control:
        run = await control.start(thinks, "think")
        await control.result(run)

        assert len(await events(control.store, run, e.AttemptStarted)) == 1
        assert not (await control.state(run)).effects


async def test_a_thought_that_pauses_have_cut_short_does_not_go_in_circles(driving: Open) -> None:
    asked = 0

    async def think() -> str:
        nonlocal asked
        asked += 1
        await anyio.sleep(30 if asked < 12 else 0)
        return "at last"

    slow = tool(effect="model", name="cut-short.think")(think)

    @agent("cut-short")
    async def thinks(run: Run) -> str:
        return str(await run.step("Think", slow))

    async with driving(thinks) as control:
        run = await control.start(thinks, "think", limits=Limits(repeats=2))
        for number in range(1, 12):
            with anyio.fail_after(10):
                while asked < number:  # noqa: ASYNC110 - what is waited for has no event
                    await anyio.sleep(0.005)
            await control.pause(run)
            await control.until(run, lambda s: s.phase is Phase.PAUSED)
            await control.resume(run)

        assert await control.result(run) == "at last"
