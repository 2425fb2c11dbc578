"""Two drivers of one run, alive in two processes and each sure of itself: no promise is broken.

The count is small; ``MIDFLIGHT_CONTESTED=1000 pytest tests/engines/test_two_drivers.py`` for more.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import anyio
import msgspec
import pytest

from engines.contest import Contest
from engines.contested_audit import Contested
from midflight.control import Control
from midflight.stores.postgres import PostgresStore
from midflight.stores.sqlite import SqliteStore
from scenarios.ledger import SOCKET, Ledger, witness
from scenarios.torture_audit import Story, processes_left, tree
from scenarios.torture_cancel import carry_out
from scenarios.torture_plans import drawn
from scenarios.torture_world import clerk

CANCELS = int(os.environ.get("MIDFLIGHT_CONTESTED", "50"))
AT_ONCE = 12
PATIENCE_S = 1.0
STORY_S = 60.0
pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(60 + CANCELS)]


class Desk:
    """Where a person controls runs, and hears of what is about to begin."""

    engine: Contest

    async def starting(self, run: str, moment: str, n: int) -> None:
        await self.engine.beginning(run, n)


class PostgresDesk(Desk, PostgresStore):
    pass


class SqliteDesk(Desk, SqliteStore):
    pass


Place = tuple[str, AbstractAsyncContextManager[PostgresDesk | SqliteDesk]]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The store's address, as workers are told it, and the desk."""
    if request.param == "sqlite":
        path = tmp_path / "journals.db"
        return str(path), SqliteDesk.open(path)
    address, schema = request.getfixturevalue("postgres_address"), f"test_{uuid4().hex}"
    return f"{address} schema={schema}", PostgresDesk.open(address, schema=schema)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    with witness(tmp_path) as ledger:
        monkeypatch.setenv(SOCKET, str(tmp_path / "ledger"))
        yield ledger


@asynccontextmanager
async def contested(place: Place, folder: Path) -> AsyncIterator[tuple[Control, Contest]]:
    address, opening = place
    async with opening as store, Contest.open(store, address, folder) as engine:
        store.engine = engine
        yield Control(store, engine), engine


async def torture(control: Control, ledger: Ledger) -> list[str]:
    """Start runs, a few at once, and cancel each in its moment."""
    runs: list[str] = []
    places = anyio.CapacityLimiter(AT_ONCE)

    async def one(seed: int) -> None:
        task, plan = drawn(seed, aimed=seed % 4 != 0)
        async with places:
            run = await control.start(clerk, "work", input=msgspec.to_builtins(task))
            runs.append(run)
            n = min(plan.n, 2) if plan.moment == "starting" else plan.n
            now = msgspec.structs.replace(plan, run=run, n=n, patience=PATIENCE_S)
            with anyio.fail_after(STORY_S):
                await carry_out(control, ledger, now)

    async with anyio.create_task_group() as tasks:
        for seed in range(CANCELS):
            tasks.start_soon(one, seed)
    return runs


async def test_two_drivers_alive_at_once_break_no_promise_of_a_cancel(
    place: Place, ledger: Ledger, tmp_path: Path
) -> None:
    story = Story(list)
    async with contested(place, tmp_path) as (control, engine):
        runs = await torture(control, ledger)
        processes = engine.processes
        await anyio.sleep(0.5)  # for whoever is still at it, taken for lost
        for told in ledger.read():
            story[told.about.split(":")[0]].append(told)
        trees = [await tree(control, run, story, kind=Contested) for run in runs]
    cases = [case for one in trees for case in one if isinstance(case, Contested)]
    sys.stdout.write(f"\n{summary(cases)}\n")

    assert [late for case in cases for late in case.begun_after_the_answer()] == []
    assert [late for case in cases for late in case.acted_after_the_end()] == []
    assert [late for case in cases for late in case.decided_late] == []
    assert [twice for case in cases for twice in case.applied_twice()] == []
    assert [(case.receipt.run, lie) for case in cases for lie in case.untrue()] == []
    assert [(case.receipt.run, why) for case in cases for why in case.left_out()] == []
    assert [left for process in processes for left in processes_left(process)] == []
    logs = [(tmp_path / f"worker-{number}.log").read_text() for number in range(2)]
    assert [log for log in logs if log] == []
    if "schema=" in place[0]:
        assert sum(case.claims > 1 for case in cases) > CANCELS / 2  # they were contested


def summary(cases: list[Contested]) -> str:
    claims = Counter(case.claims for case in cases)
    words = Counter(line.word for case in cases for line in case.receipt.lines)
    lost = sum(len(case.lost) for case in cases)
    late = sum(case.late() for case in cases)
    return (
        f"{len(cases)} runs, claims {dict(sorted(claims.items()))}, {lost} lost, "
        f"{late} begun after the answer, {dict(words)}"
    )
