"""Redirect, questions, approval, holds, caps, failures."""

from __future__ import annotations

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.errors import InvalidTool, StepFailed
from midflight.journal.phases import Phase
from midflight.journal.record import Limits
from midflight.run import Redirected, Run
from midflight.tools.declaration import Done, NotDone, Unclear, tool
from midflight.tools.options import EffectRecord
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


async def the_question(control: Control, run: str) -> int:
    state = await control.until(run, lambda state: bool(state.questions))
    return next(iter(state.questions))


async def test_a_redirect_enters_the_function_again_and_keeps_what_was_done(driving: Open) -> None:
    stage = Stage("redirect-again")
    make, look = stage.writer(), stage.reader()
    stage.gate("all customers")

    @agent()
    async def clerk(run: Run) -> object:
        await run.step("Make list", make, "list")
        return await run.step("Read", look, run.brief)

    async with driving(clerk) as control:
        run = await control.start(clerk, "all customers")
        await stage.until_begun("all customers")
        accepted = await control.redirect(run, "EU customers")

        assert await control.result(run) == "EU CUSTOMERS"
        assert (await control.applied(accepted)).status == "applied"
        assert stage.done == ["list", "EU customers"]


async def test_a_function_may_catch_it_and_go_on_by_itself(driving: Open) -> None:
    stage = Stage("redirect-caught")
    look = stage.reader()
    stage.gate("a")

    @agent()
    async def clerk(run: Run) -> object:
        try:
            return await run.step("Read", look, "a")
        except Redirected as redirected:
            return await run.step("Read", look, redirected.brief)

    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("a")
        await control.redirect(run, "b")

        assert await control.result(run) == "B"


async def test_a_redirect_of_a_paused_run_is_used_when_it_resumes(driving: Open) -> None:
    stage = Stage("redirect-paused")
    look = stage.reader()
    stage.gate("a")

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Read", look, run.brief)

    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("a")
        await control.applied(await control.pause(run))
        await control.redirect(run, "b")
        assert (await control.state(run)).phase is Phase.PAUSED
        await control.resume(run)

        assert await control.result(run) == "B"


async def test_an_irreversible_step_is_done_once_a_person_has_approved_it(driving: Open) -> None:
    stage = Stage("approve")
    send = stage.writer(irreversible=True, undo=None)

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Send", send, "letter")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await the_question(control, run)
        await control.until(run, lambda state: state.phase is Phase.WAITING)
        assert stage.begun == []
        await control.answer(run, question, "approve")

        assert await control.result(run) == "made letter"
        (line,) = (await control.receipt(run)).lines
        assert line.text == "thing: final (irreversible)"


async def test_a_rejected_step_fails_and_the_run_with_it(driving: Open) -> None:
    stage = Stage("reject")
    send = stage.writer(irreversible=True, undo=None)

    @agent()
    async def clerk(run: Run) -> str:
        try:
            await run.step("Send", send, "letter")
        except StepFailed as failed:
            return failed.error
        return "sent"

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.answer(run, await the_question(control, run), "reject")

        assert await control.result(run) == "rejected by library"
        assert stage.begun == []


async def test_a_cancel_within_the_hold_still_wins(driving: Open) -> None:
    stage = Stage("hold")
    send = stage.writer(irreversible=True, undo=None, approval=False, undo_window=30.0)

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Send", send, "letter")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.until(run, lambda state: bool(state.windows))
        await control.cancel(run)

        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert (stage.begun, (await control.receipt(run)).lines) == ([], ())


async def test_at_the_cap_the_run_holds_and_asks_and_goes_on_when_it_is_raised(
    driving: Open,
) -> None:
    stage = Stage("cap")
    look = stage.reader()

    @agent(limits=Limits(steps=2))
    async def reader(run: Run) -> list[str]:
        return [await run.step(f"Read {what}", look, what) for what in "abcd"]

    async with driving(reader) as control:
        run = await control.start(reader, "read")
        state = await control.until(run, lambda state: state.phase is Phase.PAUSED)
        assert stage.done == ["a", "b"]
        (question,) = state.questions.values()
        assert question.message == "steps: the cap of 2 is reached. Raise it to go on."
        await control.raise_limits(run, Limits(steps=10))

        assert await control.result(run) == ["A", "B", "C", "D"]


async def test_an_exception_of_a_once_tool_is_asked_about_and_never_guessed(driving: Open) -> None:
    tries: list[str] = []

    @tool(effect="once", name="doubt.pay", label="payment")
    async def pay(idempotency_key: str = "") -> str:
        tries.append(idempotency_key)
        if len(tries) == 1:
            raise ConnectionError("reset by peer")
        return "paid"

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Pay", pay)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await the_question(control, run)
        assert len(tries) == 1
        await control.answer(run, question, "again")

        assert await control.result(run) == "paid"
        assert tries == [tries[0]] * 2, "a repeat keeps its key"


@pytest.mark.parametrize(
    ("says", "result", "times"),
    [(Done("paid, says the bank"), "paid, says the bank", 1), (NotDone(), "paid", 2)],
)
async def test_a_check_answers_before_a_person_is_asked(
    driving: Open, says: object, result: str, times: int
) -> None:
    tries: list[str] = []

    async def ask_the_bank(_: EffectRecord) -> object:
        return says

    async def pay() -> str:
        tries.append("pay")
        if len(tries) == 1:
            raise ConnectionError("reset by peer")
        return "paid"

    name = f"check.pay-{times}"
    paying = tool(
        effect="once", name=name, label="payment", check=ask_the_bank, retry=1, settles_within=0
    )(pay)

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Pay", paying)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")

        assert await control.result(run) == result
        assert len(tries) == times


async def test_an_unclear_check_asks_the_person(driving: Open) -> None:
    async def ask_the_bank(_: EffectRecord) -> object:
        return Unclear("the bank is closed")

    @tool(effect="once", name="unclear.pay", label="payment", check=ask_the_bank)
    async def pay() -> str:
        raise ConnectionError("reset by peer")

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Pay", pay)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await the_question(control, run)
        message = (await control.state(run)).questions[question].message
        assert message == (
            "It is not known whether this happened: payment. "
            "ConnectionError: reset by peer. The bank is closed"
        )
        await control.answer(run, question, "fail")

        assert (await control.ended(run)).phase is Phase.FAILED


async def test_steps_in_parallel_all_hear_of_a_pause(driving: Open) -> None:
    stage = Stage("parallel")
    look = stage.reader()
    for what in "abc":
        stage.gate(what)

    @agent()
    async def reader(run: Run) -> list[str]:
        found: dict[str, str] = {}

        async def read(what: str) -> None:
            found[what] = await run.step(f"Read {what}", look, what)

        async with anyio.create_task_group() as group:
            for what in "abc":
                group.start_soon(read, what)
        return [found[what] for what in "abc"]

    async with driving(reader) as control:
        run = await control.start(reader, "read")
        for what in "abc":
            await stage.until_begun(what)
        await control.applied(await control.pause(run))
        assert stage.done == []
        for what in "abc":
            stage.gate(what).set()
        await control.resume(run)

        assert await control.result(run) == ["A", "B", "C"]


async def test_a_result_that_cannot_be_stored_names_the_place(driving: Open) -> None:
    @tool(effect="read", name="steer.plain-look")
    async def look() -> object:
        return {"rows": [1, object()]}

    @agent()
    async def reader(run: Run) -> object:
        try:
            return await run.step("Read", look)
        except StepFailed as failed:
            return str(failed)

    async with driving(reader) as control:
        run = await control.start(reader, "read")

        assert "its result['rows'][1] is of type object" in await control.result(run)


def test_a_retry_of_once_without_a_check_is_refused_where_it_is_declared() -> None:
    with pytest.raises(InvalidTool, match="a retry could do it twice"):

        @tool(effect="once", retry=3)
        async def pay() -> None: ...


async def test_a_redirect_while_waiting_withdraws_the_question_and_is_told(driving: Open) -> None:
    @agent()
    async def asker(run: Run) -> list[object]:
        return [run.brief, (await run.ask("Which?")).payload]

    async with driving(asker) as control:
        run = await control.start(asker, "all")
        first = await the_question(control, run)
        await control.until(run, lambda state: state.phase is Phase.WAITING)
        await control.redirect(run, "some")
        state = await control.until(run, lambda s: bool(s.questions) and first not in s.questions)
        await control.answer(run, next(iter(state.questions)), "this")

        assert await control.result(run) == ["some", "this"]


async def test_a_redirect_while_waiting_can_be_caught_and_is_told_again_after_a_crash(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("ask-caught")
    make, look = stage.writer(), stage.reader()
    stage.gate("wait")

    @agent()
    async def asker(run: Run) -> list[object]:
        try:
            return [(await run.ask("Which?")).payload]
        except Redirected as redirected:
            made = await run.step("Make", make, redirected.brief)
            return [made, await run.step("Read", look, "wait")]

    async with crashing(asker) as control:
        run = await control.start(asker, "all")
        await control.until(run, lambda state: state.phase is Phase.WAITING)
        await control.redirect(run, "some")
        await stage.until_begun("wait")

    stage.gate("wait").set()
    async with driving(asker) as control:
        with anyio.fail_after(5):
            assert await control.result(run) == ["made some", "WAIT"]


async def test_a_redirect_during_the_last_step_is_not_lost(driving: Open) -> None:
    stage = Stage("redirect-last")
    make = stage.writer()
    stage.gate("all")

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step(f"Make {run.brief}", make, run.brief)

    async with driving(clerk) as control:
        run = await control.start(clerk, "all")
        await stage.until_begun("all")
        accepted = await control.redirect(run, "some")
        stage.gate("all").set()

        assert await control.result(run) == "made some"
        assert (await control.applied(accepted)).status == "applied"
