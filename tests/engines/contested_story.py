"""The story of two drivers: runs are cancelled while two workers are each sure to drive them.

The tests tell it with a small count, and ``make bench-scale`` with a large one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import msgspec

from engines.contest import Contest
from engines.contested_audit import Contested
from midflight.control import Control
from midflight.stores.postgres import PostgresStore
from midflight.stores.protocol import Store
from midflight.stores.sqlite import SqliteStore
from scenarios.ledger import Ledger
from scenarios.torture_audit import Story, processes_left, tree
from scenarios.torture_cancel import carry_out
from scenarios.torture_plans import drawn
from scenarios.torture_world import clerk

AT_ONCE = 12
PATIENCE_S = 1.0
STORY_S = 60.0


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
Opening = Callable[[Store, str, Path], AbstractAsyncContextManager[Contest]]
USUAL = ("worker_registered", "leaving", "tool_raised", "person_asked")
"""Actions in the log of a worker at a Restate; its tools fail on purpose."""


@asynccontextmanager
async def contested(
    place: Place, folder: Path, contest: Opening
) -> AsyncIterator[tuple[Control, Contest]]:
    address, opening = place
    async with opening as store, contest(store, address, folder) as engine:
        store.engine = engine
        yield Control(store, engine), engine


async def torture(control: Control, ledger: Ledger, cancels: int) -> list[str]:
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
        for seed in range(cancels):
            tasks.start_soon(one, seed)
    return runs


async def told(
    place: Place,
    ledger: Ledger,
    folder: Path,
    cancels: int,
    contest: Opening = Contest.open,
) -> tuple[list[Contested], dict[str, list[object]]]:
    """Tell it: the runs and their children, and everything that is not as it must be."""
    story = Story(list)
    async with contested(place, folder, contest) as (control, engine):
        runs = await torture(control, ledger, cancels)
        processes = engine.processes
        await anyio.sleep(0.5)  # for whoever is still at it, taken for lost
        for line in ledger.read():
            story[line.about.split(":")[0]].append(line)
        trees = [await tree(control, run, story, kind=Contested) for run in runs]
    cases = [case for one in trees for case in one if isinstance(case, Contested)]
    logs = [(folder / f"worker-{number}.log").read_text() for number in range(2)]
    unusual = [line for log in logs for line in log.splitlines() if not _is_usual(line)]
    wrong: dict[str, list[object]] = {
        "begun after the answer": [x for case in cases for x in case.begun_after_the_answer()],
        "acted after the end": [x for case in cases for x in case.acted_after_the_end()],
        "decided late": [x for case in cases for x in case.decided_late()],
        "applied twice": [x for case in cases for x in case.applied_twice()],
        "untrue": [(case.receipt.run, x) for case in cases for x in case.untrue()],
        "left out": [(case.receipt.run, x) for case in cases for x in case.left_out()],
        "processes left": [x for process in processes for x in processes_left(process)],
        "in the logs": [*unusual],
    }
    return cases, {what: found for what, found in wrong.items() if found}


def _is_usual(line: str) -> bool:
    return line.startswith("{") and msgspec.json.decode(line).get("action") in USUAL


def taken(cases: list[Contested]) -> int:
    """How many of them were taken from a living driver at least once."""
    return sum(case.claims > 1 for case in cases)


def summary(cases: list[Contested]) -> str:
    claims = Counter(case.claims for case in cases)
    words = Counter(line.word for case in cases for line in case.receipt.lines)
    lost = sum(len(case.lost) for case in cases)
    late = sum(case.late() for case in cases)
    return (
        f"{len(cases)} runs, claims {dict(sorted(claims.items()))}, {lost} lost, "
        f"{late} begun after the answer, {dict(words)}"
    )
