"""Servers and workers on different machines: every door leads to every run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from engines.conftest import Hired
from engines.elsewhere import read_out, serving
from engines.fleet import PATHS
from midflight.kernel.phases import Phase
from midflight.remote import RemoteControl

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.postgres,
    pytest.mark.node,
    pytest.mark.timeout(120),
]

SOON_S = 0.4


async def test_what_is_started_at_one_server_is_steered_at_another(
    hired: Hired, postgres_address: str
) -> None:
    async with hired(1) as (control, workers):
        with ExitStack() as servers:
            doors = [
                servers.enter_context(serving(control, workers, postgres_address, name))
                for name in "ab"
            ]
            async with RemoteControl.open(*doors[0]) as one, RemoteControl.open(*doors[1]) as other:
                run = await one.start("busy", "0")
                await other.pause(run)
                await one.until(run, lambda state: state.phase is Phase.PAUSED)
                await other.redirect(run, "40")
                await one.resume(run)
                await other.until(run, lambda state: state.brief == "40")
                await one.cancel(run)
                assert (await other.ended(run)).phase is Phase.CANCELLED

                asked = await one.start("asker", "ask")
                state = await other.until(asked, lambda state: bool(state.questions))
                await other.answer(asked, next(iter(state.questions)), "tea")
                assert await one.result(asked) == "tea"

                stopped = await other.start("lingerer", "for ever")
                await one.until(stopped, lambda state: state.phase is Phase.RUNNING)
                await one.kill("agent:lingerer", reason="enough")
                assert (await other.ended(stopped)).phase is Phase.KILLED
                await other.release("agent:lingerer")


async def test_what_a_step_says_is_read_on_another_machine_while_it_says_it(
    hired: Hired, postgres_address: str
) -> None:
    async with hired(1) as (control, workers):
        with serving(control, workers, postgres_address) as door:
            async with RemoteControl.open(*door) as remote:
                run = await remote.start("teller", "100")
                text, late = await read_out(remote, run)

    assert [word.partition("@")[0] for word in text.split()] == [str(n) for n in range(100)]
    assert statistics.median(late) <= SOON_S  # how late the latest are: `make bench-scale`


def test_a_store_that_others_cannot_reach_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "midflight", "worker", "engines.fleet_world", "--engine", "restate"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": PATHS},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 1
    assert "their store must be Postgres" in done.stderr
    assert "Traceback" not in done.stderr
