"""A store that may be read and not written for a while: what a tool has done is not forgotten."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.run import Run
from midflight.stores.postgres import PostgresStore
from scenarios.conftest import failed_drivers
from scenarios.stage import Stage
from stores.standby import served

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


async def test_what_was_done_while_the_store_was_read_only_is_recorded_when_it_is_not(
    postgres_address: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage("read-only")
    make = stage.writer()
    cue = stage.gate("it")

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Make", make, "it")

    async with (
        served(postgres_address) as server,
        PostgresStore.open(server.address, schema=f"test_{uuid4().hex}") as store,
        LocalEngine.open(store, [clerk], workdir=tmp_path, sweep_s=0.05) as engine,
    ):
        control = Control(store, engine)
        run = await control.start(clerk, "")
        await stage.until_begun("it")
        await server.lead_to_a_standby()
        cue.set()
        with anyio.fail_after(15):
            while not repeats(caplog):  # noqa: ASYNC110 - a log tells nobody
                await anyio.sleep(0.02)

        await server.lead_to_the_primary()
        await server.hang_up()

        with anyio.fail_after(20):
            assert await control.result(run) == "made it"
        assert [line.word for line in (await control.receipt(run)).lines] == ["kept"]
    assert failed_drivers(caplog) == []
    assert stage.done == ["it"]


def repeats(caplog: pytest.LogCaptureFixture) -> int:
    actions = [getattr(record, "action", "") for record in caplog.records]
    return actions.count("store_awaited") + actions.count("driver_failed")
