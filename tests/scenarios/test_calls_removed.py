"""A call that is on record and that the new code does not make: the run stops, and asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase
from midflight.journal.state import RunState
from midflight.run import Run
from midflight.tools.declaration import tool
from scenarios.conftest import Open
from scenarios.rests import asked, events_of
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midflight.runtime.driver.REPLAY_S", 0.05)


@agent(name="helper")
async def helper(run: Run) -> str:
    return run.brief


async def asks(run: Run) -> object:
    return (await run.ask("Really?")).payload


async def approves(run: Run) -> object:
    return (await run.approve("Shall I?")).approved


async def hands_over(run: Run) -> object:
    return (await run.hand_over("Please look")).payload


async def says(run: Run) -> None:
    await run.say("Hello")


async def spawns(run: Run) -> None:
    await run.spawn(helper, "help")


async def reads_messages(run: Run) -> None:
    while not await run.inbox():  # noqa: ASYNC110 - as an agent does
        await anyio.sleep(0.01)


CALLS = [
    pytest.param(asks, "the question 'Really?'", id="ask"),
    pytest.param(approves, "the question 'Shall I?'", id="approve"),
    pytest.param(hands_over, "the question 'Please look'", id="hand_over"),
    pytest.param(says, "something said", id="say"),
    pytest.param(spawns, "background run: help", id="spawn"),
    pytest.param(reads_messages, "messages read", id="inbox"),
]


def version(stage: Stage, call: Callable[[Run], Awaitable[object]] | None) -> Agent:
    """Makes the call, if there is one, and then acts."""
    make, look = stage.checked(), stage.reader()

    async def clerk(run: Run) -> object:
        if call is not None:
            await call(run)
            return await run.step("Read", look, "slow")
        return await run.step("Delete", make, "all")

    return Agent("clerk", clerk)


async def serve(control: Control, run: str, call: Any) -> None:
    """What a person does for the call to end."""
    if call in {asks, approves}:
        payload = "yes" if call is asks else "approve"
        await control.answer(run, (await asked(control, run)).position, payload)
    if call is reads_messages:
        await control.send((await control.state(run)).thread, "Be quick")
    if call is hands_over:
        await asked(control, run)
        await control.hand_back(run)


def held(state: RunState) -> bool:
    return Cause.STALE in state.holds and state.phase is Phase.PAUSED


@pytest.mark.parametrize(("call", "expected"), CALLS)
async def test_a_call_on_record_that_is_gone_from_the_code_is_asked_about(
    driving: Open, crashing: Open, call: Any, expected: str
) -> None:
    stage = Stage(f"removed-{expected}")
    stage.gate("slow")
    async with crashing(version(stage, call), helper) as control:
        run = await control.start("clerk", "work")
        await serve(control, run, call)
        await stage.until_begun("slow")

    async with driving(version(stage, None), helper) as control:
        with anyio.fail_after(5):
            state = await control.until(run, held)
        (question,) = state.questions.values()
        assert question.message == (
            f"The agent's code has changed: expected {expected}, found Delete. What now?"
        )
        assert stage.done == []
        await control.answer(run, question.position, "go on")
        assert await control.result(run) == "made all"
        assert len(await events_of(control, run, e.HoldPlaced)) == 1 + (call is hands_over)


async def test_a_question_that_is_still_open_is_asked_about_and_then_withdrawn(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("removed-open")
    async with crashing(version(stage, asks)) as control:
        run = await control.start("clerk", "work")
        first = await asked(control, run)
        await control.until(run, lambda state: state.phase is Phase.WAITING)
        await control.pause(run)
        await control.resume(run)

    async with driving(version(stage, None)) as control:
        with anyio.fail_after(5):
            state = await control.until(run, held)
        (stale,) = [one for one in state.questions.values() if one.kind == "stale"]
        assert "expected the question 'Really?', found Delete" in stale.message
        assert stage.done == []
        await control.answer(run, stale.position, "go on")
        assert await control.result(run) == "made all"
        (closed,) = await events_of(control, run, e.QuestionClosed)
        assert (closed.question, closed.why) == (first.position, "withdrawn: not asked any more")


@pytest.mark.parametrize("call", [asks, approves, says, spawns])
async def test_the_same_calls_in_the_same_code_are_no_change(
    driving: Open, crashing: Open, call: Any
) -> None:
    stage = Stage(f"removed-not-{call.__name__}")
    stage.gate("slow")
    clerk = version(stage, call)
    async with crashing(clerk, helper) as control:
        run = await control.start("clerk", "work")
        await serve(control, run, call)
        await stage.until_begun("slow")
    stage.gate("slow").set()
    async with driving(clerk, helper) as control:
        assert await control.result(run) == "SLOW"
        assert await events_of(control, run, e.HoldPlaced) == []


# ── an argument that changes at every call ───────────────────────────────────────────────────


async def come_back(
    driving: Open, crashing: Open, body: Callable[[Run, Stage, int], Awaitable[object]], name: str
) -> str:
    """Enter the same code twice, with a crash between; gives the words of the stale question."""
    stage, entered = Stage(name), [0]
    stage.gate("slow")

    async def clerk(run: Run) -> object:
        entered[0] += 1
        return await body(run, stage, entered[0])

    async with crashing(Agent("clerk", clerk)) as control:
        run = await control.start("clerk", "work")
        await stage.until_begun("slow")
    stage.gate("slow").set()
    async with driving(Agent("clerk", clerk)) as control:
        with anyio.fail_after(5):
            state = await control.until(run, held)
        (question,) = state.questions.values()
        return question.message


HINT = "Take it from run.now(), run.random() or run.uuid()"


async def test_an_argument_that_is_another_one_each_time_is_named_with_both_values(
    driving: Open, crashing: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_1", "first-secret")
    monkeypatch.setenv("TOKEN_2", "second-secret")

    @tool(effect="once", name="changing.send", label="mail")
    async def send(to: str, at: float, body: str, token: object = None) -> str:
        return "sent"

    from midflight.tools.secret import Secret

    async def body(run: Run, stage: Stage, entry: int) -> object:
        long = "word " * 1000 + f"{entry}"
        await run.step(
            "Mail", send, "ada", 1000.5 + entry, body=long, token=Secret(f"TOKEN_{entry}")
        )
        return await run.step("Read", stage.reader(), "slow")

    words = await come_back(driving, crashing, body, "changing-time")
    assert words.startswith(
        "Step Mail has other arguments than before: at was 1001.5, is now 1002.5; body was word"
    )
    assert "code has changed" not in words
    assert "A value that differs at every call, such as the time, makes it a different step." in (
        words
    )
    assert f"{HINT}, or give the step a key=" in words
    assert "differs further on" in words
    assert "token was •••, is now •••" in words
    assert words.endswith("Already done: mail ada. The code may repeat it. What now?")
    assert "secret" not in words
    assert len(words) < 1_200


async def test_of_a_read_whose_arguments_are_not_kept_it_says_so_much(
    driving: Open, crashing: Open
) -> None:
    async def body(run: Run, stage: Stage, entry: int) -> object:
        await run.step("Look", stage.reader(), f"at {entry}")
        return await run.step("Read", stage.reader(), "slow")

    words = await come_back(driving, crashing, body, "changing-read")
    assert words.startswith("Step Look has other arguments than before. A value that differs")
    assert HINT in words


async def test_words_that_change_each_time_are_hinted_at_too(driving: Open, crashing: Open) -> None:
    async def body(run: Run, stage: Stage, entry: int) -> object:
        await run.say(f"This is time {entry}")
        return await run.step("Read", stage.reader(), "slow")

    words = await come_back(driving, crashing, body, "changing-say")
    assert HINT in words
