"""A kill that meets the very start of a run stops it, and no driver stumbles over it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from typing_extensions import override

from midflight.agents import agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.journal import events as e
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import Append, Committed
from scenarios.conftest import failed_drivers

pytestmark = pytest.mark.anyio

OLGA = Actor("olga", Role.OPERATOR)


class JustBefore(MemoryStore):
    """Everything is stopped at the moment at which a driver is about to enter a run."""

    @override
    async def append(self, decision: Append) -> Committed:
        events = [event for entry in decision.entries for event in entry.events]
        if any(isinstance(event, e.RunEntered) for event in events):
            await self.kill("all", OLGA)
        return await super().append(decision)


async def test_a_kill_just_before_a_run_is_entered_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entered: list[str] = []

    @agent("late")
    async def late(run: Run) -> None:
        entered.append(run.brief)

    store = JustBefore()
    async with LocalEngine.open(store, [late], workdir=tmp_path, sweep_s=0.02) as engine:
        control = Control(store, engine)
        run = await control.start(late, "work")
        with anyio.fail_after(5):
            while not await store.switches():  # noqa: ASYNC110 - nobody tells of a switch
                await anyio.sleep(0.005)
        await anyio.sleep(0.1)  # some sweeps
        state = await control.state(run)

    assert (state.phase, state.driver, entered) == (Phase.QUEUED, "", [])
    assert failed_drivers(caplog) == []
