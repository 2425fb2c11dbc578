"""Escalation: a run gives itself to a person, or a person takes it, and gives it back."""

from __future__ import annotations

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.errors import NotAllowed
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.journal.status import MAY_BE_DEAF
from midflight.run import Run
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

ANN, BOB = Actor("ann"), Actor("bob")
VERA = Actor("vera", Role.VIEWER)


@agent("desk")
async def desk(run: Run) -> str:
    said = await run.hand_over("She wants her money back, and is angry", to=("ann", "operator"))
    return f"{said.by}: {said.payload}"


async def handed_over(control: Control, run: str) -> None:
    with anyio.fail_after(10):
        await control.until(run, lambda s: s.phase is Phase.PAUSED and bool(s.questions))


async def test_a_run_gives_itself_to_a_person_and_goes_on_with_what_they_say(driving: Open) -> None:
    async with driving(desk) as control:
        run = await control.start(desk, "Answer her")
        await handed_over(control, run)
        await control.take_over(run, who=ANN)
        sent = await control.send(run, "I am on it", who=ANN)
        assert sent.status == f"ann has taken it over; stored{MAY_BE_DEAF}"
        await control.hand_back(run, "refunded, she is happy", who=ANN)

        assert await control.result(run) == "ann: refunded, she is happy"


async def test_only_who_is_named_may_have_it(driving: Open) -> None:
    async with driving(desk) as control:
        run = await control.start(desk, "Answer her")
        await handed_over(control, run)
        for who in (BOB, VERA):
            with pytest.raises(NotAllowed):
                await control.take_over(run, who=who)
        await control.hand_back(run, "done", who=Actor("olga", Role.OPERATOR))

        assert await control.result(run) == "olga: done"


@pytest.mark.slow
async def test_it_is_the_persons_also_after_a_crash(crashing: Open, driving: Open) -> None:
    async with crashing(desk) as control:
        run = await control.start(desk, "Answer her")
        await handed_over(control, run)
        await control.take_over(run, who=ANN)

    async with driving(desk) as control:
        await anyio.sleep(0.2)
        state = await control.state(run)
        assert (state.phase, state.human) == (Phase.PAUSED, "ann")
        await control.hand_back(run, "done", who=ANN)

        assert await control.result(run) == "ann: done"


async def test_a_person_takes_a_run_in_the_middle_of_its_work(driving: Open) -> None:
    stage = Stage("taken")
    look, make = stage.reader(), stage.writer()
    stage.gate("slow")

    @agent("taken")
    async def works(run: Run) -> list[str]:
        await run.step("Make", make, "first")
        await run.step("Look", look, "slow")
        await run.step("Make", make, "last")
        return stage.done

    async with driving(works) as control:
        run = await control.start(works, "work")
        await stage.until_begun("slow")
        taken = await control.take_over(run, who=ANN)
        assert (await control.applied(taken)).status == "applied"
        stage.gate("slow").set()
        await anyio.sleep(0.1)
        assert stage.done == ["first"]
        await control.hand_back(run, who=ANN)

        assert await control.result(run) == ["first", "slow", "last"]


async def test_a_cancel_ends_what_a_person_has(driving: Open) -> None:
    async with driving(desk) as control:
        run = await control.start(desk, "Answer her")
        await handed_over(control, run)
        await control.take_over(run, who=ANN)
        await control.cancel(run, who=BOB)

        assert (await control.ended(run)).phase is Phase.CANCELLED


async def test_a_run_can_cancel_itself_and_undoes_what_it_did(driving: Open) -> None:
    stage = Stage("self-cancel")
    make = stage.writer()

    @agent("self-cancel")
    async def works(run: Run) -> str:
        await run.step("Make", make, "draft")
        answer = await run.ask("It failed. Go on?")
        if answer.payload == "cancel":
            await run.cancel("it failed", by=answer.by)
        return "went on"

    async with driving(works) as control:
        run = await control.start(works, "work")
        state = await control.until(run, lambda s: bool(s.questions))
        await control.answer(run, next(iter(state.questions)), "cancel", who=ANN)
        state = await control.ended(run)

        assert (state.phase, state.ended_by and state.ended_by.by) == (Phase.CANCELLED, "ann")
        assert stage.done == ["draft", "undone draft"]
