"""What an operator is asked before a kill is true of what the kill does, however much there is."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from cli.scene import Scene
from midflight.control import Control
from midflight.errors import InvalidRequest
from midflight.stores import open_store
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import Store
from stores.runs import OLGA, running, start

QUEUED = 520  # more than a page of any list


async def fill(store: Store) -> None:
    """Many runs that wait for a driver, two at work, one that answers aside, one apart."""
    for number in range(QUEUED):
        await start(store, f"r-queued-{number:03}", agent="host")
    for run in ("r-working-1", "r-working-2", "r-beside", "r-apart"):
        agent = {"r-beside": "host.aside", "r-apart": "guest"}.get(run, "host")
        await running(store, run, driver=f"d-{run}", agent=agent, thread=f"t-{run}")


@pytest.mark.anyio
async def test_everything_is_in_scope_that_a_kill_reaches_page_after_page() -> None:
    store = MemoryStore()
    await fill(store)
    control = Control(store)

    host = [row.journal for row in await control.in_scope("agent:host")]
    assert len(host) == len(set(host)) == QUEUED + 3
    assert "r-beside" in host
    assert [row.journal for row in await control.in_scope("agent:guest")] == ["r-apart"]
    assert [row.journal for row in await control.in_scope("thread:t-r-apart")] == ["r-apart"]
    assert len(await control.in_scope("all")) == QUEUED + 4
    assert await control.in_scope("agent:nobody") == []


@pytest.mark.anyio
@pytest.mark.parametrize("scope", ["everything", "agent:", "thread", "all:of it"])
async def test_what_is_no_scope_is_not_counted_as_all(scope: str) -> None:
    control = Control(MemoryStore())
    with pytest.raises(InvalidRequest, match="is not a scope"):
        await control.in_scope(scope)
    with pytest.raises(InvalidRequest, match="is not a scope"):
        await control.kill(scope, who=OLGA)


@pytest.mark.slow
def test_the_question_before_a_kill_tells_what_stops_from_what_only_may_not_move(
    tmp_path: Path,
) -> None:
    async def prepare() -> None:
        async with open_store(f"sqlite:{tmp_path / 'midflight.db'}") as store:
            await fill(store)

    anyio.run(prepare)
    scene = Scene(tmp_path, "--store", "midflight.db")

    asked = scene.said("kill", "agent:host", status=1)
    assert f"Stop 3 runs at work now, and keep {QUEUED} queued, paused or waiting" in asked
    assert "No undo and no saving." in asked
    assert "Stop 1 run at work now? No undo" in scene.said("kill", "agent:guest", status=1)
    assert f"{QUEUED + 4} live runs" in scene.said("doctor")
    assert len(scene.json("kill", "agent:host", "--yes")["killed"]) == 3
