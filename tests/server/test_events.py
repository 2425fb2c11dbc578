"""The event stream: nothing missing, nothing twice, whoever is slow or comes back."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.interfaces.http.event_streams import Pace
from midflight.journal.phases import Role
from midflight.run import Run
from midflight.runtime.steps import speech
from midflight.tools.declaration import tool
from midflight.tools.progress import emit
from scenarios.conftest import Open
from scenarios.stage import Stage
from server.house import House, opened
from server.reader import Reader

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(120)]


def talker(stage: Stage, steps: int, words: int, pause_s: float, weight: int = 0) -> Agent:
    """Speaks in every step, and says in its results what it has said, made heavier by a weight."""

    async def tell(number: int) -> str:
        await stage.gate("begin").wait()
        said = [f"{number}.{word} " for word in range(words)]
        for word in said:
            emit(word)
            await anyio.sleep(pause_s)
        await stage.gate("end").wait()
        return "".join(said) + "x" * weight

    speak = tool(effect="read", name=f"{stage.name}.tell")(tell)

    @agent(stage.name)
    async def talks(run: Run) -> list[str]:
        return [await run.step(f"Tell {n}", speak, n) for n in range(steps)]

    return talks


def reader(house: House, *runs: str) -> Reader:
    return Reader(house.port, house.tokens[Role.VIEWER], runs)


async def test_a_watcher_gets_records_with_ids_and_deltas_in_between(driving: Open) -> None:
    stage = Stage("events-plain")
    stage.gate("end").set()
    talks = talker(stage, steps=2, words=5, pause_s=0.01)
    async with driving(talks) as control, opened(control, [talks]) as house:
        run = await control.start(talks, "talk")
        watcher = reader(house, run)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watcher.read)
            with anyio.fail_after(30):
                while not watcher.positions[run]:  # noqa: ASYNC110 - nobody tells us
                    await anyio.sleep(0.01)
            stage.gate("begin").set()

        assert watcher.complete
        assert watcher.deltas >= 4
        assert sorted(watcher.texts.values()) == [
            "".join(f"{n}.{word} " for word in range(5)) for n in range(2)
        ]
        assert json.loads(watcher.last_id) == {run: watcher.positions[run][-1]}


async def test_who_comes_back_gets_what_follows_and_first_the_text_so_far(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speech, "KEEP_S", 3600)  # else the text so far is a record, too
    stage, whole = Stage("events-back"), ["0.0 0.1 0.2 0.3 "]
    talks = talker(stage, steps=1, words=4, pause_s=0.0)
    async with driving(talks) as control, opened(control, [talks]) as house:
        run = await control.start(talks, "talk")
        first = reader(house, run)
        await cut_when(first, lambda: bool(first.positions[run]))
        stage.gate("begin").set()
        await cut_when(first, lambda: list(first.texts.values()) == whole)

        fresh = reader(house, run)
        fresh.last_id = first.last_id
        await cut_when(fresh, lambda: list(fresh.texts.values()) == whole)
        assert fresh.positions == {}
        stage.gate("end").set()
        assert await first.read()
        assert first.complete


async def cut_when(watcher: Reader, ready: Callable[[], bool]) -> None:
    """Read until they have heard what is waited for, and lose the connection."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watcher.read)
        with anyio.fail_after(30):
            while not ready():  # noqa: ASYNC110 - nobody tells us
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


async def test_a_silent_stream_says_that_it_lives(driving: Open) -> None:
    stage = Stage("events-silent")
    talks = talker(stage, steps=1, words=1, pause_s=0.0)
    async with (
        driving(talks) as control,
        opened(control, [talks], pace=Pace(heartbeat_s=0.05)) as house,
    ):
        run = await control.start(talks, "talk")
        watcher = reader(house, run)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watcher.read)
            with anyio.fail_after(20):
                while watcher.comments < 3:  # noqa: ASYNC110 - nobody tells us
                    await anyio.sleep(0.01)
            stage.gate("begin").set()
            stage.gate("end").set()
        assert watcher.complete


async def test_many_runs_and_threads_are_watched_by_one_stream(driving: Open) -> None:
    stage = Stage("events-many")
    stage.gate("begin").set()
    talks = talker(stage, steps=1, words=2, pause_s=0.0)
    async with driving(talks) as control, opened(control, [talks]) as house:
        runs = [await control.start(talks, "talk") for _ in range(10)]
        threads = ["t-" + run.removeprefix("r-") for run in runs]
        watcher = reader(house, *runs, *threads)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watcher.read, "message.sent")
            for run in runs:
                await control.until(run, lambda state: state.head > 2)
            stage.gate("end").set()
            for run in runs:
                await control.ended(run)
            await control.send(threads[-1], "well done")
        assert watcher.complete
        assert set(watcher.positions) == {*runs, *threads}


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_a_reader_that_takes_nothing_is_dropped_and_comes_back(driving: Open) -> None:
    stage = Stage("events-slow")
    stage.gate("begin").set()
    stage.gate("end").set()
    talks = talker(stage, steps=400, words=1, pause_s=0.0, weight=20_000)
    pace = Pace(stall_s=2)
    async with (
        driving(talks) as control,
        opened(control, [talks], pace=pace, sndbuf=4096) as house,
    ):
        run = await control.start(talks, "talk")
        slow, quick = reader(house, run), reader(house, run)
        async with slow.connected():  # and reads nothing
            with anyio.fail_after(30):
                await quick.read()
                assert quick.complete
                while house.app.state.meter.streams:  # noqa: ASYNC110 - nobody tells us
                    await anyio.sleep(0.05)
        async with house.client(Role.VIEWER) as http:
            assert "midflight_streams_dropped_total 1" in (await http.get("/metrics")).text
        assert await slow.read()
        assert slow.complete


async def watch_with_cuts(
    watcher: Reader, chance: random.Random, cuts: list[int], length_s: float
) -> None:
    """Watch to the end, and lose the connection at random moments on the way."""
    while True:
        done = False
        with anyio.move_on_after(chance.uniform(0, length_s) if cuts[0] > 0 else 60) as cut:
            done = await watcher.read()
        if done:
            return
        cuts[0] -= cut.cancelled_caught


async def _begin(control: Control, stage: Stage, runs: list[str]) -> None:
    for run in runs:
        await control.until(run, lambda state: state.entered)
    stage.gate("begin").set()


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_five_hundred_watch_one_run_and_two_hundred_connections_are_cut(
    driving: Open,
) -> None:
    stage, chance, cuts = Stage("events-500"), random.Random(5), [200]
    stage.gate("end").set()
    talks = talker(stage, steps=5, words=8, pause_s=0.1)
    async with driving(talks) as control, opened(control, [talks]) as house:
        run = await control.start(talks, "talk")
        watchers = [reader(house, run) for _ in range(500)]
        with anyio.fail_after(50):
            async with anyio.create_task_group() as tasks:
                for watcher in watchers[100:]:
                    tasks.start_soon(watcher.read)
                while not all(watcher.positions[run] for watcher in watchers[100:]):  # noqa: ASYNC110
                    await anyio.sleep(0.05)
                for watcher in watchers[:100]:
                    tasks.start_soon(partial(watch_with_cuts, length_s=2.0), watcher, chance, cuts)
                await _begin(control, stage, [run])
        said = await control.result(run)
        end = (await control.state(run)).finished

    assert cuts[0] <= 0
    for watcher in watchers:
        assert watcher.complete
        assert watcher.positions[run] == list(range(1, end + 1))
    for watcher in watchers[100:]:
        assert sorted(watcher.texts.values()) == said
    for watcher in watchers[:100]:
        assert len(watcher.texts) <= 5
        assert all(any(whole.startswith(text) for whole in said) for text in watcher.texts.values())


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_two_hundred_runs_are_watched_by_one_each_and_connections_are_cut(
    driving: Open,
) -> None:
    stage, chance, cuts = Stage("events-200"), random.Random(7), [200]
    stage.gate("end").set()
    talks = talker(stage, steps=3, words=8, pause_s=0.1)
    async with driving(talks) as control, opened(control, [talks]) as house:
        runs = [await control.start(talks, "talk") for _ in range(200)]
        watchers = {run: reader(house, run) for run in runs}
        with anyio.fail_after(50):
            async with anyio.create_task_group() as tasks:
                for watcher in watchers.values():
                    tasks.start_soon(partial(watch_with_cuts, length_s=2.0), watcher, chance, cuts)
                await _begin(control, stage, runs)
        said = [f"{n}." for n in range(3)]
        ends = {run: (await control.state(run)).finished for run in runs}

    assert cuts[0] <= 0
    for run, watcher in watchers.items():
        assert watcher.complete
        assert watcher.positions[run] == list(range(1, ends[run] + 1))
        assert all(text.startswith(tuple(said)) for text in watcher.texts.values())


async def test_bad_positions_are_refused_in_words(driving: Open) -> None:
    stage = Stage("events-bad")
    talks = talker(stage, steps=1, words=1, pause_s=0.0)
    async with (
        driving(talks) as control,
        opened(control, [talks]) as house,
        house.client(Role.VIEWER) as http,
    ):
        run = await control.start(talks, "talk")
        wrong: list[tuple[dict[str, Any], dict[str, str], int]] = [
            ({}, {}, 422),
            ({"watch": "nonsense"}, {}, 422),
            ({"watch": "r-nobody"}, {}, 404),
            ({"watch": run, "after": "{"}, {}, 422),
            ({"watch": run, "after": '{"r-1": -3}'}, {}, 422),
            ({"watch": run}, {"last-event-id": "[1]"}, 422),
            ({"watch": run, "after": json.dumps({run: 10_000})}, {}, 409),
            ({"watch": [f"r-{n}" for n in range(65)]}, {}, 422),
        ]
        for query, headers, status in wrong:
            answer = await http.get("/v1/events", params=query, headers=headers)
            assert answer.status_code == status, answer.text
            assert answer.json()["changed"] is False
            assert answer.json()["message"]
        stage.gate("begin").set()
        stage.gate("end").set()
        await control.ended(run)
