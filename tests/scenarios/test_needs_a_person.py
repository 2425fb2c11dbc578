"""An effect raises, and a person is asked: who waits for it and who reads the log learn of it."""

from __future__ import annotations

import logging

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.errors import InvalidRequest, NeedsPerson, NoResult
from midflight.run import Run
from midflight.tools.declaration import tool
from midflight.tools.secret import Secret
from remote.doors import DOORS, through
from scenarios.conftest import Open

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def payer() -> Agent:
    @tool(effect="once", name="needs.pay", label="payment")
    async def pay() -> None:
        raise ConnectionError(f"reset, with {Secret('PAY_TOKEN').reveal()}")

    @agent("needs.payer")
    async def clerk(run: Run) -> str:
        await run.step("Pay", pay)
        return "paid"

    return clerk


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAY_TOKEN", "swordfish-77")


@pytest.mark.parametrize("door", DOORS)
async def test_who_waits_for_a_result_may_learn_at_once_that_a_person_is_asked(
    driving: Open, door: str
) -> None:
    clerk = payer()
    async with driving(clerk) as driver, through(door, driver, clerk) as control:
        run = await control.start("needs.payer", "work")
        with anyio.fail_after(10), pytest.raises(NeedsPerson) as asked:
            await control.result(run, on_question="raise")
        told = asked.value
        assert (told.run, told.kind) == (run, "doubt")
        assert "It is not known whether this happened: payment" in told.message
        assert "Answer question" in str(told)
        await control.answer(run, told.question, "happened")
        assert await control.result(run, on_question="raise") == "paid"
        with pytest.raises(
            InvalidRequest, match="on_question= must be 'wait' or 'raise', not 'shout'"
        ):
            await control.result(run, on_question="shout")


@pytest.mark.parametrize("door", DOORS)
async def test_who_waits_for_a_run_learns_of_the_question_of_a_run_below_it(
    driving: Open, door: str
) -> None:
    clerk = payer()

    @agent("needs.middle")
    async def middle(run: Run) -> object:
        return await (await run.spawn(clerk, "pay")).result()

    @agent("needs.top")
    async def top(run: Run) -> object:
        return await (await run.spawn(middle, "see to it")).result()

    agents = (top, middle, clerk)
    async with driving(*agents) as driver, through(door, driver, *agents) as control:
        run = await control.start("needs.top", "work")
        with anyio.fail_after(10), pytest.raises(NeedsPerson) as asked:
            await control.result(run, on_question="raise")
        told = asked.value
        (below,) = [row.journal for row in await control.runs() if row.agent == "needs.payer"]
        assert (told.run, told.kind) == (below, "doubt")
        assert f"run {below} waits for a person to answer" in str(told)
        await control.answer(told.run, told.question, "happened")
        with anyio.fail_after(10):
            assert await control.result(run, on_question="raise") == "paid"


async def test_a_run_that_fails_gives_no_result_also_to_who_waits_without_a_person(
    driving: Open,
) -> None:
    @agent("needs.failing")
    async def clerk(run: Run) -> None:
        raise ValueError("my bug")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        with pytest.raises(NoResult, match="my bug"):
            await control.result(run, on_question="raise")


async def test_who_waits_without_a_word_waits_until_somebody_has_answered(driving: Open) -> None:
    clerk = payer()
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        state = await control.until(run, lambda state: bool(state.questions))
        with pytest.raises(TimeoutError), anyio.fail_after(0.3):
            await control.result(run)
        await control.answer(run, next(iter(state.questions)), "happened")
        assert await control.result(run) == "paid"


async def test_the_log_shows_where_an_effect_has_raised_and_that_a_person_is_asked(
    driving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    clerk = payer()
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.until(run, lambda state: bool(state.questions))
    told = {getattr(one, "action", ""): one for one in caplog.records}
    where, asked = told["tool_raised"], told["person_asked"]
    for record in (where, asked):
        assert record.__dict__["run"] == run
        assert (record.__dict__["step"], record.__dict__["tool"]) == ("Pay", "needs.pay")
    shown = logging.Formatter().format(where)
    assert "in pay" in shown
    assert "ConnectionError: reset, with •••" in shown
    assert "swordfish" not in shown + asked.getMessage()
    assert "waits for a person to answer: It is not known" in asked.getMessage()


async def test_no_secret_is_in_the_log_of_an_agent_that_failed(
    driving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    @agent("needs.careless")
    async def clerk(run: Run) -> None:
        raise ValueError(Secret("PAY_TOKEN").reveal())

    async with driving(clerk) as control:
        with pytest.raises(NoResult):
            await control.result(await control.start(clerk, "work"))
    (record,) = [one for one in caplog.records if getattr(one, "action", "") == "agent_failed"]
    assert "ValueError: •••" in logging.Formatter().format(record)
    assert "swordfish" not in logging.Formatter().format(record)
