"""Whoever asks may die before anybody is told. What is on record happens all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.stores.protocol import Store
from midflight.stores.sqlite import SqliteStore
from scenarios.stories import KILLED, Life, told

pytestmark = [pytest.mark.slow, pytest.mark.anyio, pytest.mark.timeout(120)]

EACH = 25
PROMISED_S = 5.0
VERBS = {
    "start": (e.RunCreated, Phase.DONE),
    "resume": (e.ResumeRequested, Phase.DONE),
    "cancel": (e.CancelRequested, Phase.CANCELLED),
    "answer": (e.QuestionAnswered, Phase.DONE),
}


@agent()
async def asker(run: Run) -> str:
    return "nothing to ask" if run.brief == "start" else str((await run.ask("Go on?")).payload)


letting_go = Agent(asker.name, asker.function, evict_after=0.01)


async def at_rest(control: Control, verb: str, key: str) -> str:
    """A run that nobody drives, waiting for this verb."""
    run = await control.start(letting_go, verb, key=key)
    await control.until(run, lambda s: s.phase is Phase.WAITING and not s.driver)
    if verb == "resume":
        state = await control.state(run)
        await control.pause(run)
        await control.answer(run, next(iter(state.questions)), "yes")
        await control.until(run, lambda s: s.phase is Phase.PAUSED and not s.driver)
    return run


async def waited(store: Store, run: str, kind: type) -> float:
    """From the request to the driver, by the store's clock."""
    records = await store.read(run)
    asked = next(record for record in records if isinstance(record.event, kind))
    driven = next(
        record for record in records[asked.position :] if isinstance(record.event, e.DriverClaimed)
    )
    return driven.at - asked.at


async def test_a_hundred_requests_of_processes_that_died_are_driven_within_five_seconds(
    tmp_path: Path, record_property: Any
) -> None:
    runs: dict[str, str] = {}
    lives: list[Life] = []

    async def prepare(control: Control, verb: str, number: int) -> None:
        key = f"{verb}-{number}"
        if verb == "start":
            runs[f"r-library-{key}"] = verb
            lives.append({"verb": verb, "run": asker.name, "brief": "start", "key": key})
            return
        run = await at_rest(control, verb, key)
        runs[run] = verb
        question = next(iter((await control.state(run)).questions), 0)
        more = {"question": question, "payload": "yes"} if verb == "answer" else {}
        lives.append({"verb": verb, "run": run, **more})

    async with SqliteStore.open(tmp_path / "journals.db") as store:
        async with LocalEngine.open(store, [letting_go], workdir=tmp_path / "work") as engine:
            control = Control(store, engine)
            async with anyio.create_task_group() as group:
                for verb in VERBS:
                    for number in range(EACH):
                        group.start_soon(prepare, control, verb, number)
            endings = await anyio.to_thread.run_sync(told, {tmp_path: lives})
            assert endings[tmp_path] == [KILLED] * 100
            with anyio.fail_after(2 * PROMISED_S):
                ends = {run: (await control.ended(run)).phase for run in runs}
        waits = [await waited(store, run, VERBS[verb][0]) for run, verb in runs.items()]

    assert ends == {run: VERBS[verb][1] for run, verb in runs.items()}
    record_property("slowest_s", max(waits))
    assert len(waits) == 100
    assert max(waits) < PROMISED_S
