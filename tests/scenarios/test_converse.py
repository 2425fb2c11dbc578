"""A turn in a conversation begins one run or speaks to the one in front; a question is declined."""

from __future__ import annotations

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control, Turn
from midflight.errors import InvalidRequest, KeyReused, NotAllowed
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.run import Run
from midflight.stores.protocol import Query
from scenarios.conftest import Open

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

ANN, BOB = Actor("ann"), Actor("bob")
VERA = Actor("vera", Role.VIEWER)
T = "t-talk"


@agent("asks")
async def asks(run: Run) -> str:
    answer = await run.ask("Which one?")
    read = [message.text for message in await run.inbox()]
    said = str(answer.payload) if answer.given else "none"
    return f"{run.brief}: {said} {read}"


@agent("other")
async def other(run: Run) -> str:
    return run.brief


async def waits(control: Control, run: str) -> int:
    with anyio.fail_after(10):
        state = await control.until(run, lambda state: state.phase is Phase.WAITING)
    return next(iter(state.questions))


async def runs(control: Control) -> list[str]:
    return [row.journal for row in await control.runs(Query(thread=T))]


# ── a turn ───────────────────────────────────────────────────────────────────────────────────


async def test_the_first_turn_begins_a_run_for_what_was_said(driving: Open) -> None:
    async with driving(asks) as control:
        turn = await control.converse(asks, T, [("m1", "tea"), ("m2", "and milk")], key="x")
        await control.answer(turn.run, await waits(control, turn.run), "a big one")

        assert turn.started
        assert [accepted.position for accepted in turn.messages] == [2, 3]
        assert await control.result(turn.run) == "tea\nand milk: a big one []"


async def test_a_turn_that_is_repeated_belongs_to_the_run_it_began(driving: Open) -> None:
    async with driving(asks) as control:
        first = await control.converse(asks, T, [("m1", "tea")], key="x")
        await control.decline(first.run, await waits(control, first.run))
        await control.ended(first.run)

        assert await control.converse(asks, T, [("m1", "tea")], key="x") == Turn(first.run)
        assert await runs(control) == [first.run]


async def test_what_is_said_meanwhile_goes_to_the_run_in_front(driving: Open) -> None:
    async with driving(asks) as control:
        first = await control.converse(asks, T, [("m1", "tea")], key="x")
        question = await waits(control, first.run)
        second = await control.converse(asks, T, [("m2", "hurry")], key="y", who=BOB)
        await control.answer(first.run, question, 1)

        assert (second.run, second.started, len(second.messages)) == (first.run, False, 1)
        assert await control.result(first.run) == "tea: 1 ['hurry']"


async def test_turns_at_once_begin_one_run_between_them(driving: Open) -> None:
    async with driving(asks) as control:
        turns: list[Turn] = []

        async def turn(number: int) -> None:
            said = [(f"m{number}", f"message {number}")]
            turns.append(await control.converse(asks, T, said, key=f"x{number}"))

        async with anyio.create_task_group() as people:
            for number in range(8):
                people.start_soon(turn, number)

        assert len({turn.run for turn in turns}) == 1
        assert [turn.started for turn in turns].count(True) == 1
        run = turns[0].run
        await control.answer(run, await waits(control, run), "go")
        told = await control.result(run)
        assert all(f"message {number}" in told for number in range(8))


async def test_what_nobody_has_read_begins_the_next_run(driving: Open) -> None:
    async with driving(other) as control:
        first = await control.converse(other, T, [("m1", "tea")], key="x")
        await control.ended(first.run)
        await control.send(T, "milk")
        second = await control.converse(other, T, [], key="y")

        assert second.started
        assert await control.result(second.run) == "milk"
        assert await control.converse(other, T, [], key="z") == Turn("")


async def test_another_agent_does_not_answer_while_one_is_at_work(driving: Open) -> None:
    async with driving(asks, other) as control:
        await control.converse(asks, T, [("m1", "tea")], key="x")

        with pytest.raises(InvalidRequest, match=r"busy with run .* of agent asks"):
            await control.converse(other, T, [("m2", "milk")], key="y")

        assert len(await runs(control)) == 1


async def test_a_run_that_was_started_otherwise_is_in_front_too(driving: Open) -> None:
    async with driving(asks) as control:
        run = await control.start(asks, "Order", thread=T)

        assert (await control.converse(asks, T, [("m1", "tea")], key="x")).run == run


async def test_a_viewer_begins_nothing(driving: Open) -> None:
    async with driving(asks) as control:
        with pytest.raises(NotAllowed):
            await control.converse(asks, T, [("m1", "tea")], key="x", who=VERA)

        assert await runs(control) == []


# ── declining ────────────────────────────────────────────────────────────────────────────────


async def test_a_function_whose_question_is_declined_goes_on_without(driving: Open) -> None:
    async with driving(asks) as control:
        run = await control.start(asks, "Order")
        question = await waits(control, run)
        first = await control.decline(run, question, who=ANN, key="k")

        assert await control.result(run) == "Order: none []"
        assert (await control.decline(run, question, who=ANN, key="k")).position == first.position
        with pytest.raises(KeyReused):
            await control.answer(run, question, "late", who=ANN, key="k")


async def test_it_is_declined_also_after_a_crash(crashing: Open, driving: Open) -> None:
    async with crashing(asks) as control:
        run = await control.start(asks, "Order")
        await control.pause(run)
        await control.resume(run)
        question = await waits(control, run)
    async with driving(asks) as control:
        await control.decline(run, question)

        assert await control.result(run) == "Order: none []"


async def test_only_who_may_answer_may_decline(driving: Open) -> None:
    @agent("particular")
    async def particular(run: Run) -> bool:
        return (await run.ask("Well?", answerers=("bob",))).given

    async with driving(particular) as control:
        run = await control.start(particular, "Ask")
        question = await waits(control, run)
        with pytest.raises(NotAllowed):
            await control.decline(run, question, who=ANN)
        await control.decline(run, question, who=BOB)

        assert await control.result(run) is False
