"""A thousand cancels at the worst moments, and a witness outside who has seen what really happened.

Four in ten of the runs have children, some of those have children too, and all of them come under
the same promises: the person has cancelled the tree and is told of the end of the tree.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from engines.bad import BadEngine
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from scenarios import torture_cancel, torture_world
from scenarios.conftest import failed_drivers
from scenarios.ledger import SOCKET, Ledger, witness
from scenarios.torture_audit import Case, Story, processes_left, tree
from scenarios.torture_cancel import Matchmaker, Plan, carry_out
from scenarios.torture_plans import drawn
from scenarios.torture_world import clerk

CANCELS = 1000
FROM_OUTSIDE = 300  # by a second process on the same file
IN_A_CROWD = 300  # of all, some at once; the others have little company and are aimed at
CROWD, COMPANY = 40, 2
BADLY_PLACED = 125
CLOSE_S = 0.001
CLOSE_MIN = 100
BUCKETS_MS = [-50.0, -10.0, -5.0, -2.0, -1.0, -0.5, -0.1, 0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0]


class Outside:
    """The second process: it is told of a run and a moment, and cancels."""

    def __init__(self, address: str) -> None:
        paths = os.pathsep.join(filter(None, sys.path))
        self.process = subprocess.Popen(
            [sys.executable, torture_cancel.__file__, address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": paths},
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    async def carry_out(self, control: Control, ledger: Ledger, plan: Plan) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(plan) + b"\n")
        self.process.stdin.flush()
        await control.ended(plan.run)

    def end(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(20)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    with witness(tmp_path) as ledger:
        monkeypatch.setenv(SOCKET, str(tmp_path / "ledger"))
        torture_world.ledger.cache_clear()
        yield ledger
        torture_world.ledger().close()


@asynccontextmanager
async def driving(folder: Path) -> AsyncIterator[Control]:
    async with (
        Matchmaker.open(folder / "journals.db") as store,
        LocalEngine.open(store, [clerk], workdir=folder / "work") as engine,
    ):
        yield Control(store, engine)


async def torture(
    control: Control, ledger: Ledger, outside: Outside, seeds: Sequence[int] = range(CANCELS)
) -> list[str]:
    """Start all the runs, some at once, each with somebody who cancels it in his moment."""
    runs: list[str] = []

    async def one(seed: int, places: anyio.CapacityLimiter) -> None:
        task, plan = drawn(seed, aimed=seed >= IN_A_CROWD)
        async with places:
            run = await control.start(clerk, "work", input=msgspec.to_builtins(task))
            runs.append(run)
            who = outside.carry_out if seed % (CANCELS // FROM_OUTSIDE) == 0 else carry_out
            await who(control, ledger, msgspec.structs.replace(plan, run=run))

    crowd = [seed for seed in seeds if seed < IN_A_CROWD]
    for size, shift in ((CROWD, crowd), (COMPANY, [seed for seed in seeds if seed >= IN_A_CROWD])):
        places = anyio.CapacityLimiter(size)
        async with anyio.create_task_group() as tasks:
            for seed in shift:
                tasks.start_soon(one, seed, places)
    return runs


def distances(trees: Sequence[Sequence[Case]]) -> list[float]:
    """For each cancel, how long after the nearest start of an attempt it came, in seconds."""
    found = []
    for cases in trees:
        asked = cases[0].cancels[0].at
        if starts := [at for case in cases for at in case.starts]:
            found.append(min((asked - at for at in starts), key=abs))
    return found


def histogram(found: Sequence[float]) -> str:
    counts = Counter(sum(one * 1000 > edge for edge in BUCKETS_MS) for one in found)
    edges = ["-∞", *(f"{edge:g}" for edge in BUCKETS_MS), "∞"]
    lines = [f"{edges[n]:>5} … {edges[n + 1]:<5} ms {counts[n]:5}" for n in range(len(edges) - 1)]
    return "\n".join(["A cancel came so long after the nearest start:", *lines])


def summary(cases: Sequence[Case]) -> str:
    words = Counter(line.word for case in cases for line in case.receipt.lines)
    below = [case for case in cases if case.top is not case]
    ends = Counter(str(case.receipt.phase) for case in below)
    unborn = sum(not case.told for case in below)
    reads = sum(len(case.reads_after_the_answer("outside")) for case in cases)
    seen = sum(len(case.told) for case in cases)
    return (
        f"{seen} things seen, {reads} reads begun after an answer to the other process\n"
        f"{len(below)} runs below: {dict(ends)}, {unborn} of them did nothing\n{dict(words)}"
    )


async def tortured(
    control: Control, ledger: Ledger, outside: Outside, seeds: Sequence[int]
) -> list[list[Case]]:
    """All of it: every tree, as it tells of itself and as the witness does."""
    story = Story(list)
    runs = await torture(control, ledger, outside, seeds)
    assert outside.end() == 0
    for told in ledger.read():
        story[told.about.split(":")[0]].append(told)
    return [await tree(control, run, story) for run in runs]


def assert_every_promise_kept(cases: Sequence[Case]) -> None:
    assert [late for case in cases for late in case.begun_after_the_answer()] == []
    assert [late for case in cases for late in case.reads_after_the_answer("library")] == []
    assert [late for case in cases for late in case.acted_after_the_end()] == []
    assert [(case.receipt.run, lie) for case in cases for lie in case.untrue()] == []
    assert [(case.receipt.run, why) for case in cases for why in case.left_out()] == []
    assert processes_left() == []


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.timeout(300)
async def test_a_thousand_cancels_keep_every_promise(
    tmp_path: Path, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    began = time.monotonic()
    outside = Outside(str(tmp_path / "journals.db"))
    try:
        async with driving(tmp_path) as control:
            trees = await tortured(control, ledger, outside, range(CANCELS))
            took = time.monotonic() - began
    finally:
        outside.process.kill()
        outside.process.wait(10)

    cases = [case for one in trees for case in one]
    found = distances(trees)
    close = sum(abs(one) <= CLOSE_S for one in found)
    sys.stdout.write(
        f"\n{len(trees)} cancels, {took:.1f} s\n{summary(cases)}\n{histogram(found)}\n"
    )
    assert len(trees) == CANCELS
    assert close >= CLOSE_MIN
    assert_every_promise_kept(cases)
    assert failed_drivers(caplog) == []


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.timeout(120)
async def test_two_drivers_for_every_run_break_no_promise(
    tmp_path: Path, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    """Placed by an engine that starts two for each, on two workers, and forgets every third."""
    outside = Outside(str(tmp_path / "journals.db"))
    try:
        async with (
            Matchmaker.open(tmp_path / "journals.db") as store,
            BadEngine.open(store, [clerk], workdir=tmp_path / "work") as engine,
        ):
            every = range(0, CANCELS, CANCELS // BADLY_PLACED)
            trees = await tortured(Control(store, engine), ledger, outside, every)
    finally:
        outside.process.kill()
        outside.process.wait(10)

    assert len(trees) == BADLY_PLACED
    assert_every_promise_kept([case for one in trees for case in one])
    assert failed_drivers(caplog) == []
