"""An approval is bound to what it is about; and the window in which a cancel still wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from midflight.agents import agent
from midflight.errors import InvalidRequest, InvalidTool
from midflight.guards import FileContent
from midflight.journal import events as e
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.run import Redirected, Run, Step
from midflight.tools.declaration import Done, tool
from midflight.tools.options import EffectRecord
from scenarios.conftest import Open
from scenarios.hours import Hours
from scenarios.rests import asked, events_of, held_back, impatient, let_go, sender, times_asked
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio

ANN, BOB = Actor("ann"), Actor("bob")
LONG_S = 10.0  # no machine dawdles for so long
OLGA, VERA = Actor("olga", Role.OPERATOR), Actor("vera", Role.VIEWER)


# ── bound to what it is about ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("approved_before", [False, True])
@pytest.mark.parametrize("changes", ["rule", "arguments", "keyed arguments", "undo"])
async def test_another_rule_or_other_arguments_are_asked_about_anew(
    driving: Open, crashing: Open, changes: str, approved_before: bool
) -> None:
    stage = Stage(f"approval-{changes}")
    key = "the letter" if changes == "keyed arguments" else ""
    send = {"now": stage.writer(approval="rule v1", undo_window=30.0)}
    args = ["letter"]

    @agent(name=stage.name)
    async def clerk(run: Run) -> object:
        return await run.step(Step("Send", key=key), send["now"], args[0])

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        first = await asked(control, run)
        assert first.message == "May this be done: thing? rule v1"
        if approved_before:
            await control.answer(run, first.position, "approve")
            await control.until(run, lambda state: bool(state.windows))
        else:
            await control.until(run, lambda state: state.phase is Phase.WAITING)
            await control.pause(run)
    rule = "rule v2" if changes == "rule" else "rule v1"
    undo: dict[str, Any] = {"undo": None} if changes == "undo" else {}
    send["now"] = stage.writer(
        approval=rule, undo_window=0.05 if changes == "rule" else 30.0, **undo
    )
    if "arguments" in changes:
        args[0] = "parcel"
    async with driving(clerk) as control:
        if not approved_before:
            await control.resume(run)
        second = await asked(control, run, after=first.position)
        assert second.message == f"May this be done: thing? {rule}"
        await control.until(run, lambda state: list(state.questions) == [second.position])
        assert stage.begun == []
        if not approved_before:
            with pytest.raises(InvalidRequest):
                await control.answer(run, first.position, "approve")
            (closed,) = await events_of(control, run, e.QuestionClosed)
            other_step = changes == "arguments"
            assert closed.why == (
                "withdrawn: not asked any more" if other_step else "what it asked about has changed"
            )
        if changes == "rule":
            await control.answer(run, second.position, "approve")
            assert await control.result(run) == "made letter"
        else:
            await control.cancel(run)
            await control.ended(run)
            assert stage.begun == []


@pytest.mark.slow
@pytest.mark.parametrize("when", ["while it is asked", "after it was approved", "while it rests"])
async def test_when_what_the_tool_relies_on_has_changed_the_approval_is_asked_for_again(
    driving: Open, crashing: Open, hours: Hours, prices: Path, when: str
) -> None:
    stage = Stage(f"approval-file-{when}")
    send = stage.writer(approval=True, relies_on=["prices"], undo_window=LONG_S)

    @agent(name=stage.name)
    async def clerk(run: Run) -> object:
        await run.guard(FileContent(prices, "prices"))
        return await run.step("Send", send, "offer")

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        first = await asked(control, run)
        if when == "while it is asked":
            prices.write_bytes(b"tea 4\n")
        await control.answer(run, first.position, "approve")
        until = await held_back(control, run)
        if when == "while it rests":
            await control.applied(await control.pause(run))
        if when != "while it is asked":
            prices.write_bytes(b"tea 4\n")
        if when != "while it rests":
            hours.skip_to(until)
            await control.until(run, lambda state: state.phase is Phase.PAUSED)
    async with driving(clerk) as control:
        if when == "while it rests":
            await control.resume(run)
        stale = await asked(control, run, after=first.position)
        assert stale.kind == "stale"
        await control.answer(run, stale.position, "go on")
        second = await asked(control, run, after=stale.position)
        assert (second.kind, stage.begun) == ("approval", [])
        await control.answer(run, second.position, "approve")
        hours.skip_to(await held_back(control, run, after=until))

        assert await control.result(run) == "made offer"
        assert stage.done == ["offer"]


@pytest.mark.slow
async def test_what_was_approved_before_a_crash_is_not_asked_again(
    driving: Open, crashing: Open, hours: Hours
) -> None:
    stage = Stage("approval-crash")
    clerk = sender(stage, stage.writer(irreversible=True, undo=None, undo_window=LONG_S))

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        await control.answer(run, question.position, "approve")
        until = await held_back(control, run)
    async with driving(clerk) as control:
        hours.skip_to(await held_back(control, run, after=until))
        assert await control.result(run) == "made letter"
        assert await times_asked(control, run, "approval") == 1


async def test_an_answer_given_while_nobody_drives_is_found(driving: Open) -> None:
    stage = Stage("approval-nobody")
    clerk = impatient(sender(stage, stage.writer(irreversible=True, undo=None)))

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        await let_go(control, run)
    await control.answer(run, question.position, "approve")
    async with driving(clerk) as control:
        assert await control.result(run) == "made letter"


@pytest.mark.parametrize("caught", [False, True])
async def test_a_redirect_withdraws_the_question_and_is_not_taken_for_a_refusal(
    driving: Open, caught: bool
) -> None:
    stage = Stage("approval-redirect")
    send = stage.writer(irreversible=True, undo=None)

    @agent()
    async def clerk(run: Run) -> object:
        try:
            return await run.step("Send", send, run.brief)
        except Redirected:
            if not caught:
                raise
        return await run.step("Send", send, run.brief)

    async with driving(clerk) as control:
        run = await control.start(clerk, "letter")
        first = await asked(control, run)
        await control.until(run, lambda state: state.phase is Phase.WAITING)
        await control.redirect(run, "parcel")
        second = await asked(control, run, after=first.position)
        await control.answer(run, second.position, "approve")

        assert await control.result(run) == "made parcel"
        assert await events_of(control, run, e.StepSettled) == []


async def test_a_question_of_the_function_is_withdrawn_by_a_redirect_and_asked_anew(
    driving: Open,
) -> None:
    @agent()
    async def clerk(run: Run) -> list[object]:
        answer = await run.ask("Which colour?")
        return [run.brief, answer.payload, answer.given]

    async with driving(clerk) as control:
        run = await control.start(clerk, "paint")
        first = await asked(control, run)
        await control.until(run, lambda state: state.phase is Phase.WAITING)
        await control.redirect(run, "paint the door")
        second = await asked(control, run, after=first.position)
        await control.answer(run, second.position, "red")

        assert await control.result(run) == ["paint the door", "red", True]


async def test_a_redirect_beside_an_open_question_leaves_no_question_that_nobody_asks(
    driving: Open,
) -> None:
    stage = Stage("approval-beside")
    send, look = stage.writer(irreversible=True, undo=None), stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        async with anyio.create_task_group() as both:
            both.start_soon(run.step, "Send", send, run.brief)
            both.start_soon(run.step, "Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "letter")
        first = await asked(control, run)
        await stage.until_begun("slow")
        await control.redirect(run, "parcel")
        second = await asked(control, run, after=first.position)
        stage.gate("slow").set()
        state = await control.until(run, lambda state: state.phase is Phase.WAITING)
        assert list(state.questions) == [second.position]
        await control.answer(run, second.position, "approve")

        assert (await control.ended(run)).phase is Phase.DONE
        assert stage.done == ["slow", "parcel"]


# ── the window in which a cancel still wins ──────────────────────────────────────────────────


@pytest.mark.slow
async def test_nothing_begins_before_the_window_has_passed(driving: Open, hours: Hours) -> None:
    stage = Stage("hold-passes")
    clerk = sender(stage, stage.writer(undo_window=LONG_S))

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        state = await control.until(run, lambda state: bool(state.windows))
        ((noun, until),) = state.windows.values()
        hours.skip(LONG_S / 2)
        await anyio.sleep(0.1)
        assert stage.begun == []
        hours.skip_to(until)
        assert await control.result(run) == "made letter"
        (attempt,) = [
            r for r in await control.store.read(run) if isinstance(r.event, e.AttemptStarted)
        ]

        assert noun == "thing"
        assert attempt.at >= until - 0.05


@pytest.mark.parametrize("breaks", ["pause", "crash", "eviction"])
@pytest.mark.slow
async def test_the_window_starts_again_in_full_after_a_break(
    driving: Open, crashing: Open, hours: Hours, breaks: str
) -> None:
    stage = Stage(f"hold-{breaks}")
    clerk = sender(stage, stage.writer(undo_window=LONG_S))
    if breaks == "eviction":
        clerk = impatient(clerk)

    async with (crashing if breaks == "crash" else driving)(clerk) as control:
        run = await control.start(clerk, "work")
        until = await held_back(control, run)
        hours.skip(LONG_S / 2)
        if breaks != "crash":
            await control.applied(await control.pause(run))
            assert (await control.state(run)).windows == {}
            if breaks == "eviction":
                await let_go(control, run)
            await control.resume(run)
            hours.skip_to(await held_back(control, run, after=until))
            assert await control.result(run) == "made letter"
    async with driving(clerk) as control:
        if breaks == "crash":
            hours.skip_to(await held_back(control, run, after=until))
        assert await control.result(run) == "made letter"
        opened = await events_of(control, run, e.WindowOpened)
        (attempt,) = [
            r for r in await control.store.read(run) if isinstance(r.event, e.AttemptStarted)
        ]

        assert len(opened) == 2
        assert opened[1].until >= until + LONG_S / 2
        assert attempt.at >= opened[1].until - 0.05


async def test_a_cancel_in_the_window_wins_also_after_approval(driving: Open) -> None:
    stage = Stage("hold-cancel")
    clerk = sender(stage, stage.writer(irreversible=True, undo=None, undo_window=30.0))

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.answer(run, (await asked(control, run)).position, "approve")
        await control.until(run, lambda state: bool(state.windows))
        accepted = await control.cancel(run)
        assert accepted.in_flight == ()

        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert (stage.begun, (await control.receipt(run)).lines) == ([], ())


def test_a_read_has_nothing_to_hold_back() -> None:
    with pytest.raises(InvalidTool, match="undo_window= is not for a read"):

        @tool(effect="read", undo_window=1.0)
        async def look() -> None: ...


async def test_a_step_in_doubt_that_needed_approval_is_not_approved_twice(driving: Open) -> None:
    tries: list[str] = []

    async def look_up(_: EffectRecord) -> object:
        return Done("sent after all")

    @tool(effect="once", name="approval-doubt.send", approval=True, check=look_up, settles_within=0)
    async def send() -> str:
        tries.append("send")
        raise ConnectionError("reset by peer")

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Send", send)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.answer(run, (await asked(control, run)).position, "approve")

        assert await control.result(run) == "sent after all"
        assert (tries, await times_asked(control, run, "approval")) == (["send"], 1)
