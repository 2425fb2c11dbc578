"""A key belongs to its sender, for what they asked: it swallows nothing of anybody else."""

from __future__ import annotations

import json

import anyio
import httpx
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.run import Run
from scenarios.conftest import Open
from server.house import opened

pytestmark = pytest.mark.anyio

VERA, ANN, BOB = Actor(by="vera", role=Role.VIEWER), Actor(by="ann"), Actor(by="bob")
T = "t-shared"


@agent()
async def works(run: Run) -> str:
    await run.ask("Well?")
    return "done"


async def busy(control: Control) -> str:
    run = await control.start(works, "work", thread=T, who=ANN)
    await control.until(run, lambda state: bool(state.questions))
    return run


@pytest.mark.parametrize("first", [VERA, BOB], ids=["a viewer", "another controller"])
async def test_a_stop_is_heard_whoever_has_used_its_key_before(driving: Open, first: Actor) -> None:
    async with driving(works) as control:
        run = await busy(control)
        await control.send(T, "hello", who=first, key="agui:m-1")

        turn = await control.converse(works, T, [("agui:m-1", "stop")], key="turn", who=ANN)

        assert [sent.did for sent in turn.messages] == ["paused"]
        assert (await control.state(run)).phase in {Phase.PAUSING, Phase.PAUSED}


async def test_a_message_is_stored_also_if_somebody_has_said_the_same_under_its_key(
    driving: Open,
) -> None:
    async with driving(works) as control:
        run = await busy(control)
        await control.send(T, "stop", who=VERA, key="agui:m-1")
        await control.converse(works, T, [("agui:m-1", "stop")], key="turn", who=ANN)

        assert (await control.state(run)).phase in {Phase.PAUSING, Phase.PAUSED}


async def test_ones_own_message_is_said_once(driving: Open) -> None:
    async with driving(works) as control:
        await busy(control)
        for turn in ("one", "two"):
            await control.converse(works, T, [("m-1", "milk, please")], key=turn, who=ANN)

        lines = [line.text for line in await control.transcript(T)]
        assert lines.count("milk, please") == 1


async def test_the_same_turn_of_two_people_is_two_turns(driving: Open) -> None:
    async with driving(works) as control:
        first = await control.converse(works, T, [("m-1", "tea")], key="turn", who=ANN)
        await control.cancel(first.run)
        await control.ended(first.run)

        second = await control.converse(works, T, [("m-1", "tea")], key="turn", who=BOB)

        assert second.started
        assert second.run != first.run


async def test_a_key_of_another_verb_does_not_keep_a_cancel_out(driving: Open) -> None:
    async with driving(works) as control:
        run = await busy(control)
        await control.pause(run, who=ANN, key="k")
        await control.cancel(run, who=ANN, key="k")

        assert (await control.ended(run)).phase is Phase.CANCELLED


async def test_runs_of_two_people_never_have_the_same_name(driving: Open) -> None:
    pairs = [("bob", "x-1"), ("bob-x", "1"), ("bob-x-1", ""), ("bob-", "x-1"), ("bob", "-x-1")]
    async with driving(works) as control:
        started = [
            await control.start(works, "work", who=Actor(by=name), key=key or "1")
            for name, key in pairs
        ]
        assert len(set(started)) == len(pairs)
        assert await control.start(works, "work", who=Actor(by="bob-x"), key="1") == started[1]
        for run in started:
            await control.cancel(run)
            await control.ended(run)


async def test_through_ag_ui_a_viewer_cannot_swallow_what_a_controller_says(
    driving: Open,
) -> None:
    async with driving(works) as control, opened(control, [works]) as house:
        run = await busy(control)
        async with house.client(Role.VIEWER) as viewer, house.client() as controller:
            sent = await viewer.post(
                f"/v1/threads/{T}/messages",
                json={"text": "stop"},
                headers={"idempotency-key": "agui:m-1"},
            )
            assert sent.status_code == 200
            said = {
                "threadId": T,
                "runId": "turn-1",
                "messages": [{"id": "m-1", "role": "user", "content": "stop"}],
                "state": {},
                "tools": [],
                "context": [],
                "forwardedProps": {},
            }
            with anyio.move_on_after(10):
                async with controller.stream("POST", "/v1/agents/works/agui", json=said) as got:
                    assert got.status_code == 200
                    state = await control.until(run, lambda s: s.phase is Phase.PAUSED)
                    assert state.phase is Phase.PAUSED
                    return
    raise AssertionError("it was not paused")


async def test_a_history_that_is_sent_again_by_somebody_else_is_not_said_again(
    driving: Open,
) -> None:
    """Each is shown others' messages under ids of ours, which are never taken for new."""
    async with driving(works) as control, opened(control, [works]) as house:
        await busy(control)
        await control.send(T, "ann was here", who=ANN, key="agui:m-1")
        async with house.client() as other:
            shown = await _messages(other)
        mine = [one for one in shown if one["content"] == "ann was here"]
        assert [one["id"] != "m-1" for one in mine] == [True]


async def _messages(client: httpx.AsyncClient) -> list[dict[str, str]]:
    asked = {"threadId": T, "runId": "look", "messages": [], "state": {}, "tools": []}
    asked |= {"context": [], "forwardedProps": {}}
    async with client.stream("POST", "/v1/agents/works/agui", json=asked) as got:
        async for line in got.aiter_lines():
            if line.startswith("data:") and "MESSAGES_SNAPSHOT" in line:
                found: list[dict[str, str]] = json.loads(line[5:])["messages"]
                return found
    return []
