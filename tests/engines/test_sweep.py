"""What a sweep does for runs that nobody drives: asks for a driver, or says that nobody comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.engines import sweep
from midflight.engines.sweep import Sweep
from midflight.inputs import new_id
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from midflight.tasks import owned_tasks

pytestmark = pytest.mark.anyio
EVERY_S = 0.01
OPERATOR = Actor("olga", Role.OPERATOR)


@agent("swept")
async def clerk(run: Run) -> None:
    pass


@agent("elsewhere")
async def stranger(run: Run) -> None:
    pass


class Asked:
    """An engine that is asked for drivers and has none."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    async def ensure(self, run: str) -> None:
        self.runs.append(run)


@asynccontextmanager
async def sweeping(store: MemoryStore, asked: Asked) -> AsyncIterator[None]:
    sweeps = 0

    def counted() -> None:
        nonlocal sweeps
        sweeps += 1

    here = Sweep(store, {clerk.name}, asked.ensure, ids=new_id, every_s=EVERY_S, then=counted)
    with anyio.fail_after(20):
        async with owned_tasks(here.keep_on):
            yield
            enough = sweeps + 5
            while sweeps < enough:  # noqa: ASYNC110 - whatever would be asked or said, is by then
                await anyio.sleep(EVERY_S)


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    waits = [r for r in caplog.records if vars(r).get("action") == "run_waits"]
    return [(vars(record)["agent"], record.getMessage()) for record in waits]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "WAITS_S", 3 * EVERY_S)


@pytest.mark.usefixtures("impatient")
async def test_runs_for_which_nobody_comes_are_told_of_once_for_each_agent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, asked = MemoryStore(), Asked()
    control = Control(store)
    known = [await control.start(clerk, "work") for _ in range(3)]
    for _ in range(3):
        await control.start(stranger, "work")

    async with sweeping(store, asked):
        while len(said(caplog)) < 2:  # noqa: ASYNC110
            await anyio.sleep(EVERY_S)

    told = dict(said(caplog))
    assert len(said(caplog)) == 2
    assert "is it reached?" in told["swept"]
    assert "start a server or worker that has it" in told["elsewhere"]
    assert set(asked.runs) == set(known)


async def test_a_run_that_only_just_wants_a_driver_is_no_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, asked = MemoryStore(), Asked()
    run = await Control(store).start(clerk, "work")

    async with sweeping(store, asked):
        pass

    assert run in asked.runs
    assert said(caplog) == []


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("scope", ["all", "agent:swept", "thread:t-swept"])
async def test_for_what_an_operator_has_stopped_nobody_is_asked_until_its_release(
    caplog: pytest.LogCaptureFixture, scope: str
) -> None:
    store, asked = MemoryStore(), Asked()
    control = Control(store)
    run = await control.start(clerk, "work", thread="t-swept")
    await control.kill(scope, who=OPERATOR)

    async with sweeping(store, asked):
        pass
    assert asked.runs == []
    assert said(caplog) == []

    async with sweeping(store, asked):
        await control.release(scope, who=OPERATOR)
    assert set(asked.runs) == {run}
