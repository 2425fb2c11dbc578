"""A thousand cancels at the worst moments, and a witness outside who has seen what really happened.

Children of runs come under the same promises: a kind of work for them belongs into ``KINDS``.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from midflight.control import Control
from midflight.engines.local import LocalEngine
from midflight.kernel import events as e
from midflight.kernel.record import Recorded
from midflight.tools.orphans import MARK
from scenarios import torture_cancel, torture_world
from scenarios.conftest import failed_drivers
from scenarios.ledger import SOCKET, Ledger, Told, witness
from scenarios.torture_audit import Case
from scenarios.torture_cancel import Matchmaker, Plan, carry_out
from scenarios.torture_world import clerk

CANCELS = 1000
FROM_OUTSIDE = 300  # by a second process on the same file
IN_A_CROWD = 300  # of all, some at once; the others have little company and are aimed at
CROWD, COMPANY = 40, 2
CLOSE_S = 0.001
CLOSE_MIN = 100
COMMON = ["create", "order", "book", "lock", "pay", "send", "careful", "upsert", "engrave", "look"]
BUCKETS_MS = [-50.0, -10.0, -5.0, -2.0, -1.0, -0.5, -0.1, 0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0]


def drawn(seed: int, *, aimed: bool) -> tuple[list[str], Plan]:
    """What a run does, and when it is cancelled; its name comes later."""
    chance = random.Random(seed)
    kinds = chance.choices(COMMON, k=chance.randint(3, 6))
    if seed % 25 == 0:
        kinds[chance.randrange(2)] = "convert"
    if seed % 40 == 1:
        kinds[0] = "glue"
    entries = ["+".join(kinds[:2]), *kinds[2:]] if chance.random() < 0.3 else kinds
    effects = sum(kind != "look" for kind in kinds)
    moments = ["starting"] * 6 if aimed else ["entered"]
    moment = chance.choice(["started", "started", "settled", *moments])
    most = {"settled": len(entries), "entered": 1}.get(moment, effects)
    n = chance.randint(1, max(1, most))
    if "send" in kinds and chance.random() < 0.5 and not aimed:
        moment, n = "window", 1
    return entries, Plan(
        run="",
        moment=moment if effects else "entered",
        n=n,
        wait=0.0 if aimed else chance.choice([0.0, chance.random() / 100]),
        turns=chance.randrange(10) if aimed and moment == "settled" else 0,
        now=chance.random() < 0.1,
        again=chance.random() < 0.1,
    )


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


async def torture(control: Control, ledger: Ledger, outside: Outside) -> list[str]:
    """Start all the runs, some at once, each with somebody who cancels it in his moment."""
    runs: list[str] = []

    async def one(seed: int, places: anyio.CapacityLimiter) -> None:
        entries, plan = drawn(seed, aimed=seed >= IN_A_CROWD)
        async with places:
            run = await control.start(clerk, "work", input=entries)
            runs.append(run)
            who = outside.carry_out if seed % (CANCELS // FROM_OUTSIDE) == 0 else carry_out
            await who(control, ledger, msgspec.structs.replace(plan, run=run))

    seeds = range(CANCELS)
    for size, shift in ((CROWD, seeds[:IN_A_CROWD]), (COMPANY, seeds[IN_A_CROWD:])):
        places = anyio.CapacityLimiter(size)
        async with anyio.create_task_group() as tasks:
            for seed in shift:
                tasks.start_soon(one, seed, places)
    return runs


def distances(journals: Sequence[Sequence[Recorded]]) -> list[float]:
    """For each cancel, how long after the nearest start of an attempt it came, in seconds."""
    found = []
    for journal in journals:
        starts = [r.at for r in journal if isinstance(r.event, e.AttemptStarted)]
        asked = next(r.at for r in journal if isinstance(r.event, e.CancelRequested))
        if starts:
            found.append(min((asked - at for at in starts), key=abs))
    return found


def histogram(found: Sequence[float]) -> str:
    counts = Counter(sum(one * 1000 > edge for edge in BUCKETS_MS) for one in found)
    edges = ["-∞", *(f"{edge:g}" for edge in BUCKETS_MS), "∞"]
    lines = [f"{edges[n]:>5} … {edges[n + 1]:<5} ms {counts[n]:5}" for n in range(len(edges) - 1)]
    return "\n".join(["A cancel came so long after the nearest start:", *lines])


def processes_left() -> list[int]:
    """Those that carry the mark of a tool of ours, wherever they have gone."""
    mark = f"{MARK}={os.getpid()}.".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


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
            runs = await torture(control, ledger, outside)
            assert outside.end() == 0
            took = time.monotonic() - began
            journals = [await control.store.read(run) for run in runs]
            receipts = [await control.receipt(run) for run in runs]
    finally:
        outside.process.kill()
        outside.process.wait(10)
    story: defaultdict[str, list[Told]] = defaultdict(list)
    for told in ledger.read():
        story[told.about.split(":")[0]].append(told)
    cases = [Case(j, r, story[r.run]) for j, r in zip(journals, receipts, strict=True)]

    found = distances(journals)
    close = sum(abs(one) <= CLOSE_S for one in found)
    words = Counter(line.word for receipt in receipts for line in receipt.lines)
    reads = sum(len(case.reads_after_the_answer("outside")) for case in cases)
    sys.stdout.write(
        f"\n{len(cases)} cancels, {took:.1f} s, {close} within 1 ms of a start, "
        f"{sum(len(case.told) for case in cases)} things seen, "
        f"{reads} reads begun after an answer to the other process\n"
        f"{dict(words)}\n{histogram(found)}\n"
    )
    assert len(cases) == CANCELS
    assert close >= CLOSE_MIN
    assert [late for case in cases for late in case.begun_after_the_answer()] == []
    assert [late for case in cases for late in case.reads_after_the_answer("library")] == []
    assert [late for case in cases for late in case.acted_after_the_end()] == []
    assert [(case.receipt.run, lie) for case in cases for lie in case.untrue()] == []
    assert processes_left() == []
    assert failed_drivers(caplog) == []
