"""The real Restate server, on ports and in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from midflight.engines.restate_address import Restate
from ports import free_port

MODULES = Path(__file__).parent / "node_modules" / "@restatedev"
START_S = 30
SETTINGS = {
    "RESTATE_DEFAULT_NUM_PARTITIONS": "4",
    "RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE": "256MiB",
    "RESTATE_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "RESTATE_LOG_FILTER": "warn",
    "RESTATE_LOG_DISABLE_ANSI_CODES": "true",
    # as in deploy/: a frozen worker is noticed soon, and calls are spread over connections
    "RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_INTERVAL": "2s",
    "RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_TIMEOUT": "2s",
    "RESTATE_WORKER__INVOKER__HTTP2_STREAMS_PER_CONNECTION_LIMIT": "4",
}


class RestateServer:
    """Can be killed and started again with what it has on its disk. Made by ``restate_server``."""

    def __init__(self, folder: Path, **settings: str) -> None:
        (self._program,) = MODULES.glob("restate-server-*/bin/restate-server")
        self._folder = folder
        self._ingress, self._admin, node = free_port(), free_port(), free_port()
        self._environment = os.environ | {
            **SETTINGS,
            "RESTATE_BASE_DIR": str(folder),
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{self._ingress}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{self._admin}",
            **settings,
        }
        self.process: subprocess.Popen[bytes]

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self._program, "--node-name", "one"],
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._await(f"http://127.0.0.1:{self._admin}/health")
        self._await(f"http://127.0.0.1:{self._ingress}/restate/health")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def forget(self) -> None:
        """Its disk is gone."""
        for path in self._folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def place(self, service: str) -> Restate:
        """Where it is, with a name for the runs of one test."""
        return Restate(
            ingress=f"http://127.0.0.1:{self._ingress}",
            admin=f"http://127.0.0.1:{self._admin}",
            service=service,
        )

    def _await(self, url: str) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                with urlopen(url, timeout=1) as answer:
                    assert answer.status == 200
                    return
            except (URLError, OSError):
                assert self.process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < deadline, (self._folder / "log").read_text()
                time.sleep(0.05)


@contextmanager
def restate_server(**settings: str) -> Iterator[RestateServer]:
    """Run a server for as long as the block does; its files go with it."""
    folder = Path(tempfile.mkdtemp(prefix="mf-restate-"))
    server = RestateServer(folder, **settings)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)
