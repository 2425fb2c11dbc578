"""A thread that is followed: for how long, with which signs of life, and what ends it."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from midflight.agents import Agent
from midflight.control import Control
from midflight.interfaces.agui.agui_answer import Following
from midflight.interfaces.agui.agui_input import read_input
from midflight.interfaces.agui.agui_turn import take_turn
from midflight.interfaces.http.event_streams import Pace
from midflight.journal.phases import Phase
from midflight.journal.record import Actor
from scenarios.conftest import Open
from server.agui.agents import asker, plain
from server.house import opened

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(30),
    pytest.mark.parametrize("store", ["memory"], indirect=True),
]

ANN = Actor("ann", channel="agui")
FOLLOW = {"threadId": "T", "runId": "X", "forwardedProps": {"midflight": {"follow": True}}}
TEA = [{"id": "m1", "role": "user", "content": "tea"}]


async def followed(control: Control, agent: Agent, rest_s: float = 0.3) -> list[Any]:
    given = read_input(msgspec.json.encode({**FOLLOW, "messages": TEA}))
    turn = await take_turn(control, agent, given, ANN)
    story = Following(control, turn, heartbeat_s=0.05, rest_s=rest_s)
    with anyio.fail_after(10):
        return [event async for event in story.told()]


async def test_a_thread_in_which_nothing_happens_is_left_after_a_while(driving: Open) -> None:
    async with driving(plain) as control:
        told = await followed(control, plain)

    ended = next(n for n, event in enumerate(told) if event and event.type == "RUN_FINISHED")
    assert set(told[ended + 1 :]) == {None}, "signs of life, and then the end"
    assert len(told) - ended > 2


async def test_each_story_of_a_followed_thread_has_an_id_of_its_own(driving: Open) -> None:
    async with driving(asker) as control, anyio.create_task_group() as tasks:
        told: list[Any] = []

        async def follow() -> None:
            told.extend(await followed(control, asker, rest_s=3))

        tasks.start_soon(follow)
        with anyio.fail_after(10):
            while not (rows := await control.runs()):  # noqa: ASYNC110 - nobody tells us
                await anyio.sleep(0.02)
            await control.until(rows[0].journal, lambda state: state.phase is Phase.WAITING)
        await anyio.sleep(0.3)
        (question,) = (await control.state(rows[0].journal)).questions
        await control.answer(rows[0].journal, question, {"size": "small"}, who=Actor("bob"))

    named = [(event.type, event.run_id) for event in told if event and hasattr(event, "run_id")]
    assert named == [
        ("RUN_STARTED", "X"),
        ("RUN_FINISHED", "X"),
        ("RUN_STARTED", "X:2"),
        ("RUN_FINISHED", "X:2"),
    ]
    assert told[-1] is None


async def test_that_an_answer_was_not_taken_is_said_once(driving: Open) -> None:
    async with driving(asker) as control:
        first = await followed(control, asker, rest_s=0)
        (interrupt,) = next(e for e in first if e and e.type == "RUN_FINISHED").outcome.interrupts
        answer = {"interruptId": interrupt.id, "status": "resolved", "payload": {"size": "huge"}}
        body = {**FOLLOW, "runId": "Y", "messages": [], "resume": [answer]}
        given = read_input(msgspec.json.encode(body))
        turn = await take_turn(control, asker, given, ANN)
        story = Following(control, turn, heartbeat_s=0.05, rest_s=10)
        ends: list[Any] = []
        event: Any
        with anyio.fail_after(10):
            async for event in story.told():
                if event and event.type == "RUN_FINISHED":
                    ends.append(event.outcome.interrupts[0].message)
                    if len(ends) == 2:
                        break
                    await control.send(story.run, "Take your time.", who=Actor("bob"))

    assert "Your answer was not taken" in ends[0]
    assert "Your answer was not taken" not in ends[1]


async def test_a_server_that_leaves_while_nothing_happens_ends_the_stream_without_an_error(
    driving: Open,
) -> None:
    body = {**FOLLOW, "messages": []}
    async with (
        driving(plain) as control,
        opened(control, [plain], pace=Pace(heartbeat_s=0.05)) as house,
        house.client() as ann,
        ann.stream("POST", "/v1/agents/plain/agui", json=body) as answer,
    ):
        told = ""
        async for chunk in answer.aiter_text():
            told += chunk
            if "alive" in told:
                house.app.state.streams.close()

    assert "RUN_FINISHED" in told
    assert "RUN_ERROR" not in told
