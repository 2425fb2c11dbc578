"""A driver is killed or frozen when its order has left the machine and has not arrived yet.

Nobody is told at any moment that it was "aborted (proven)": the provider acts on it 0.3 s later.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from forks import Forked
from midflight.control import Control
from midflight.journal.phases import Phase
from midflight.journal.state import RunState
from midflight.journal.status import status
from scenarios import post_office
from scenarios.post_office import Provider, driving
from stores.programs import environment, next_line

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(60)]
FROZEN_S = 0.1


class Watch:
    """Every line of the run's receipt that anybody could have read."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def over(self, control: Control, run: str) -> None:
        while True:
            for line in (await control.receipt(run)).lines:
                text = f"{line.word} ({line.why})" if line.why else line.word
                if text not in self.lines[-1:]:
                    self.lines.append(text)
            await anyio.sleep(0.02)


@asynccontextmanager
async def cut(how: str, provider: Provider, *where: str) -> AsyncIterator[tuple[str, int]]:
    """Kill or freeze a process as soon as its order was taken; gives its run and its pid."""
    process = Forked(
        [sys.executable, post_office.__file__, str(provider.port), *where],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        run = await anyio.to_thread.run_sync(next_line, process)
        with anyio.fail_after(30):
            await provider.came.wait()
        process.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        yield run, process.pid
    finally:
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_a_cancel_never_says_proven_of_what_arrives_later(tmp_path: Path, how: str) -> None:
    where, watch = (str(tmp_path / "work"), str(tmp_path / "journals.db")), Watch()
    async with (
        Provider().open() as provider,
        cut(how, provider, *where) as (run, process),
        driving(*where) as control,
        anyio.create_task_group() as watching,
    ):
        watching.start_soon(watch.over, control, run)
        await control.cancel(run)
        if how == "frozen":  # it lives, and nobody takes its run
            await anyio.sleep(FROZEN_S)
            os.kill(process, signal.SIGCONT)
        await control.until(run, waits_or_over)
        provider.may_act.set()
        with anyio.fail_after(20):
            assert (await control.ended(run)).phase is Phase.CANCELLED
        await provider.acted.wait()
        await anyio.sleep(0.05)  # the last line is read, too
        watching.cancel_scope.cancel()

    assert provider.ledger == provider.sent
    assert len(provider.sent) == 1
    assert watch.lines[0] == "in flight"
    assert watch.lines[-2].endswith("checked, not seen yet)")
    assert watch.lines[-1] == "kept (no undo)"
    assert not any("proven" in line for line in watch.lines)


def waits_or_over(state: RunState) -> bool:
    return any(name.startswith("settle:") for name in state.timers) or not state.alive


async def test_a_successor_of_a_killed_driver_repeats_nothing_that_arrives_later(
    tmp_path: Path,
) -> None:
    where = (str(tmp_path / "work"), str(tmp_path / "journals.db"))
    async with (
        Provider().open() as provider,
        cut("killed", provider, *where) as (run, _),
        driving(*where) as control,
    ):
        provider.may_act.set()
        with anyio.fail_after(20):
            assert await control.result(run) == "ordered"

    assert provider.ledger == provider.sent
    assert len(provider.sent) == 1


@pytest.mark.postgres
@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_on_postgres_a_person_sees_at_once_what_is_waited_for(
    tmp_path: Path, postgres_address: str, how: str
) -> None:
    """Nobody can prove that the driver is dead, so the wait is long; the words are not."""
    where = (str(tmp_path / "work"), postgres_address, f"test_{uuid4().hex}")
    watch = Watch()
    async with (
        Provider().open() as provider,
        cut(how, provider, *where) as (run, process),
        driving(*where) as control,
        anyio.create_task_group() as watching,
    ):
        watching.start_soon(watch.over, control, run)
        with anyio.fail_after(20):
            state = await control.until(run, waits_or_over)
        assert "checked, not seen yet: order" in status(state, state.at)
        ((_, notice),) = state.notices
        assert "The worker that began it was lost and may still be at it." in notice
        provider.may_act.set()
        await provider.acted.wait()
        await control.cancel(run, now=True)
        with anyio.fail_after(20):
            await control.ended(run)
        if how == "frozen":
            os.kill(process, signal.SIGCONT)
        await anyio.sleep(0.2)  # the last line is read, too
        watching.cancel_scope.cancel()

    assert provider.ledger == provider.sent
    assert len(provider.sent) == 1
    assert watch.lines[-1] == "unknown (worker lost; checked, not seen yet)"
    assert not any("proven" in line for line in watch.lines)
