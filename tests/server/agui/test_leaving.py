"""An AG-UI client leaves, or its Stop is pressed: the agent or the request says what that means."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from midflight.agents import Agent, OnDisconnect, agent
from midflight.control import Control
from midflight.interfaces.agui.agui_answer import Following
from midflight.interfaces.app import create_app
from midflight.interfaces.http import event_streams
from midflight.interfaces.http.access.access import Access
from midflight.interfaces.http.access.keyring import Keyring
from midflight.interfaces.http.event_streams import Pace
from midflight.journal import events as e
from midflight.journal.phases import Phase, Role
from midflight.run import Run
from scenarios.conftest import Open
from scenarios.stage import Stage
from server.house import PATIENT, House, serving

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(60),
    pytest.mark.parametrize("store", ["memory"], indirect=True),
]

GRACE_S = 5.0


class Clock:
    """Time that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Scene:
    """A server with one worker, a clock, and people who come and go."""

    def __init__(self, control: Control, house: House, clock: Clock, stage: Stage) -> None:
        self.control, self.house, self.clock, self.stage = control, house, clock, stage

    @asynccontextmanager
    async def reads(
        self, choice: str = "", *, role: Role = Role.CONTROLLER, says: bool = True, run: str = "X"
    ) -> AsyncIterator[str]:
        """Somebody reads the run until the block ends, and then hangs up."""
        options = {"onDisconnect": choice} if choice else {}
        body = {
            "threadId": "T",
            "runId": run,
            "messages": [{"id": "m", "role": "user", "content": "tea"}] if says else [],
            "forwardedProps": {"midflight": options},
        }
        async with (
            self.house.client(role) as client,
            client.stream("POST", "/v1/agents/worker/agui", json=body) as answer,
        ):
            assert answer.status_code == 200, (await answer.aread()).decode()
            await self.stage.until_begun("it")
            told, chunks = "", answer.aiter_text()  # one that is let go of hangs up
            while "STATE_SNAPSHOT" not in told:
                told += await anext(chunks)
            yield told

    @asynccontextmanager
    async def looks(self, choice: str = "", *, role: Role = Role.CONTROLLER) -> AsyncIterator[str]:
        """Somebody attaches to the run, without a word."""
        async with self.reads(choice, role=role, says=False, run="Y") as told:
            yield told

    async def phase(self) -> Phase:
        (row,) = await self.control.runs()
        return Phase(row.phase)

    async def until_gone(self) -> None:
        with anyio.fail_after(10):
            while self.house.app.state.meter.streams:  # noqa: ASYNC110 - nobody tells us
                await anyio.sleep(0.01)

    async def after_the_grace(self) -> Phase:
        """What the run is, once the time in which a client may come back is over."""
        await self.until_gone()
        return await self.after_the_grace_of_one()

    async def after_the_grace_of_one(self) -> Phase:
        """As ``after_the_grace``, while others read on."""
        await anyio.sleep(0.2)
        self.clock.now += GRACE_S + 0.1
        await anyio.sleep(0.4)
        return await self.phase()


Play = Any


@pytest.fixture
async def play(driving: Open) -> Play:
    @asynccontextmanager
    async def played(name: str, choice: OnDisconnect = "continue") -> AsyncIterator[Scene]:
        stage, clock = Stage(name), Clock()
        works = worker(stage, choice)
        async with driving(works) as control:
            app = create_app(
                control,
                agents=[works],
                access=Access(Keyring()),
                quotas=PATIENT,
                pace=Pace(grace_s=GRACE_S),
                clock=clock,
            )
            async with serving(app) as port:
                yield Scene(control, House(app, port), clock, stage)

    return played


def worker(stage: Stage, choice: OnDisconnect) -> Agent:
    look = stage.reader()
    stage.gate("it")

    @agent("worker", on_disconnect=choice)
    async def works(run: Run) -> str:
        return str(await run.step("Look", look, "it"))

    return works


async def test_a_run_goes_on_when_its_client_leaves(play: Play) -> None:
    async with play("goes on") as scene:
        async with scene.reads():
            pass

        assert await scene.after_the_grace() == Phase.RUNNING


@pytest.mark.parametrize(
    ("choice", "phase"), [("pause", Phase.PAUSED), ("cancel", Phase.CANCELLED)]
)
async def test_a_request_can_have_its_run_paused_or_cancelled(
    play: Play, choice: str, phase: Phase
) -> None:
    async with play("asked") as scene:
        async with scene.reads(choice):
            pass
        await scene.until_gone()
        await anyio.sleep(0.2)
        assert await scene.phase() == Phase.RUNNING, "the client may come back"

        assert await scene.after_the_grace() == phase

        (row,) = await scene.control.runs()
        whos = [
            record.event.who
            for record in await scene.control.store.read(row.journal)
            if isinstance(record.event, e.PauseRequested | e.CancelRequested)
        ]
        assert [(who.by, who.channel) for who in whos] == [("the-controller", "agui:disconnect")]


async def test_an_agent_can_be_declared_so_and_a_request_can_say_otherwise(play: Play) -> None:
    async with play("declared", "pause") as scene:
        async with scene.reads("continue"):
            pass
        assert await scene.after_the_grace() == Phase.RUNNING

        async with scene.reads():
            pass
        assert await scene.after_the_grace() == Phase.PAUSED


async def test_an_agents_choice_is_about_who_has_begun_the_run(play: Play) -> None:
    async with play("begun", "cancel") as scene, scene.reads():
        async with scene.looks(role=Role.OPERATOR):
            pass

        assert await scene.after_the_grace_of_one() == Phase.RUNNING


@pytest.mark.parametrize("choice", ["pause", "cancel", ""])
async def test_a_viewer_who_leaves_changes_nothing(play: Play, choice: str) -> None:
    async with play("viewer", "cancel") as scene:
        async with scene.reads("continue"), scene.looks(choice, role=Role.VIEWER) as told:
            assert ("a viewer who leaves changes nothing" in told) is bool(choice)

        assert await scene.after_the_grace() == Phase.RUNNING


async def test_who_comes_back_in_time_has_not_left(play: Play) -> None:
    async with play("back") as scene:
        async with scene.reads("cancel"):
            pass
        await scene.until_gone()
        scene.clock.now += GRACE_S - 1

        async with scene.looks("continue"):
            scene.clock.now += GRACE_S
            await anyio.sleep(0.3)

        assert await scene.after_the_grace() == Phase.RUNNING


async def test_who_still_reads_in_another_tab_has_not_left(play: Play) -> None:
    async with play("tabs") as scene, scene.reads():
        async with scene.looks("cancel"):
            pass

        assert await scene.after_the_grace_of_one() == Phase.RUNNING


async def test_of_several_people_only_the_one_who_asked_counts(play: Play) -> None:
    async with play("several") as scene:
        async with scene.reads("pause"):
            async with scene.looks(role=Role.OPERATOR):
                pass
            assert await scene.after_the_grace_of_one() == Phase.RUNNING

        async with scene.looks(role=Role.OPERATOR):
            assert await scene.after_the_grace_of_one() == Phase.PAUSED


async def test_a_server_that_leaves_is_not_a_client_that_does(play: Play) -> None:
    async with play("server") as scene:
        async with scene.reads("cancel"):
            scene.house.app.state.streams.close()
            await scene.until_gone()
        assert await scene.after_the_grace() == Phase.RUNNING

    async with play("server in the grace") as scene:
        async with scene.reads("cancel"):
            pass
        await scene.until_gone()
        scene.house.app.state.streams.close()
        assert await scene.after_the_grace() == Phase.RUNNING


async def test_a_stream_that_has_ended_is_not_left(play: Play) -> None:
    async with play("ended") as scene:
        async with scene.reads("cancel"):
            scene.stage.gate("it").set()
            await scene.until_gone()

        assert await scene.after_the_grace() == Phase.DONE


async def test_a_key_that_is_revoked_is_not_a_client_that_leaves(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_streams, "KNOWN_S", 0.05)
    async with play("revoked") as scene:
        async with scene.reads("cancel"):
            scene.house.keyring.revoke("the-controller")
            await scene.until_gone()

        assert await scene.after_the_grace() == Phase.RUNNING


async def test_a_stream_that_fails_is_not_a_client_that_leaves(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Following.told

    async def failing(self: Following) -> AsyncIterator[Any]:
        async for event in told(self):
            yield event
            if event is not None and event.type == "STATE_SNAPSHOT":
                raise ValueError("it fails")

    monkeypatch.setattr(Following, "told", failing)
    async with play("fails") as scene:
        async with scene.reads("cancel"):
            await scene.until_gone()

        assert await scene.after_the_grace() == Phase.RUNNING


async def test_who_closes_two_streams_at_once_has_left(play: Play) -> None:
    """A tab has a stream that talks and one that listens; they are not closed in one moment."""
    async with play("both") as scene:
        async with scene.reads(), scene.looks("cancel"):
            pass

        assert await scene.after_the_grace() == Phase.CANCELLED
