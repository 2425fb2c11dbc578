"""Two drivers of one run, alive in two processes and each sure of itself: no promise is broken.

The count is small; ``make bench-scale`` has a large one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from engines.contest_restate import RestateContest
from engines.contested_story import Place, PostgresDesk, SqliteDesk, summary, taken, told
from engines.hosts import RestateServer
from scenarios.ledger import SOCKET, Ledger, witness

CANCELS = 50
pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(60 + CANCELS)]


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


async def test_two_drivers_alive_at_once_break_no_promise_of_a_cancel(
    place: Place, ledger: Ledger, tmp_path: Path
) -> None:
    cases, wrong = await told(place, ledger, tmp_path, CANCELS)
    sys.stdout.write(f"\n{summary(cases)}\n")

    assert wrong == {}
    if "schema=" in place[0]:
        assert taken(cases) > CANCELS / 2  # they were contested


@pytest.mark.postgres
@pytest.mark.node
async def test_two_workers_of_a_restate_that_places_every_run_on_both_break_none_either(
    restate: RestateServer, postgres_address: str, ledger: Ledger, tmp_path: Path
) -> None:
    schema = f"test_{uuid4().hex}"
    place: Place = (
        f"{postgres_address} schema={schema}",
        PostgresDesk.open(postgres_address, schema=schema),
    )

    at_restate = partial(RestateContest.open_at, restate)
    cases, wrong = await told(place, ledger, tmp_path, CANCELS, at_restate)
    sys.stdout.write(f"\n{summary(cases)}\n")

    assert wrong == {}
    assert taken(cases) > CANCELS / 2  # they were contested
