"""The store is away for longer than it waits itself: no call of a run fails, is lost or doubled.

See ``away.py`` for the story. Times are scaled down, and their ratio is kept or raised: the trouble
lasts ``TROUBLE_S`` (1.2 s) where people met 3 to 14 s, and the stores' own patience is made shorter
still, so that every call outlives it several times.

* A busy or frozen neighbour on SQLite: 1.2 s instead of 10 s; the store waits 0.2 s instead of 10 s
  for its turn (``WAIT_MAX_S``) and 0.1 s instead of 5 s for the file (``BUSY_S``).
* The same neighbour for 12 s, with the patience that the store is shipped with (10 s and 5 s).
* A full disk: 5 s.
* Postgres restarted, its rows locked, its answers lost: a real restart, which takes as long as it
  takes, and 1.2 s for the others; the store waits 0.4 s instead of 10 s
  (``PATIENCE_S``) for the server, and 0.3 s instead of 3 to 6 s for an answer (see ``impatient``).
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from engines.link import BACK
from engines.ways import way_to
from midflight.run import Child, Run
from midflight.stores.postgres import PostgresStore
from midflight.stores.sqlite import SqliteStore
from scenarios import away
from scenarios.away import BUSY_S, WAIT_MAX_S, Away, asynchronous, neighbour, public, store_away
from stores import backends
from stores.programs import TESTS, environment
from stores.restarts import restart

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]


def test_every_call_of_a_run_and_of_a_child_has_a_row() -> None:
    """A new call without one would go to the store unwatched."""
    calls = asynchronous(Run) | asynchronous(Child)

    assert calls == away.ROWS.keys() - {"members that only look"}
    assert public(Child).keys() - calls == {"id", "outcome"}


@pytest.mark.slow
@pytest.mark.parametrize("deaf", [False, True], ids=["nothing gets through", "answers are lost"])
async def test_no_call_fails_while_a_store_answers_nothing(tmp_path: Path, deaf: bool) -> None:
    """Nothing can be read, either. What was done and not answered is not done twice."""
    store = Away()

    def trouble() -> AbstractAsyncContextManager[None]:
        return store.is_away(deaf=deaf)

    assert await store_away(store, trouble, tmp_path / "work") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("held", "frozen"),
    [("file", False), ("file", True), ("turn", True)],
    ids=[
        "another program has locked the file",
        "a program is frozen that has locked the file",
        "a neighbour is frozen in its turn",
    ],
)
async def test_no_call_fails_while_sqlite_is_busy(tmp_path: Path, held: str, frozen: bool) -> None:
    path = tmp_path / "journals.db"

    def trouble() -> AbstractAsyncContextManager[None]:
        return neighbour(held, str(path), frozen=frozen)

    async with SqliteStore.open(path, wait_max_s=WAIT_MAX_S, busy_s=BUSY_S) as store:
        assert await store_away(store, trouble, tmp_path / "work") == []


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [False, True], ids=["busy", "frozen"])
async def test_no_call_fails_while_sqlite_is_busy_for_longer_than_it_is_shipped_to_wait(
    tmp_path: Path, frozen: bool
) -> None:
    path = tmp_path / "journals.db"

    def trouble() -> AbstractAsyncContextManager[None]:
        return neighbour("file", str(path), frozen=frozen)

    async with SqliteStore.open(path) as store:
        assert await store_away(store, trouble, tmp_path / "work", lasts_s=12.0) == []


@pytest.mark.slow
@pytest.mark.namespaces
def test_no_call_fails_while_the_disk_is_full(tmp_path: Path) -> None:
    program = shlex.join([sys.executable, str(TESTS / "scenarios" / "away.py"), str(tmp_path)])
    mount = f"mount -t tmpfs -o size=4m tmpfs {shlex.quote(str(tmp_path))}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f"{mount} && exec {program}"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


@pytest.mark.slow
@pytest.mark.postgres
async def test_no_call_fails_while_postgres_is_restarted(tmp_path: Path, impatient: None) -> None:
    with backends.postgres_server() as address:

        @asynccontextmanager
        async def restarted() -> AsyncIterator[None]:
            async with anyio.create_task_group() as beside:
                beside.start_soon(anyio.to_thread.run_sync, restart, address)
                await anyio.sleep(0.3)  # it is going down
                yield

        async with PostgresStore.open(address) as store:
            assert await store_away(store, restarted, tmp_path / "work") == []


@pytest.mark.slow
@pytest.mark.postgres
async def test_no_call_fails_while_a_frozen_neighbour_has_locked_the_rows(
    tmp_path: Path, postgres_address: str, impatient: None
) -> None:
    schema = f"test_{uuid4().hex}"

    def trouble() -> AbstractAsyncContextManager[None]:
        return neighbour("rows", postgres_address, schema, frozen=True)

    async with PostgresStore.open(postgres_address, schema=schema) as store:
        assert await store_away(store, trouble, tmp_path / "work") == []


@pytest.mark.slow
@pytest.mark.postgres
async def test_nothing_is_written_twice_when_the_answers_of_postgres_are_lost(
    tmp_path: Path, postgres_address: str, impatient: None
) -> None:
    """What was sent has been written, and nobody has heard of it: it is repeated under its id."""
    async with way_to(postgres_address, tmp_path / "way") as (link, address):

        @asynccontextmanager
        async def deaf() -> AsyncIterator[None]:
            link.swallow(BACK)
            yield
            link.swallow()
            link.reset()

        async with PostgresStore.open(address, schema=f"test_{uuid4().hex}") as store:
            assert await store_away(store, deaf, tmp_path / "work") == []
