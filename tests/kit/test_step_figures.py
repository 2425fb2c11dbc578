"""What `make bench-steps` counts: effects that no cancel has listed, and effects done twice."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from midflight.kit.witnesses import Ledger
from midflight.stores import open_store
from stores.runs import RUN, cancel, running

BENCH = Path(__file__).resolve().parents[2] / "bench"


def bench(name: str) -> Any:
    """A module of the benchmarks, which are programs and no package."""
    sys.path.insert(0, str(BENCH))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCH))


def acted(*told: str) -> dict[str, float]:
    """What is counted of Midflight, when the ledger was told so."""
    ledger = Ledger(Path("ledger"))
    for line in told:
        about, key = line.split()
        ledger.note("acted", about, key)
    found: dict[str, float] = bench("steps")._repeats("midflight", ledger, ["run"])
    return found


def test_a_once_that_happened_twice_is_counted_also_under_the_same_key() -> None:
    assert acted("run/0 k0", "run/0 k0", "run/2 k2")["duplicates"] == 1


def test_a_write_may_happen_again_under_its_key_and_under_no_other() -> None:
    same, other = acted("run/1 k1", "run/1 k1"), acted("run/1 k1", "run/1 k2")

    assert (same["duplicates"], same["writes_done_again_under_their_key"]) == (0, 1)
    assert (other["duplicates"], other["writes_done_again_under_their_key"]) == (1, 0)


def test_every_effect_of_a_peer_counts_that_happened_twice() -> None:
    ledger = Ledger(Path("ledger"))
    for about in ("run/1", "run/1", "run/2", "run/2"):
        ledger.note("acted", about)

    found = bench("steps")._repeats("dbos", ledger, ["run"])

    assert found == {"dbos_duplicates": 2, "dbos_acts": 4}


@pytest.mark.anyio
async def test_an_effect_that_begins_after_a_cancel_counts_unless_the_cancel_has_listed_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    async with open_store(f"sqlite:{path}") as store:
        driver = await running(store)
        settled = await driver.begins("settled")
        await driver.settles(settled)
        await driver.begins("in flight")
        await cancel(store)
    moment = time.monotonic()

    def counted(key: str, after_s: float) -> int:
        found: int = bench("listing").unlisted(
            path, {RUN: moment}, {RUN: [(f"{key}#1", moment + after_s)]}
        )
        return found

    assert counted("in flight", 0.1) == 0
    assert counted("settled", -0.1) == 0
    assert counted("settled", 0.1) == 1
