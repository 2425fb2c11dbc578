"""How trials are played: until so many count, and not before there is something to interrupt."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest

from midflight.kit.adapters import tools
from midflight.kit.plays import ROUNDS_MAX, end_processes_of, until_counted
from midflight.kit.score import Trial
from midflight.kit.witnesses import Told, happened, keeping

pytestmark = pytest.mark.anyio


def trial(number: int, *, in_time: bool = True, came: bool = True) -> Trial:
    """A run with one thing to do, which is stopped before or after it is done."""
    run = f"r-{number}"
    order = ("pressed", "acted") if in_time else ("acted", "pressed")
    told = [
        Told(n, n, what, f"{run}/a" if what == "acted" else run) for n, what in enumerate(order)
    ]
    return Trial(run, told, wanted=("a",), came=came)


async def test_a_trial_that_was_over_too_early_is_played_anew_under_another_number() -> None:
    rounds: list[range] = []

    async def play(numbers: range) -> list[Trial]:
        rounds.append(numbers)
        return [trial(n, in_time=n not in {1, 4, 10}) for n in numbers]

    trials = await until_counted(10, play)

    assert rounds == [range(10), range(10, 12), range(12, 13)]
    assert len(trials) == 13


async def test_a_run_that_never_came_has_failed_and_is_not_played_anew() -> None:
    async def play(numbers: range) -> list[Trial]:
        return [trial(n, came=False) for n in numbers]

    assert len(await until_counted(10, play)) == 10


async def test_a_runtime_that_is_always_done_too_early_is_not_played_for_ever() -> None:
    async def play(numbers: range) -> list[Trial]:
        return [trial(n, in_time=False) for n in numbers]

    assert len(await until_counted(2, play)) == 2 * ROUNDS_MAX


@pytest.mark.parametrize("call", ["tools.spawn_and_wait({})", "asyncio.run(tools.spawn({}))"])
async def test_processes_are_there_and_one_has_left_the_group_when_they_are_told_of(
    tmp_path: Path, call: str
) -> None:
    code = "import asyncio; from midflight.kit.adapters import tools; " + call
    command = [sys.executable, "-c", code.format("'r1/a1', 9_000")]
    async with keeping(tmp_path) as ledger:
        async with anyio.create_task_group() as tasks:
            env = os.environ | {tools.LEDGER: str(ledger.path)}
            tasks.start_soon(partial(anyio.run_process, command, env=env))
            assert await ledger.until("r1", happened("spawned"))

            left = end_processes_of("r1", ledger.path)

        assert await ledger.until("r1", happened("acted"))
    assert left >= 3


def test_a_process_that_is_about_to_become_another_is_not_overlooked(tmp_path: Path) -> None:
    """At such a moment nothing shows whose it is: one look in twenty overlooks this one."""
    again = tmp_path / "again"
    again.write_text(f"exec sh {again}\n")
    found = []
    for number in range(40):
        with subprocess.Popen(["sh", again], env=marked(f"swift-{number}", tmp_path)) as process:
            found.append(end_processes_of(f"swift-{number}", tmp_path))
            process.kill()

    assert found == [1] * 40


def test_who_plays_the_same_at_the_same_time_is_left_alone(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    sleeps = ["sleep", "60"]
    with (
        subprocess.Popen(sleeps, env=marked("process-3", ours)) as mine,
        subprocess.Popen(sleeps, env=marked("process-3", theirs)) as another,
    ):
        found = end_processes_of("process-3", ours)
        left = another.poll()
        for process in (mine, another):
            process.kill()

    assert (found, left) == (1, None)


def marked(run: str, ledger: Path) -> dict[str, str]:
    """The environment of a process that a tool of this run has started."""
    return os.environ | {tools.MARK: run, tools.LEDGER: str(ledger)}
