"""What a fork takes over from the runs before it: results, answers, chances, snapshots, guards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.guards import FileContent
from midflight.journal import events as e
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from midflight.run import Redirected, Run
from midflight.tools.declaration import tool
from scenarios.conftest import Open
from scenarios.rests import asked, times_asked
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio

OLGA = Actor("olga", Role.OPERATOR)


async def answer_all(control: Control, run: str, says: str, number: int) -> None:
    """Answer questions, the newest first, until so many were answered."""
    for _ in range(number):
        question = await asked(control, run)
        await control.answer(run, question.position, says)


async def keep_and_repeat(control: Control, run: str, number: int) -> None:
    """Keep what the old run did after the place, and have all of it done again."""
    await answer_all(control, run, "keep", number)
    with anyio.fail_after(10):
        state = await control.until(
            run, lambda state: any(one.kind == "repeat" for one in state.questions.values())
        )
    (question,) = state.questions
    await control.answer(run, question, "repeat all")


async def positions(control: Control, run: str, kind: type[Any]) -> list[int]:
    return [r.position for r in await control.store.read(run) if isinstance(r.event, kind)]


# ── what it takes over ───────────────────────────────────────────────────────────────────────


async def test_a_fork_may_have_another_brief(driving: Open) -> None:
    stage = Stage("fork-brief")
    make, look = stage.writer(undo=None), stage.reader()

    @agent()
    async def clerk(run: Run) -> object:
        await run.step("Make", make, "a")
        return await run.step("Read", look, run.brief)

    async with driving(clerk) as control:
        run = await control.start(clerk, "all customers", input={"month": 3})
        await control.result(run)
        new = await control.fork(run, "Read", brief="EU customers")

        assert await control.result(new) == "EU CUSTOMERS"
        assert stage.done == ["a", "all customers", "EU customers"]
        assert (await control.state(run)).brief == "all customers"


@pytest.mark.slow
async def test_a_fork_of_a_fork_knows_what_both_have_found_out(driving: Open) -> None:
    stage = Stage("fork-fork")
    make, look = stage.writer(), stage.reader()
    ids: list[list[str]] = []

    @agent()
    async def clerk(run: Run) -> list[object]:
        drawn = [str(run.uuid())]
        ids.append(drawn)
        colour = (await run.ask("Which colour?")).payload
        await run.step("Make a", make, f"a {drawn[0]}")
        drawn.append(str(run.uuid()))
        await run.step("Make b", make, f"b {drawn[1]}")
        drawn.append(str(run.uuid()))
        began = run.now()
        await run.step("Make c", make, f"c {drawn[2]}")
        return [colour, await run.step("Read", look, "r"), began <= run.now()]

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.answer(run, (await asked(control, run)).position, "red")
        await control.result(run)
        child = await control.fork(run, "Make b")
        await answer_all(control, child, "keep", 2)
        await control.result(child)
        grandchild = await control.fork(child, "Make c")
        await answer_all(control, grandchild, "keep", 1)

        assert await control.result(grandchild) == ["red", "R", True]
        assert [what[0] for what in stage.done if what != "r"] == list("abcbcc")
        assert (await control.receipt(grandchild)).inherited == ("thing", "thing")
        assert await times_asked(control, grandchild, "ask") == 0
        first, second, third = ids
        assert first[0] == second[0] == third[0], "what was drawn before the place is the same"
        assert second[1] == third[1]
        assert len({first[1], second[1]}) == 2, "and what is drawn after it is not"
        assert len({first[2], second[2], third[2]}) == 3


async def test_an_answer_about_an_attempt_of_the_old_run_says_nothing_about_the_new_one(
    driving: Open,
) -> None:
    fails = [True, True]

    @tool(effect="once", name="fork-doubt.pay", label="payment")
    async def pay() -> str:
        if fails.pop():
            raise ConnectionError("reset by peer")
        return "paid"

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Pay", pay)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.answer(run, (await asked(control, run)).position, "happened")
        assert await control.result(run) is None
        new = await control.fork(run, (await control.state(run)).head + 1)
        assert await control.result(new) is None
        again = await control.fork(run, "Pay")
        await control.answer(again, (await asked(control, again)).position, "repeat")
        with anyio.fail_after(10):
            state = await control.until(
                again, lambda state: any(q.kind == "doubt" for q in state.questions.values())
            )
        (question,) = state.questions.values()
        fails.append(False)
        await control.answer(again, question.position, "again")
        assert await control.result(again) == "paid"


async def test_what_was_approved_in_the_old_run_is_asked_again_when_it_is_done_anew(
    driving: Open,
) -> None:
    stage = Stage("fork-approval")
    send = stage.writer(irreversible=True, undo=None)

    @agent()
    async def clerk(run: Run) -> object:
        if not (await run.approve("Shall I begin?")).approved:
            return "no"
        return await run.step("Send", send, "letter")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await answer_all(control, run, "approve", 1)
        await asked(control, run, after=5)
        await answer_all(control, run, "approve", 1)
        await control.result(run)
        new = await control.fork(run, "Send")
        first = await asked(control, new)
        await control.answer(new, first.position, "repeat")
        question = await asked(control, new, after=first.position)

        assert question.message == "May this be done: thing?"
        assert stage.done == ["letter"]
        await control.answer(new, question.position, "approve")
        assert await control.result(new) == "made letter"
        assert await times_asked(control, new, "approval") == 1


async def test_a_fork_goes_on_from_the_snapshot_before_its_place(driving: Open) -> None:
    stage = Stage("fork-snapshot")
    make = stage.writer(undo=None)
    entered: list[object] = []

    @agent()
    async def clerk(run: Run) -> list[int]:
        entered.append(run.restored)
        done: list[int] = list(run.restored or [])
        for number in range(len(done), 4):
            await run.step("Make", make, f"{number}")
            done.append(number)
            await run.snapshot(done)
        return done

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        attempts = await positions(control, run, e.AttemptStarted)
        new = await control.fork(run, attempts[2])
        await keep_and_repeat(control, new, 0)

        assert await control.result(new) == [0, 1, 2, 3]
        assert entered == [None, [0, 1]]
        assert stage.done == ["0", "1", "2", "3", "2", "3"]


@pytest.mark.parametrize("caught", [False, True])
async def test_a_fork_of_a_redirected_run_begins_with_its_last_brief(
    driving: Open, caught: bool
) -> None:
    stage = Stage("fork-redirected")
    make, look = stage.writer(), stage.reader()

    @tool(effect="read", name="fork-redirected.peek")
    async def peek(number: int) -> int:
        return number

    stage.gate("all")

    @agent()
    async def clerk(run: Run) -> object:
        await run.step("Make", make, "list")
        for number in range(12):  # so that the redirect comes late, and late is early in the fork
            await run.step(f"Look {number}", peek, number)
        try:
            found = await run.step("Read", look, run.brief)
        except Redirected:
            if not caught:
                raise
            found = await run.step("Read", look, run.brief)
        await run.step("Write", make, str(found))
        return await run.step("Write", make, f"{found}, again")

    async with driving(clerk) as control:
        run = await control.start(clerk, "all")
        await stage.until_begun("all")
        await control.redirect(run, "EU")
        assert await control.result(run) == "made EU, again"
        new = await control.fork(run, "Write")
        await keep_and_repeat(control, new, 2)

        assert await control.result(new) == "made EU, again"
        assert stage.done == ["list", "EU", "EU", "EU, again", "EU", "EU, again"]
        assert await times_asked(control, new, "again") == 0


async def test_a_background_run_from_before_the_place_is_not_begun_again(driving: Open) -> None:
    stage = Stage("fork-child")
    make, look = stage.writer(), stage.reader()

    @agent()
    async def helper(run: Run) -> object:
        return await run.step("Help", make, "help")

    @agent()
    async def clerk(run: Run) -> object:
        child = await run.spawn(helper, "help")
        await run.step("Read", look, "r")
        return await child.result()

    async with driving(clerk, helper) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        new = await control.fork(run, "Read")

        assert await control.result(new) == "made help"
        assert stage.done.count("help") == 1
        assert len(await control.runs()) == 3
        assert (await control.receipt(new)).inherited == ("background run: help",)


async def test_a_fork_waits_for_a_background_run_that_still_works(driving: Open) -> None:
    stage = Stage("fork-child-waits")
    look = stage.reader()
    helped = anyio.Event()
    first = [True]

    @agent()
    async def helper(run: Run) -> str:
        await helped.wait()
        return "helped"

    @agent()
    async def clerk(run: Run) -> object:
        child = await run.spawn(helper, "help")
        await run.step("Read", look, "r")
        if first:
            first.clear()
            return "left it"
        return await child.result()

    async with driving(clerk, helper) as control:
        run = await control.start(clerk, "work")
        assert await control.result(run) == "left it"
        new = await control.fork(run, "Read")
        await stage.until_begun("r", times=2)
        await anyio.sleep(0.05)
        assert (await control.state(new)).alive
        helped.set()

        assert await control.result(new) == "helped"
        assert (await control.state(new)).children == {}


@pytest.mark.parametrize("says", ["go on", "fork"])
async def test_what_the_first_run_relied_on_the_third_relies_on_and_a_fork_for_it_begins_there(
    driving: Open, prices: Path, says: str
) -> None:
    stage = Stage("fork-guard-line")
    look = stage.reader()

    @tool(effect="read", name="fork-guard-line.read")
    def read(path: str) -> str:
        return Path(path).read_bytes().decode()

    @agent()
    async def clerk(run: Run) -> list[object]:
        await run.step("First", look, "first")
        await run.guard(FileContent(prices, "prices"))
        price = await run.step("Price", read, str(prices))
        await run.step("Second", look, "second")
        return [price, await run.step("Third", look, "third")]

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        second = await control.fork(run, "Second")
        assert await control.result(second) == ["tea 3\n", "THIRD"]
        prices.write_bytes(b"tea 4\n")
        third = await control.fork(second, "Third")
        question = await asked(control, third)
        assert question.kind == "stale"
        await control.answer(third, question.position, says)
        if says == "go on":
            assert await control.result(third) == ["tea 3\n", "THIRD"]
            return
        await control.ended(third)
        (fourth,) = {row.journal for row in await control.runs()} - {run, second, third}

        assert (await control.state(fourth)).fork_of == run
        assert await control.result(fourth) == ["tea 4\n", "THIRD"]
        assert stage.done.count("first") == 1
