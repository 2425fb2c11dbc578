"""Every verb over HTTP: the answer is the delivery receipt, a refusal says how it really is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from midflight.agents import REPEATS, agent
from midflight.control import Control
from midflight.journal.phases import Phase, Role
from midflight.run import Run
from scenarios.conftest import Open
from scenarios.stage import Stage
from server.house import House, opened

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(60)]


class Desk:
    """One run of a small agent, and a person who sits in front of it."""

    def __init__(self, stage: Stage, control: Control, house: House, http: httpx.AsyncClient):
        self.stage, self.control, self.house, self.http = stage, control, house, http
        self.run = ""

    async def start(self, **body: Any) -> dict[str, Any]:
        answer = await self.http.post("/v1/runs", json={"agent": "desk", "brief": "work", **body})
        assert answer.status_code == 201, answer.text
        self.run = answer.json()["run"]
        return dict(answer.json())

    async def press(self, verb: str, expected: int = 200, **body: Any) -> Any:
        answer = await self.http.post(f"/v1/runs/{self.run}/{verb}", json=body)
        assert answer.status_code == expected, answer.text
        return answer.json()

    async def look(self) -> Any:
        answer = await self.http.get(f"/v1/runs/{self.run}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def is_applied(self, receipt: Any) -> Any:
        place = f"/v1/runs/{receipt['run']}/deliveries/{receipt['position']}"
        answer = await self.http.get(place, params={"wait_s": 10})
        assert answer.json()["status"] == "applied", answer.text
        return answer.json()

    async def until(self, phase: Phase) -> None:
        with anyio.fail_after(10):
            await self.control.until(self.run, lambda state: state.phase is phase)


@asynccontextmanager
async def sitting(driving: Open, name: str, role: Role = Role.CONTROLLER) -> AsyncIterator[Desk]:
    stage = Stage(f"server-{name}")
    look, make = stage.reader(), stage.writer()

    @agent("desk")
    async def works(run: Run) -> str:
        await run.plan("Look", "Make", "Ask")
        await run.step("Look", look, "look")
        await run.step("Make", make, "make")
        answer = await run.ask("Which?", schema={"enum": ["this", "that"]})
        return f"{run.brief}: {answer.payload}"

    async with (
        driving(works) as control,
        opened(control, [works]) as house,
        house.client(role) as http,
    ):
        yield Desk(stage, control, house, http)


async def test_a_run_is_started_answered_and_gives_its_result(driving: Open) -> None:
    async with sitting(driving, "whole") as desk:
        started = await desk.start(title="A day", limits={"steps": 9})
        await desk.until(Phase.WAITING)

        seen = await desk.look()
        assert (seen["phase"], seen["status"]) == ("waiting", "waiting for you")
        assert (seen["title"], seen["limits"], seen["plan"]) == (
            "A day",
            {"steps": 9, "repeats": REPEATS},
            ["Look", "Make", "Ask"],
        )
        (asked,) = seen["questions"]
        assert (asked["message"], asked["schema"]) == ("Which?", {"enum": ["this", "that"]})
        assert seen["preview"]["cancel"]["consequence"].startswith("Undoes thing")
        assert seen["receipt"]["lines"][0]["noun"] == "thing"

        early = await desk.http.get(f"/v1/runs/{desk.run}/result")
        assert (early.status_code, early.json()["state"]["phase"]) == (409, "waiting")

        receipt = await desk.press("answer", question=asked["question"], payload="this")
        assert receipt["verb"] == "answer"
        await desk.until(Phase.DONE)
        result = (await desk.http.get(f"/v1/runs/{desk.run}/result")).json()
        assert (result["phase"], result["result"]) == ("done", "work: this")
        assert started["position"] == 1


async def test_pause_redirect_and_resume_are_applied_where_they_say(driving: Open) -> None:
    async with sitting(driving, "course") as desk:
        desk.stage.gate("look")
        await desk.start()
        await desk.stage.until_begun("look")

        await desk.is_applied(await desk.press("pause"))
        assert (await desk.look())["phase"] == "paused"
        await desk.press("redirect", text="rest")
        desk.stage.gate("look").set()
        await desk.press("resume")
        await desk.until(Phase.WAITING)
        assert (await desk.look())["brief"] == "rest"


async def test_cancel_lists_what_is_in_flight_and_the_receipt_accounts_for_it(
    driving: Open,
) -> None:
    async with sitting(driving, "cancel") as desk:
        desk.stage.gate("make")
        await desk.start()
        await desk.stage.until_begun("make")

        receipt = await desk.press("cancel")
        assert receipt["in_flight"] == ["thing"]
        desk.stage.gate("make").set()
        await desk.until(Phase.CANCELLED)
        (line,) = (await desk.look())["receipt"]["lines"]
        assert line["noun"] == "thing"


async def test_a_person_takes_a_run_over_and_hands_it_back(driving: Open) -> None:
    async with sitting(driving, "human") as desk:
        desk.stage.gate("look")
        await desk.start()
        await desk.stage.until_begun("look")

        await desk.press("take_over")
        await desk.until(Phase.PAUSED)
        assert (await desk.look())["human"] == "the-controller"
        desk.stage.gate("look").set()
        await desk.press("hand_back", note="go on")
        await desk.until(Phase.WAITING)


async def test_an_effect_is_stopped_and_limits_are_raised(driving: Open) -> None:
    async with sitting(driving, "stop") as desk:
        desk.stage.gate("make")
        await desk.start()
        await desk.stage.until_begun("make")
        await desk.press("pause")
        (flying,) = (await desk.look())["in_flight"]
        assert (flying["noun"], flying["can_be_stopped"]) == ("thing", True)

        await desk.press("stop_effect", attempt=flying["position"])
        await desk.until(Phase.PAUSED)
        await desk.press("raise_limits", limits={"steps": 7, "usd": 1.5})
        assert (await desk.look())["limits"] == {"steps": 7, "usd": 1.5, "repeats": REPEATS}


async def test_a_run_that_has_ended_is_undone_and_forked(driving: Open) -> None:
    async with sitting(driving, "after") as desk:
        await desk.start()
        await desk.until(Phase.WAITING)
        (asked,) = (await desk.look())["questions"]
        await desk.press("answer", question=asked["question"], payload="that")
        await desk.until(Phase.DONE)

        await desk.press("undo")
        with anyio.fail_after(10):
            await desk.control.until(
                desk.run, lambda state: all(effect.undone for effect in state.effects.values())
            )
        assert (await desk.look())["receipt"]["lines"][0]["word"] == "undone"
        forked = await desk.press("fork", 201, at="Make")
        assert forked["run"] != desk.run
        fork = (await desk.http.get(f"/v1/runs/{forked['run']}")).json()
        assert fork["fork_of"] == desk.run


async def test_an_operator_kills_releases_and_recovers(driving: Open) -> None:
    async with sitting(driving, "kill", Role.OPERATOR) as desk:
        desk.stage.gate("look")
        await desk.start()
        await desk.stage.until_begun("look")

        killed = await desk.http.post("/v1/operator/kill", json={"scope": "agent:desk"})
        assert list(killed.json()["killed"]) == [desk.run]
        assert (await desk.look())["phase"] == "killed"
        refused = await desk.http.post("/v1/runs", json={"agent": "desk", "brief": "again"})
        assert (refused.status_code, refused.json()["error"]) == (409, "scope_stopped")
        on = (await desk.http.get("/v1/operator/switches")).json()["switches"]
        assert [switch["scope"] for switch in on] == ["agent:desk"]

        released = await desk.http.post("/v1/operator/release", json={"scope": "agent:desk"})
        assert released.json() == {"released": True}
        await desk.press("recover")
        assert (await desk.look())["phase"] == "paused"


async def test_a_message_is_answered_with_how_the_run_stands(driving: Open) -> None:
    async with sitting(driving, "message") as desk:
        desk.stage.gate("make")
        await desk.start()
        await desk.stage.until_begun("make")
        thread = (await desk.look())["thread"]

        sent = await desk.http.post(f"/v1/threads/{thread}/messages", json={"text": "and May"})
        assert sent.status_code == 200
        assert sent.json()["status"].startswith("working: Make")
        seen = (await desk.http.get(f"/v1/threads/{thread}")).json()
        assert [m["text"] for m in seen["unread"]] == ["and May"]
        assert [row["journal"] for row in seen["runs"]] == [desk.run]
        records = (await desk.http.get(f"/v1/threads/{thread}/records")).json()["records"]
        assert records[-1]["event"]["event"] == "message.sent"
        desk.stage.gate("make").set()


async def test_repeated_under_its_key_a_request_is_answered_as_before(driving: Open) -> None:
    async with sitting(driving, "keys") as desk:
        desk.stage.gate("look")
        key = {"Idempotency-Key": "once-1"}
        body = {"agent": "desk", "brief": "work"}
        first, second = [
            (await desk.http.post("/v1/runs", json=body, headers=key)).json() for _ in range(2)
        ]
        assert first == second
        desk.run = first["run"]
        await desk.stage.until_begun("look")
        place = f"/v1/runs/{desk.run}/redirect"
        first, second = [
            (await desk.http.post(place, json={"text": "rest"}, headers=key)).json()
            for _ in range(2)
        ]
        assert first == second

        other = await desk.http.post(place, json={"text": "play"}, headers=key)
        assert (other.status_code, other.json()["error"]) == (409, "key_reused")
        assert other.json()["changed"] is False


async def test_a_refused_verb_says_how_the_run_really_is(driving: Open) -> None:
    async with sitting(driving, "refused") as desk:
        desk.stage.gate("look")
        await desk.start()
        await desk.stage.until_begun("look")
        seen = await desk.look()

        refused = await desk.press("resume", 409)
        assert (refused["error"], refused["changed"]) == ("illegal_signal", False)
        assert refused["state"]["phase"] == "running"
        assert "pause" in refused["state"]["accepts"]
        assert refused["state"]["preview"]["pause"]["enabled"]

        await desk.press("pause")
        outdated = await desk.press("redirect", 409, text="rest", expect=seen["head"])
        assert outdated["error"] == "outdated"
        assert (await desk.look())["brief"] == "work"


async def test_lists_are_filtered_and_paged(driving: Open) -> None:
    async with sitting(driving, "lists") as desk:
        desk.stage.gate("look")
        runs = [(await desk.start())["run"] for _ in range(5)]
        await desk.press("cancel")
        await desk.until(Phase.CANCELLED)

        found, before = [], ""
        while True:
            page = (await desk.http.get("/v1/runs", params={"limit": 2, "before": before})).json()
            found += [row["journal"] for row in page["rows"]]
            if not (before := page["next"]):
                break
        assert found == runs[::-1]
        ended = (await desk.http.get("/v1/runs", params={"phase": "cancelled"})).json()["rows"]
        assert [row["journal"] for row in ended] == [runs[-1]]
        threads = (await desk.http.get("/v1/threads")).json()["rows"]
        assert len(threads) == 5
        agents = (await desk.http.get("/v1/agents")).json()["agents"]
        assert [known["name"] for known in agents] == ["desk"]
