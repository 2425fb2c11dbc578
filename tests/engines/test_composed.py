"""What ``deploy/compose.yaml`` starts, started: its commands and checks, as processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import anyio

from engines.composed import Container, services
from engines.conftest import ON_RESTATE
from engines.fleet import PATHS
from engines.hosts import RestateServer
from engines.link import linked, to_port
from midflight.control.remote import RemoteControl
from midflight.engines.restate_address import SERVICE
from midflight.interfaces.http.access.keyring import Keyring
from midflight.journal.phases import Role
from ports import free_port

pytestmark = ON_RESTATE

REPORTS = """
import anyio
from midflight import agent, tool


@tool(effect="read")
async def read(page):
    await anyio.sleep(0.1)
    return page


@agent()
async def reporter(run):
    pages = [await run.step(f"Read page {n}", read, n) for n in range(int(run.brief))]
    return len(pages)
"""
UP_S = 60.0


@contextmanager
def started(*containers: Container) -> Iterator[None]:
    try:
        yield
    finally:
        for container in containers:
            if container.process.poll() is None:
                container.process.kill()
                container.process.wait(10)


async def until_healthy(*containers: Container) -> None:
    with anyio.fail_after(UP_S):
        for container in containers:
            while not await anyio.to_thread.run_sync(container.is_healthy):
                assert container.process.poll() is None
                await anyio.sleep(0.1)


async def test_what_it_starts_gets_healthy_does_its_work_and_leaves_within_its_grace(
    restate: RestateServer, postgres_address: str, tmp_path: Path
) -> None:
    (tmp_path / "reports.py").write_text(REPORTS)
    token = Keyring(tmp_path / "keys.json").issue("ann", Role.OPERATOR)
    place, front, found = restate.place(SERVICE), str(free_port()), services()
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": PATHS,
        "MIDFLIGHT_STORE": f"{postgres_address}&schema=test_{uuid4().hex}",
        "MIDFLIGHT_RESTATE": place.ingress,
        "MIDFLIGHT_RESTATE_ADMIN": place.admin,
    }
    async with linked() as name:  # what the name of the service is there: both of its containers
        uri = {"worker-v1:9080": f"127.0.0.1:{name.port}"}
        ports = [free_port(), free_port()]
        name.ends.extend(map(to_port, ports))
        server = Container(found["server"], {"8321": front}, environment, tmp_path)
        first, second = (
            Container(found["worker-v1"], {**uri, "9080": str(port)}, environment, tmp_path)
            for port in ports
        )
        with started(server, first, second):
            await until_healthy(server, first, second)
            async with RemoteControl.open(f"http://127.0.0.1:{front}", token) as remote:
                runs = [await remote.start("reporter", "20") for _ in range(6)]
                await remote.until(runs[-1], lambda state: state.spent.steps > 0)
                assert await anyio.to_thread.run_sync(first.stop) == 0
                assert [await remote.result(run) for run in runs] == [20] * 6
            assert await anyio.to_thread.run_sync(second.stop) == 0
            assert await anyio.to_thread.run_sync(server.stop) == 0
