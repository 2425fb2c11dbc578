"""Slips of the first day: each is refused at once, in words that say what to write instead.

Nothing of it may cost a journal, hang a run or pass for a result.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control, local
from midflight.errors import (
    InvalidRequest,
    InvalidTool,
    NoResult,
    StepFailed,
    StoreUnavailable,
)
from midflight.journal.phases import Effect, Phase, Role
from midflight.journal.record import Actor, Limits
from midflight.run import Run
from midflight.stores.codec import BLOB_MAX
from midflight.tools.declaration import REGISTRY, NotDone, tool
from midflight.tools.options import Approval, EffectName, Retry
from scenarios.conftest import Open

pytestmark = pytest.mark.anyio


@tool(effect="read", name="slips.look")
async def look(what: str) -> str:
    return what.upper()


@tool(effect="once", name="slips.pay", label="payment")
async def pay(amount: int) -> int:
    return amount


@agent("slips.asker")
async def asker(run: Run) -> object:
    return (await run.ask("Which?")).payload


# ── what is declared ─────────────────────────────────────────────────────────────────────────


def test_decorators_need_no_brackets() -> None:
    @agent
    async def bare_agent(run: Run) -> int:
        return 1

    @tool
    async def bare_tool(number: int) -> int:
        return number

    assert bare_agent == Agent("bare_agent", bare_agent.function, limits=bare_agent.limits)
    assert bare_agent.limits == agent("named")(bare_agent.function).limits
    assert bare_tool.effect is Effect.ONCE
    assert REGISTRY[bare_tool.name] is bare_tool


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"effect": "reed"}, "effect= has to be one of read, model, write, once"),
        ({"efect": "read"}, "@tool has no option efect="),
        ({"undo": "remove"}, "undo= has to be a function"),
        ({"undo_window": "5"}, "undo_window= has to be a number"),
        ({"timeout": True}, "timeout= has to be a number"),
        ({"timeout": float("nan")}, "timeout= has to be a number"),
        ({"undo_window": float("inf")}, "undo_window= has to be a number"),
        ({"label": "caf\ud800"}, "label= has to be text that can be stored"),
        ({"approval": Approval(within="soon")}, "approval= has to be True, False, a rule or an"),  # type: ignore[arg-type]
        ({"effect": "read", "retry": Retry(None)}, "retry= has to be a number or a Retry"),  # type: ignore[arg-type]
    ],
)
def test_an_option_that_cannot_be_meant_is_named(options: Any, why: str) -> None:
    with pytest.raises(InvalidTool, match=why):
        tool(name="slips.bad", **options)(print)


@dataclass
class Adder:
    """Can be called, and cannot be the key of a dict, as most dataclasses."""

    by: int

    async def __call__(self, number: int) -> int:
        return number + self.by


async def test_what_can_be_called_but_is_no_key_of_a_dict_is_a_step_like_any_other(
    driving: Open,
) -> None:
    @agent("slips.adder")
    async def adding(run: Run) -> int:
        declared = tool(effect="read", name="slips.add")(Adder(1))
        return await run.step("Add", Adder(10), 100) + await run.step("Add more", declared, 0)

    async with driving(adding) as control:
        assert await control.result(await control.start(adding, "add")) == 111


def test_caps_that_are_no_caps_are_refused_where_the_agent_is_declared() -> None:
    for limits in ({"steps": 3}, Limits(steps="ten"), Limits(steps=-1), Limits(usd=True)):  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match=r"Limits|is not a (whole )?number of zero"):
            agent(limits=limits)  # type: ignore[arg-type]


async def test_what_is_no_agent_and_two_of_one_name_are_refused_before_a_store_is_opened() -> None:
    async def plain(run: Run) -> None: ...

    namesake = agent("slips.asker")(plain)
    for agents, why in (((plain,), r"decorate its function"), ((asker, namesake), "two agents")):
        with pytest.raises(InvalidRequest, match=why):
            async with local("nowhere/at/all.db", *agents):
                pass
    with pytest.raises(StoreUnavailable, match="no address of a store"):
        async with local("", asker):
            pass


# ── what is asked for ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "wrong",
    [
        {"brief": 5},
        {"agent": None},
        {"title": 5},
        {"key": 5},
        {"thread": "abc"},
        {"limits": {"steps": 1}},
        {"limits": Limits(steps="ten")},  # type: ignore[arg-type]
    ],
    ids=str,
)
async def test_a_run_whose_record_nobody_could_read_is_not_started(
    driving: Open, wrong: dict[str, Any]
) -> None:
    async with driving(asker) as control:
        with pytest.raises(InvalidRequest, match=r"othing was|not the id of a thread|not an agent"):
            asked: dict[str, Any] = {"agent": asker, "brief": "work"} | wrong
            await control.start(**asked)
        assert await control.runs() == []


async def test_a_press_that_nobody_could_read_again_is_refused_and_the_run_unharmed(
    driving: Open,
) -> None:
    number: Any = 5
    async with driving(asker) as control:
        run = await control.start(asker, "work")
        state = await control.until(run, lambda state: bool(state.questions))
        for press in (
            control.pause(run, key=number),
            control.redirect(run, "elsewhere", profile=number),
            control.redirect(run, number),
            control.send(state.thread, number),
            control.cancel(run, key=number),
        ):
            with pytest.raises(InvalidRequest, match=r"Expected `str`, got `int`.*Nothing was"):
                await press
        with pytest.raises(InvalidRequest, match=r"surrogates not allowed.*Nothing was"):
            await control.redirect(run, "\ud800")
        nothing: Any = object()
        with pytest.raises(InvalidRequest, match=r"unsupported.*Nothing was"):
            await control.redirect(run, nothing)
        for other in (b"stop", date(2026, 11, 17), Decimal("1.5")):
            spoken: Any = other
            with pytest.raises(InvalidRequest, match=r"text= is \w+ and no text.*Nothing was"):
                await control.send(state.thread, spoken)
        with pytest.raises(InvalidRequest, match=r"must be a text, .*Nothing was stopped"):
            await control.kill("all", who=Actor("olga", role=Role.OPERATOR), reason=number)
        await control.answer(run, next(iter(state.questions)), "fine")
        assert await control.result(run) == "fine"


async def test_a_name_alone_is_nobody_with_any_right(driving: Open) -> None:
    name: Any = "ann"
    async with driving(asker) as control:
        run = await control.start(asker, "work")
        state = await control.until(run, lambda state: bool(state.questions))
        for press in (
            control.pause(run, who=name),
            control.send(state.thread, "hello", who=name),
            control.start(asker, "more", who=name),
            control.kill("all", who=name),
        ):
            with pytest.raises(InvalidRequest, match=r"who= must be an Actor, .* not 'ann'"):
                await press
        assert not (await control.state(run)).holds
        assert not [line for line in await control.transcript(state.thread) if line.text]
        assert await control.switches() == []


async def test_what_a_function_says_in_other_than_words_is_its_own_error(driving: Open) -> None:
    number: Any = 5

    @agent("slips.sayer")
    async def clerk(run: Run) -> str:
        with pytest.raises(InvalidRequest, match=r"run\.plan takes a text as a step, not int"):
            await run.plan("Look", number)
        return await run.step("Look", look, "well")

    async with driving(clerk) as control:
        assert await control.result(await control.start(clerk, "work")) == "WELL"


# ── what is done ─────────────────────────────────────────────────────────────────────────────


async def failure(control: Control, clerk: Any) -> str:
    run = await control.start(clerk, "work")
    with pytest.raises(NoResult) as ended:
        await control.result(run)
    state = await control.state(run)
    assert (ended.value.phase, state.phase) == (Phase.FAILED, Phase.FAILED)
    assert list(state.effects) == []  # nothing has begun, so nobody is asked whether it happened
    return str(ended.value)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("Look", "look", "x"), "'look' is not a function"),
        ((look, "x"), "takes a name first"),
        (("Look", look, "x"), "await run.step('Look', look, …)"),
    ],
)
async def test_a_step_that_is_asked_for_wrongly_does_not_begin(
    driving: Open, given: tuple[Any, ...], why: str
) -> None:
    @agent("slips.stepper")
    async def clerk(run: Run) -> object:
        if given[1] is look:
            return await run.step("Look", look("x"))  # the slip itself
        return await run.step(*given)

    async with driving(clerk) as control:
        assert why in await failure(control, clerk)


async def test_arguments_that_do_not_fit_are_no_effect_in_doubt(driving: Open) -> None:
    @agent("slips.payer")
    async def clerk(run: Run) -> str:
        with pytest.raises(StepFailed, match="missing 1 required positional argument"):
            await run.step("Pay", pay)  # type: ignore[call-overload]
        return "went on"

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        assert await control.result(run) == "went on"
        (line,) = (await control.receipt(run)).lines
        assert line.text == "payment: aborted (proven)"


async def test_a_type_error_from_within_an_effect_still_leaves_it_in_doubt(driving: Open) -> None:
    @tool(effect="once", name="slips.halfway", label="payment")
    async def halfway(amount: int) -> int:
        return int(await pay(amount, "twice"))  # type: ignore[call-arg]

    @agent("slips.halfway")
    async def clerk(run: Run) -> object:
        return await run.step("Pay", halfway, 80)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        state = await control.until(run, lambda state: bool(state.questions))
        (question,) = state.questions.values()
        assert question.kind == "doubt"
        assert "TypeError: pay() takes 1 positional argument but 2 were given" in question.message


async def test_a_function_that_is_not_async_fails_and_says_so(driving: Open) -> None:
    def function(run: Run) -> int:
        return 1

    clerk = agent("slips.sync")(function)  # type: ignore[arg-type]
    async with driving(clerk) as control:
        assert "has to be an async def" in await failure(control, clerk)


@pytest.mark.parametrize("effect", ["read", "once"])
async def test_a_result_larger_than_a_journal_takes_fails_its_step_alone(
    driving: Open, effect: EffectName
) -> None:
    @tool(effect=effect, name=f"slips.large.{effect}", label="thing")
    async def make() -> str:
        return "x" * BLOB_MAX

    @agent("slips.large")
    async def clerk(run: Run) -> str:
        with pytest.raises(StepFailed, match="Save it to a file or a table"):
            await run.step("Make", make)
        return "went on"

    async with driving(clerk) as control:
        assert await control.result(await control.start(clerk, "work")) == "went on"


@pytest.mark.parametrize(
    ("end", "says"),
    [("returns", "the limit is 16,777,216"), ("raises", "x … (16,757,216 characters more)")],
)
async def test_a_run_that_ends_with_more_than_a_journal_takes_has_failed_in_words(
    driving: Open, end: str, says: str
) -> None:
    @agent("slips.large.end")
    async def clerk(run: Run) -> str:
        if end == "raises":
            raise ValueError("x" * BLOB_MAX)
        return "x" * BLOB_MAX

    async with driving(clerk) as control:
        said = await failure(control, clerk)
        assert says in said
        assert len(said) < 100_000


# ── how it is heard of ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("end", "says"),
    [("fail", "has failed and has no result: ValueError: my bug"), ("cancel", "was cancelled")],
)
async def test_who_waits_for_a_result_that_never_comes_is_told(
    driving: Open, end: str, says: str
) -> None:
    @agent("slips.ends")
    async def clerk(run: Run) -> None:
        await run.ask("Go on?")
        raise ValueError("my bug")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        state = await control.until(run, lambda state: bool(state.questions))
        if end == "cancel":
            await control.cancel(run)
        else:
            await control.answer(run, next(iter(state.questions)), "yes")
        with pytest.raises(NoResult, match=says):
            await control.result(run)


async def test_a_killed_run_has_no_result(driving: Open) -> None:
    @tool(effect="read", name="slips.forever")
    async def forever() -> None:
        await anyio.sleep_forever()

    @agent("slips.killed")
    async def clerk(run: Run) -> None:
        await run.step("Look", forever)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.until(run, lambda state: state.phase is Phase.RUNNING)
        await control.kill("all", who=Actor("olga", Role.OPERATOR))
        with pytest.raises(NoResult, match="was killed and has no result"):
            await control.result(run)


async def test_the_log_shows_where_a_function_and_its_tool_have_failed(
    driving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(effect="read", name="slips.boom")
    async def boom() -> None:
        raise ValueError("deep inside")

    @agent("slips.failing")
    async def clerk(run: Run) -> None:
        await run.step("Look", boom)

    async with driving(clerk) as control:
        with pytest.raises(NoResult, match="ValueError: deep inside"):
            await control.result(await control.start(clerk, "work"))
    (record,) = [one for one in caplog.records if getattr(one, "action", "") == "agent_failed"]
    shown = logging.Formatter().format(record)
    assert "in clerk" in shown  # the line of the agent
    assert "in boom" in shown  # and that of the tool
    assert "in _call" not in shown  # and not how we came there


async def test_a_function_that_fails_because_its_run_is_cancelled_is_no_failure_in_the_log(
    driving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(effect="once", name="slips.careful")
    async def careful() -> None:
        try:
            await anyio.sleep(60)
        except asyncio.CancelledError:
            raise NotDone from None

    @agent("slips.cancelled")
    async def clerk(run: Run) -> None:
        await run.step("Work", careful)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.until(run, lambda state: bool(state.open))
        await control.cancel(run)
        assert (await control.ended(run)).phase == "cancelled"
    assert [one for one in caplog.records if getattr(one, "action", "") == "agent_failed"] == []


async def test_a_run_that_is_stopped_is_no_failure_in_the_log(
    driving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    async with driving(asker) as control:
        run = await control.start(asker, "work")
        await control.until(run, lambda state: bool(state.questions))
        await control.cancel(run)
        await control.ended(run)
    assert [one for one in caplog.records if getattr(one, "action", "") == "agent_failed"] == []


async def test_whoever_waits_for_an_agent_that_was_not_named_reads_which_one(
    driving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    @agent("slips.unnamed")
    async def clerk(run: Run) -> None: ...

    async with driving(asker) as control:
        run = await control.start(clerk, "work")
        with anyio.fail_after(10):
            while not caplog.messages:  # noqa: ASYNC110 - a log has no event
                await anyio.sleep(0.01)
        assert (await control.state(run)).phase is Phase.QUEUED
    (told,) = caplog.messages
    assert told.startswith("Agent slips.unnamed is not among those that were named here")
