"""AG-UI behind the server's own door: who may come in, how many, and what ends a stream."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import msgspec
import pytest

from midflight.agents import Agent, agent
from midflight.interfaces.http.access.quotas import Quotas
from midflight.interfaces.http.event_streams import Pace
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.run import Run
from midflight.stores.protocol import Query
from midflight.tools.declaration import tool
from midflight.tools.progress import emit
from scenarios.conftest import Open
from scenarios.stage import Stage
from server.house import PATIENT, opened

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(60)]

OLGA = Actor("olga", Role.OPERATOR)


def said(text: str = "tea", **more: Any) -> dict[str, Any]:
    message = {"id": f"m-{text}", "role": "user", "content": text}
    return {"threadId": "T", "runId": f"X-{text}", "messages": [message], **more}


def events(body: str) -> list[Any]:
    parts = [part for part in body.split("\n\n") if part.startswith("data: ")]
    return [msgspec.json.decode(part.removeprefix("data: ")) for part in parts]


def worker(stage: Stage) -> Agent:
    look = stage.reader()
    stage.gate("it")

    @agent("worker")
    async def works(run: Run) -> str:
        return str(await run.step("Look", look, "it"))

    return works


async def test_nobody_comes_in_without_a_key(driving: Open) -> None:
    works = worker(Stage("door"))
    async with driving(works) as control, opened(control, [works]) as house:
        async with house.client(role=None) as stranger:
            answer = await stranger.post("/v1/agents/worker/agui", json=said())
            told = await stranger.get("/v1/agents/worker/agui/capabilities")

        assert (answer.status_code, told.status_code) == (401, 401)
        assert await control.runs() == []


async def test_a_viewer_starts_nothing(driving: Open) -> None:
    works = worker(Stage("viewer"))
    async with driving(works) as control, opened(control, [works]) as house:
        async with house.client(Role.VIEWER) as viewer:
            answer = await viewer.post("/v1/agents/worker/agui", json=said())

        assert (answer.status_code, answer.json()["changed"]) == (403, False)
        assert await control.runs() == []


async def test_capabilities_say_what_can_be_done_here(driving: Open) -> None:
    works = worker(Stage("able"))
    async with (
        driving(works) as control,
        opened(control, [works]) as house,
        house.client(Role.VIEWER) as viewer,
    ):
        told = (await viewer.get("/v1/agents/worker/agui/capabilities")).json()
        nobody = await viewer.get("/v1/agents/nobody/agui/capabilities")

    assert told["identity"]["name"] == "worker"
    assert told["humanInTheLoop"]["approveWithEdits"] is True
    assert told["transport"] == {"streaming": True, "resumable": True}
    assert "pause" in told["custom"]["midflight"]["controls"]
    assert told["custom"]["midflight"]["onDisconnect"] == "continue"
    assert told["custom"]["midflight"]["follow"] is True
    assert (nobody.status_code, nobody.json()["error"]) == (404, "not_found")


async def test_a_stream_too_many_is_refused_before_anything_is_begun(driving: Open) -> None:
    stage = Stage("many")
    works = worker(stage)
    quotas = msgspec.structs.replace(PATIENT, streams=1)
    async with driving(works) as control, opened(control, [works], quotas=quotas) as house:
        async with house.client() as ann, ann.stream("POST", "/v1/agents/worker/agui", json=said()):
            await stage.until_begun("it")
            other = said("milk", threadId="other")
            answer = await ann.post("/v1/agents/worker/agui", json=other)
            assert answer.status_code == 429
            assert await control.runs(Query(thread="t-other")) == []
        stage.gate("it").set()
        with anyio.fail_after(20):
            while house.app.state.meter.streams:  # noqa: ASYNC110 - nobody tells us
                await anyio.sleep(0.01)
        async with house.client() as ann:  # the first one's place is free again
            assert (await ann.post("/v1/agents/worker/agui", json=other)).status_code == 200


async def test_a_server_that_leaves_says_so_and_closes_what_is_open(driving: Open) -> None:
    works, told = worker(Stage("leaving")), ""
    async with driving(works) as control, opened(control, [works]) as house:
        async with (
            house.client() as ann,
            ann.stream("POST", "/v1/agents/worker/agui", json=said()) as answer,
        ):
            async for chunk in answer.aiter_text():
                told += chunk
                if "STATE_SNAPSHOT" in told:
                    house.app.state.streams.close()

        last = events(told)[-1]
        assert (last["type"], last["code"]) == ("RUN_ERROR", "leaving")
        assert "send the same runId" in last["message"]
        assert [row.phase for row in await control.runs()] != [Phase.CANCELLED]


async def test_a_silent_stream_says_that_it_lives(driving: Open) -> None:
    stage = Stage("silent")
    works = worker(stage)
    pace = Pace(heartbeat_s=0.05)
    async with (
        driving(works) as control,
        opened(control, [works], pace=pace) as house,
        house.client() as ann,
        ann.stream("POST", "/v1/agents/worker/agui", json=said()) as answer,
    ):
        told = ""
        async for chunk in answer.aiter_text():
            told += chunk
            if told.count(": alive\n\n") >= 3:
                stage.gate("it").set()

    assert events(told)[-1]["outcome"] == {"type": "success"}


@pytest.mark.slow
async def test_a_reader_that_takes_nothing_is_dropped_and_holds_nothing_up(driving: Open) -> None:
    @tool(effect="read", name="shout")
    async def shout() -> None:
        for _ in range(200):
            emit("x" * 1000)
            await anyio.sleep(0.001)

    @agent("shouter")
    async def shouts(run: Run) -> str:
        for number in range(12):
            await run.step(f"Shout {number}", shout)
        return "done"

    pace = Pace(stall_s=0.2)
    async with (
        driving(shouts) as control,
        opened(control, [shouts], pace=pace, sndbuf=4096) as house,
        house.client() as ann,
        ann.stream("POST", "/v1/agents/shouter/agui", json=said()),
    ):
        (row,) = await control.runs()
        with anyio.fail_after(30):
            assert await control.result(row.journal) == "done"
            while house.app.state.meter.streams:  # noqa: ASYNC110 - it has no event for that
                await anyio.sleep(0.02)

        metrics = await house.app.state.metrics.text(control, house.app.state.meter)
        assert "midflight_streams_dropped_total 1" in metrics


async def test_a_run_that_is_killed_does_not_look_cancelled(driving: Open) -> None:
    stage, told = Stage("killed"), ""
    works = worker(stage)
    async with (
        driving(works) as control,
        opened(control, [works]) as house,
        house.client() as ann,
    ):
        async with ann.stream("POST", "/v1/agents/worker/agui", json=said()) as answer:
            await stage.until_begun("it")
            await control.kill("all", who=OLGA)
            async for chunk in answer.aiter_text():
                told += chunk
        after = await ann.post("/v1/agents/worker/agui", json=said("milk"))

    assert (events(told)[-1]["type"], events(told)[-1]["code"]) == ("RUN_ERROR", "killed")
    assert "by olga" in events(told)[-1]["message"]
    assert (after.status_code, after.json()["error"]) == (409, "scope_stopped")


async def test_a_body_that_is_no_input_is_refused_in_words(driving: Open) -> None:
    works = worker(Stage("bodies"))
    async with driving(works) as control, opened(control, [works]) as house:
        async with house.client() as ann:
            answers: list[httpx.Response] = [
                await ann.post(
                    "/v1/agents/worker/agui",
                    content=content,
                    headers={"content-type": "application/json"},
                )
                for content in (b"{", b"\xff", b'{"threadId": NaN}', b"[" * 10_000)
            ]

        assert [answer.status_code for answer in answers] == [400] * 4
        assert all(answer.json()["changed"] is False for answer in answers)
        assert await control.runs() == []


async def test_a_long_history_is_taken_up_to_the_servers_limit(driving: Open) -> None:
    works = worker(Stage("long"))
    quotas = Quotas(body_bytes=10_000)
    async with driving(works) as control, opened(control, [works], quotas=quotas) as house:
        async with house.client() as ann:
            answer = await ann.post("/v1/agents/worker/agui", json=said("x" * 20_000))

        assert answer.status_code == 413
        assert await control.runs() == []
