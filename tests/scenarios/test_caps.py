"""Caps and circles: warned at 80 %, held at 100 %, asked, and never passed together."""

from __future__ import annotations

import math
import re

import anyio
import pytest

from midflight.agents import REPEATS, Agent, agent
from midflight.control import Control
from midflight.errors import InvalidRequest, StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase
from midflight.journal.record import Limits, Usage
from midflight.journal.state import RunState
from midflight.run import Run
from midflight.tools.declaration import tool
from midflight.tools.options import EffectName
from midflight.tools.progress import emit
from midflight.tools.progress import spend as told
from scenarios.company import events, spend
from scenarios.conftest import Open
from scenarios.hours import Hours
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]


def ten_steps(stage: Stage) -> Agent:
    look = stage.reader()

    @agent(f"{stage.name}-ten")
    async def works(run: Run) -> list[str]:
        for number in range(10):
            await run.step("Read", look, f"{number}")
        return run.notices()

    return works


async def at_its_cap(control: Control, run: str) -> RunState:
    with anyio.fail_after(10):
        return await control.until(
            run, lambda state: state.phase is Phase.PAUSED and bool(state.questions)
        )


async def notices(control: Control, run: str) -> list[str]:
    return [given.text for given in await events(control.store, run, e.NoticeGiven)]


# ── each cap ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("cap", ["steps", "tool_calls"])
async def test_calls_are_counted_warned_of_once_and_held(driving: Open, cap: str) -> None:
    stage = Stage(f"caps-{cap}")
    works = ten_steps(stage)

    async with driving(works) as control:
        run = await control.start(works, "work", limits=Limits(**{cap: 5}))
        state = await at_its_cap(control, run)
        assert stage.done == ["0", "1", "2", "3", "4"]
        assert state.holds == {Cause.CAP}
        (question,) = state.questions.values()
        assert (question.kind, question.message) == (
            "cap",
            f"{cap}: the cap of 5 is reached. Raise it to go on.",
        )
        assert await notices(control, run) == [f"{cap}: 80% of 5 is used"]
        await control.raise_limits(run, Limits(**{cap: 100}))

        assert await control.result(run) == [f"{cap}: 80% of 5 is used"]
        assert not (await control.state(run)).questions


@pytest.mark.parametrize(
    ("limits", "first", "second", "warning"),
    [
        (
            Limits(tokens=100),
            Usage(tokens=85, usd=0.0),
            Usage(tokens=15, usd=0.0),
            "tokens: 85% of 100 is used",
        ),
        (Limits(usd=2.0), Usage(usd=1.7), Usage(usd=0.4), "usd: 85% of 2 is used"),
    ],
    ids=["tokens", "usd"],
)
async def test_what_models_cost_is_counted_warned_of_once_and_held(
    driving: Open, limits: Limits, first: Usage, second: Usage, warning: str
) -> None:
    stage = Stage("caps-cost")
    works = ten_steps(stage)
    for gate in ("2", "5"):
        stage.gate(gate)

    async with driving(works) as control:
        run = await control.start(works, "work", limits=limits)
        await stage.until_begun("2")
        await spend(control, run, first)
        stage.gate("2").set()
        await stage.until_begun("5")
        assert await notices(control, run) == [warning]
        await spend(control, run, second)
        stage.gate("5").set()
        await at_its_cap(control, run)
        assert stage.done[-1] == "5"
        await control.raise_limits(run, Limits(tokens=1000, usd=1000.0))

        assert await control.result(run) == [warning]


@tool(effect="model")
async def think_and_say_nothing_of_it(about: str) -> str:
    return f"thought about {about}"


@tool(effect="model")
async def think_and_pay(about: str) -> str:
    told(0, 0.0) if about == "for free" else told(3, 0.001)
    return f"thought about {about}"


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        (Limits(tokens=10), ["tokens"]),
        (Limits(usd=0.01, tokens=10), ["tokens and usd"]),
        (Limits(steps=5), []),  # a thought is no step, and that cap counts what it says it counts
    ],
    ids=["tokens", "both", "neither"],
)
async def test_a_cap_that_cannot_count_a_call_to_a_model_is_said_once(
    driving: Open, limits: Limits, named: list[str]
) -> None:
    @agent("caps-silent")
    async def thinks(run: Run) -> None:
        for number in range(8):
            await run.step("Think", think_and_say_nothing_of_it, f"{number}")

    async with driving(thinks) as control:
        run = await control.start(thinks, "work", limits=limits)
        state = await control.ended(run)
        assert state.phase is Phase.DONE
        assert (state.spent.steps, state.spent.tokens) == (0, 0)
        assert await notices(control, run) == [
            f"{caps}: Think did not say what it spent, so this cap does not count it"
            for caps in named
        ]


@tool(effect="read")
async def look_it_up(what: str) -> str:
    told(0, 0.5)  # a search that costs money and no tokens
    return what


async def test_money_that_is_no_tokens_counts_too(driving: Open) -> None:
    @agent("caps-search")
    async def searches(run: Run) -> None:
        for number in range(8):
            await run.step("Search", look_it_up, f"{number}")

    async with driving(searches) as control:
        run = await control.start(searches, "work", limits=Limits(usd=1.0))
        assert (await at_its_cap(control, run)).spent.usd == 1.0


async def test_of_a_call_that_says_what_it_spent_nothing_is_said_but_the_cap(driving: Open) -> None:
    @agent("caps-honest")
    async def thinks(run: Run) -> list[str]:
        await run.step("Think", think_and_pay, "for free")
        for number in range(8):
            await run.step("Think", think_and_pay, f"{number}")
        return run.notices()

    async with driving(thinks) as control:
        run = await control.start(thinks, "work", limits=Limits(tokens=10))
        state = await at_its_cap(control, run)
        assert state.spent.tokens == 12  # four at three each: what a call costs is known after it
        assert await notices(control, run) == ["tokens: 90% of 10 is used"]


@pytest.mark.slow
async def test_time_is_counted_while_it_runs_and_not_while_it_rests(
    driving: Open, hours: Hours
) -> None:
    stage = Stage("caps-seconds")
    works = ten_steps(stage)
    stage.gate("0")
    stage.gate("1")

    async with driving(works) as control:
        run = await control.start(works, "work", limits=Limits(seconds=20.0))
        await stage.until_begun("0")
        await control.applied(await control.pause(run))
        hours.skip(21)
        stage.gate("0").set()
        await control.resume(run)
        await stage.until_begun("1")
        hours.skip(20)
        stage.gate("1").set()
        state = await at_its_cap(control, run)
        assert next(iter(state.questions.values())).message.startswith("seconds: the cap of 20")
        await control.raise_limits(run, Limits(seconds=600.0))
        assert (await control.ended(run)).phase is Phase.DONE


async def test_a_cap_that_is_raised_by_too_little_asks_again(driving: Open) -> None:
    stage = Stage("caps-little")
    works = ten_steps(stage)

    async with driving(works) as control:
        run = await control.start(works, "work", limits=Limits(steps=2))
        first = next(iter((await at_its_cap(control, run)).questions))
        await control.raise_limits(run, Limits(steps=3))
        state = await control.until(run, lambda s: bool(s.questions) and first not in s.questions)
        assert stage.done == ["0", "1", "2"]
        assert len(state.questions) == 1
        await control.raise_limits(run, Limits(steps=30))
        await control.ended(run)


async def test_a_cap_is_raised_and_not_answered(driving: Open) -> None:
    stage = Stage("caps-answer")
    works = ten_steps(stage)

    async with driving(works) as control:
        run = await control.start(works, "work", limits=Limits(steps=2))
        question = next(iter((await at_its_cap(control, run)).questions))
        with pytest.raises(InvalidRequest, match=r"takes no answer, .* raise the cap instead"):
            await control.answer(run, question, "go on")
        assert question in (await control.state(run)).questions
        await control.raise_limits(run, no_caps=True)
        await control.ended(run)


async def test_a_cap_that_was_raised_stays_raised_through_a_crash(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("caps-crash")
    works = ten_steps(stage)
    stage.gate("3")

    async with crashing(works) as control:
        run = await control.start(works, "work", limits=Limits(steps=3))
        await at_its_cap(control, run)
        await control.raise_limits(run, Limits(steps=5))
        await stage.until_begun("3")

    stage.gate("3").set()
    async with driving(works) as control:
        await at_its_cap(control, run)
        assert stage.done == ["0", "1", "2", "3", "4"]
        await control.raise_limits(run, no_caps=True)
        await control.ended(run)


@pytest.mark.parametrize(
    "limits",
    [
        Limits(steps=-1),
        Limits(usd=-0.5),
        Limits(usd=math.nan),
        Limits(seconds=math.nan),
        Limits(usd=math.inf),
    ],
    ids=str,
)
async def test_caps_that_cannot_be_meant_are_refused(driving: Open, limits: Limits) -> None:
    stage = Stage("caps-refused")
    works = ten_steps(stage)
    stage.gate("0")

    @agent("caps-refused-parent")
    async def parent(run: Run) -> str:
        try:
            await run.spawn(works, "work", limits=limits)
        except InvalidRequest as refused:
            return str(refused)
        return ""

    async with driving(works, parent) as control:
        with pytest.raises(InvalidRequest, match=r"is not a (whole )?number of zero or more"):
            await control.start(works, "work", limits=limits)
        run = await control.start(works, "work")
        with pytest.raises(InvalidRequest, match=r"is not a (whole )?number of zero or more"):
            await control.raise_limits(run, limits)
        assert (await control.state(run)).limits == Limits(repeats=REPEATS)
        refused = await control.result(await control.start(parent, "work"))
        assert re.search(r"is not a (whole )?number of zero or more", refused)
        stage.gate("0").set()


# ── several at once ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["read", "once"])
async def test_steps_at_once_do_not_pass_a_cap_together(driving: Open, kind: EffectName) -> None:
    stage = Stage(f"caps-parallel-{kind}")

    @tool(effect=kind, name=f"caps-parallel.{kind}")
    async def do(what: str) -> None:
        stage.note(stage.begun, what)
        await anyio.sleep(0.05)
        stage.note(stage.done, what)

    @agent(f"caps-parallel-{kind}")
    async def works(run: Run) -> None:
        async with anyio.create_task_group() as steps:
            for number in range(10):
                steps.start_soon(run.step, f"Do {number}", do, f"{number}")

    async with driving(works) as control:
        run = await control.start(works, "work", limits=Limits(steps=4))
        await at_its_cap(control, run)
        assert len(stage.begun) == len(stage.done) == 4
        await control.raise_limits(run, Limits(steps=7))
        with anyio.fail_after(10):
            await control.until(run, lambda state: state.spent.steps == 7)
        await at_its_cap(control, run)
        await control.raise_limits(run, no_caps=True)

        assert (await control.ended(run)).phase is Phase.DONE
        assert sorted(stage.done) == [str(number) for number in range(10)]


async def test_what_is_in_flight_at_the_cap_finishes(driving: Open) -> None:
    stage = Stage("caps-flight")
    make, look = stage.writer(), stage.reader()
    stage.gate("slow")

    @agent("caps-flight")
    async def works(run: Run) -> None:
        async with anyio.create_task_group() as steps:
            steps.start_soon(run.step, "Make", make, "slow")
            await stage.until_begun("slow")
            await run.step("Read", look, "a")
            await run.step("Read", look, "b")

    async with driving(works) as control:
        run = await control.start(works, "work", limits=Limits(usd=1.0))
        await stage.until_begun("slow")
        await spend(control, run, Usage(usd=1.2))
        state = await control.until(run, lambda state: bool(state.questions))
        assert (state.phase, "b" in stage.begun) == (Phase.PAUSING, False)
        stage.gate("slow").set()
        await at_its_cap(control, run)
        assert "slow" in stage.done
        await control.raise_limits(run, no_caps=True)
        assert (await control.ended(run)).phase is Phase.DONE


# ── circles ──────────────────────────────────────────────────────────────────────────────────


def circling(stage: Stage, turns: list[str], fails: bool = False) -> Agent:
    seen: dict[str, int] = {}

    @tool(effect="read", name=f"{stage.name}.look")
    async def look(what: str) -> str:
        stage.note(stage.begun, what)
        if what in stage.gates:
            await stage.gates[what].wait()
        if fails:
            raise ValueError(what)
        seen[what] = seen.get(what, 0) + 1
        return f"{what} {seen[what]}" if what.startswith("new") else "x" * len(what)

    @agent(f"{stage.name}-circling")
    async def circles(run: Run) -> list[str]:
        for what in turns:
            try:
                await run.step("Look", look, what)
            except StepFailed:
                continue
        return run.notices()

    return circles


NUDGE = "This goes in circles: {}. Try something else."


@pytest.mark.parametrize(
    ("turns", "fails", "words"),
    [
        (["a"] * 20, False, "the same call with the same result, 3 times"),
        (["a", "b"] * 10, False, "two calls in turn, 3 times"),
        ([f"{n}" for n in range(20)], True, "4 errors in a row"),
    ],
    ids=["the same", "in turn", "errors"],
)
async def test_a_run_in_circles_is_nudged_once_and_then_held(
    driving: Open, turns: list[str], fails: bool, words: str
) -> None:
    stage = Stage("in-circles")
    circles = circling(stage, turns, fails)

    async with driving(circles) as control:
        run = await control.start(circles, "work", limits=Limits(repeats=2))
        state = await at_its_cap(control, run)
        assert await notices(control, run) == [NUDGE.format(words)]
        assert state.holds == {Cause.CAP}
        held_after = len(stage.begun)
        await control.raise_limits(run, Limits(repeats=2))
        with anyio.fail_after(10):
            await control.until(run, lambda state: bool(state.questions))
        assert len(stage.begun) == 2 * held_after, "after the hold it counts anew"
        await control.raise_limits(run, no_caps=True)
        await control.ended(run)


@pytest.mark.parametrize(
    "turns", [["new"] * 12, [*"abc"] * 4, ["a", "a", "b"] * 4], ids=["news", "three", "mixed"]
)
async def test_a_run_that_gets_on_is_left_alone(driving: Open, turns: list[str]) -> None:
    stage = Stage("circle-not")
    circles = circling(stage, turns)

    async with driving(circles) as control:
        run = await control.start(circles, "work", limits=Limits(repeats=2))
        assert await control.result(run) == []


async def test_large_results_that_differ_are_progress(driving: Open) -> None:
    pages = iter(range(100))

    @tool(effect="read", name="circle-large.look")
    async def look() -> str:
        return f"{next(pages)}" * 100_000

    @agent("circle-large")
    async def works(run: Run) -> list[str]:
        for _ in range(6):
            await run.step("Look", look)
        return run.notices()

    async with driving(works) as control:
        run = await control.start(works, "work", limits=Limits(repeats=2))
        assert await control.result(run) == []


async def test_a_nudge_given_before_a_crash_counts_after_it(driving: Open, crashing: Open) -> None:
    stage = Stage("circle-crash")
    circles = circling(stage, ["a", "a", "a", "slow", "a", "a", "a", "a", "a", "a"])
    stage.gate("slow")

    async with crashing(circles) as control:
        run = await control.start(circles, "work", limits=Limits(repeats=2))
        await stage.until_begun("slow")
        assert len(await notices(control, run)) == 1

    stage.gate("slow").set()
    async with driving(circles) as control:
        await at_its_cap(control, run)
        assert len(await notices(control, run)) == 1
        await control.raise_limits(run, no_caps=True)
        await control.ended(run)


async def test_a_run_reads_the_same_notices_at_replay(driving: Open, crashing: Open) -> None:
    stage = Stage("caps-notices")
    look = stage.reader()
    stage.gate("4")

    @agent("caps-notices")
    async def works(run: Run) -> list[int]:
        seen = []
        for number in range(5):
            seen.append(len(run.notices()))
            await run.step(f"Read, told {len(run.notices())}", look, f"{number}")
        return seen

    async with crashing(works) as control:
        run = await control.start(works, "work", limits=Limits(steps=5))
        await stage.until_begun("4")

    stage.gate("4").set()
    async with driving(works) as control:
        with anyio.fail_after(10):
            assert await control.result(run) == [0, 0, 0, 0, 0]
        assert len(await notices(control, run)) == 1


async def test_every_agent_that_goes_in_circles_is_told_and_then_held(driving: Open) -> None:
    stage = Stage("caps-by-default")
    circles = circling(stage, ["same"] * 200)

    async with driving(circles) as control:
        run = await control.start(circles, "work", limits=Limits(steps=500))
        state = await at_its_cap(control, run)
        assert len(stage.begun) == 2 * REPEATS + 2
        assert [text for text in await notices(control, run) if "goes in circles" in text]
        assert state.limits.repeats == REPEATS
        await control.cancel(run)
        await control.ended(run)


async def test_an_agent_that_is_to_repeat_itself_says_so(driving: Open) -> None:
    stage = Stage("caps-polls")
    look = stage.reader()

    @agent("caps-polls", limits=Limits(repeats=0))
    async def polls(run: Run) -> None:
        for _ in range(3 * REPEATS):
            await run.step("Look", look, "same")

    async with driving(polls) as control:
        run = await control.start(polls, "work")
        assert (await control.ended(run)).phase is Phase.DONE


# ── silence ──────────────────────────────────────────────────────────────────────────────────


STALL_S = 10.0


@pytest.mark.parametrize("effect", ["read", "once"])
@pytest.mark.slow
async def test_a_step_without_progress_is_shown_as_stalled_once(
    driving: Open, hours: Hours, effect: EffectName
) -> None:
    stage = Stage(f"stall-{effect}")
    stage.gate("silent")
    look = stage.reader().function
    slow = tool(effect=effect, name=f"stall.{effect}.silent", stall=STALL_S)(look)

    @agent("stalls")
    async def works(run: Run) -> None:
        await run.step("Slow", slow, "silent")

    async with driving(works) as control:
        run = await control.start(works, "work")
        await stage.until_begun("silent")
        hours.skip(STALL_S)
        await control.until(run, lambda state: bool(state.notices))
        hours.skip(2 * STALL_S)
        await anyio.sleep(0.1)
        stage.gate("silent").set()
        await control.ended(run)
        assert await notices(control, run) == ["Slow has shown no progress for 10 s"]


@pytest.mark.parametrize("effect", ["read", "once"])
@pytest.mark.slow
async def test_a_step_that_shows_progress_has_not_stalled(
    driving: Open, hours: Hours, effect: EffectName
) -> None:
    @tool(effect=effect, name=f"stall.{effect}.talkative", stall=STALL_S)
    async def talkative() -> None:
        for _ in range(10):
            hours.skip(STALL_S / 2)
            await anyio.sleep(0.01)
            emit("")

    @agent("progresses")
    async def works(run: Run) -> None:
        await run.step("Slow", talkative)

    async with driving(works) as control:
        run = await control.start(works, "work")
        assert (await control.ended(run)).phase is Phase.DONE
        assert await notices(control, run) == []


@pytest.mark.slow
async def test_the_next_attempt_may_stall_again(driving: Open) -> None:
    stage = Stage("stall-again")
    look = stage.reader()
    stage.gate("slow")
    slow = tool(effect="read", name="stall-again.slow", stall=0.1)(look.function)

    @agent("stalls-again")
    async def works(run: Run) -> None:
        await run.step("Slow", slow, "slow")

    async with driving(works) as control:
        run = await control.start(works, "work")
        await control.until(run, lambda state: len(state.notices) == 1)
        await control.applied(await control.pause(run))
        await control.resume(run)
        with anyio.fail_after(20):
            await control.until(run, lambda state: len(state.notices) == 2)
        stage.gate("slow").set()
        await control.ended(run)
