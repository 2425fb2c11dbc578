"""Messages at any time, over HTTP: what is stored, chosen, overruled, put off and removed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from midflight.control import Control
from midflight.control.ack import Ack
from midflight.journal.phases import Phase, Role
from scenarios.chat import Model, clerk, until_chosen, until_runs
from scenarios.conftest import Open
from scenarios.stage import Stage
from server.house import House, opened

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(60)]


class Talk:
    """A thread with a clerk at work in it."""

    def __init__(self, control: Control, house: House, http: httpx.AsyncClient, run: str) -> None:
        self.control, self.house, self.http, self.run = control, house, http, run
        self.thread = "t-" + run.removeprefix("r-")

    async def say(self, text: str) -> Ack:
        sent = Ack(**await self.press("messages", text=text))
        await until_chosen(self.control, sent)
        return sent

    async def press(self, verb: str, expected: int = 200, **body: Any) -> Any:
        answer = await self.http.post(f"/v1/threads/{self.thread}/{verb}", json=body)
        assert answer.status_code == expected, answer.text
        return answer.json()

    async def line(self, message: int) -> Any:
        return next(line for line in await self.see("transcript") if line["position"] == message)

    async def see(self, what: str) -> Any:
        answer = await self.http.get(f"/v1/threads/{self.thread}/{what}")
        assert answer.status_code == 200, answer.text
        return answer.json()[{"transcript": "lines"}.get(what, what)]


@asynccontextmanager
async def talking(driving: Open, name: str) -> AsyncIterator[Talk]:
    """Work that goes on until the story is over."""
    stage, model = Stage(f"threads-{name}"), Model(urgent="switch", later="defer")
    stage.gate("one")
    works = clerk(stage, model)
    async with (
        driving(works) as control,
        opened(control, [works]) as house,
        house.client() as http,
    ):
        run = await control.start(works, "one")
        await stage.until_begun("one")
        yield Talk(control, house, http, run)
        stage.gate("one").set()


async def test_what_is_put_off_is_a_todo_with_what_it_would_mean_to_do_it_or_not(
    driving: Open,
) -> None:
    async with talking(driving, "todo") as talk:
        first, second = await talk.say("later this"), await talk.say("later that")
        offered = await talk.see("todos")
        assert [todo["text"] for todo in offered] == ["later this", "later that"]
        assert offered[0]["remove"] == "It will not be done"

        order = [todo["todo"] for todo in reversed(offered)]
        await talk.press("reorder", order=order)
        assert [todo["todo"] for todo in await talk.see("todos")] == order
        await talk.press("remove_todo", todo=order[0])
        assert [todo["todo"] for todo in await talk.see("todos")] == order[1:]
        refused = await talk.press("remove_todo", 409, todo=order[0])
        assert refused["changed"] is False
        assert refused["state"]["todos"] == order[1:]

        lines = await talk.see("transcript")
        messages = [line for line in lines if line["kind"] == "message"]
        assert [line["position"] for line in messages] == [first.position, second.position]


async def test_a_todo_is_done_now_and_what_was_in_front_is_parked(driving: Open) -> None:
    async with talking(driving, "now") as talk:
        await talk.say("later this")
        (offered,) = await talk.see("todos")
        receipt = await talk.press("do_now", todo=offered["todo"])
        assert receipt["target"]
        assert await talk.control.result(receipt["target"]) == ["later this"]


async def test_a_choice_is_overruled(driving: Open) -> None:
    async with talking(driving, "over") as talk:
        sent = await talk.say("also this")
        receipt = await talk.press("overrule", message=sent.position, choice="switch")
        assert receipt["status"] == "parked 'one'; now: also this"
        await until_runs(talk.control, talk.thread, 2)
        await talk.press("overrule", 422, message=sent.position, choice="explode")


async def test_a_message_is_edited_and_withdrawn_by_its_sender_only(driving: Open) -> None:
    async with talking(driving, "edit") as talk:
        sent = await talk.press("messages", text="also thsi")
        message = sent["position"]
        async with talk.house.client(Role.OPERATOR) as other:
            place = f"/v1/threads/{talk.thread}/edit_message"
            answer = await other.post(place, json={"message": message, "text": "mine"})
            assert (answer.status_code, answer.json()["error"]) == (403, "not_allowed")
        await talk.press("edit_message", message=message, text="also this")
        assert (await talk.line(message))["text"] == "also this"
        await talk.press("withdraw_message", message=message)
        assert (await talk.line(message))["status"] == "withdrawn"


async def test_a_stop_word_pauses_and_a_question_aside_is_answered_while_paused(
    driving: Open,
) -> None:
    async with talking(driving, "aside") as talk:
        stopped = await talk.press("messages", text="stop")
        assert (stopped["did"], stopped["target"]) == ("paused", talk.run)
        await talk.control.until(talk.run, lambda state: state.phase is Phase.PAUSED)

        aside = await talk.press("ask_aside", text="how far are you?")
        assert aside["status"]
        answer = await talk.http.post(f"/v1/runs/{talk.run}/ask_aside", json={"text": "and now?"})
        assert answer.status_code == 200
        assert (await talk.control.state(talk.run)).phase is Phase.PAUSED
        await talk.control.resume(talk.run)


@pytest.mark.parametrize("what", ["", "/todos", "/transcript", "/records"])
async def test_a_thread_that_is_not_there_is_not_found(driving: Open, what: str) -> None:
    async with driving() as control, opened(control) as house, house.client() as http:
        answer = await http.get(f"/v1/threads/t-nobody{what}")

        assert (answer.status_code, answer.json()["error"]) == (404, "not_found")
