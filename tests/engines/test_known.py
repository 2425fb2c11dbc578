"""Restate is told where workers are until it has found them there, and nobody says so before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any

import anyio
import pytest

from engines.conftest import ON_RESTATE, RestateHost
from engines.hosts import RestateServer
from engines.link import linked
from midflight.agents import agent
from midflight.control import Control
from midflight.engines.restate_address import Restate
from midflight.engines.restate_placement import RestateEngine, keep_registered, register
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from midflight.tasks import owned_tasks
from ports import free_port

pytestmark = ON_RESTATE
REGISTERED = "worker_registered"
ACTIONS = ("address_reused", "address_shared", "not_newest", REGISTERED)


@pytest.fixture(autouse=True)
def all_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "midflight.engines.restate_placement")


@agent("known")
async def clerk(run: Run) -> str:
    return "done"


@asynccontextmanager
async def registering(place: Restate, uri: str) -> AsyncIterator[None]:
    """By somebody who goes on trying."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(register, place, uri)
            yield
            tasks.cancel_scope.cancel()


async def told(caplog: pytest.LogCaptureFixture, action: str) -> dict[str, Any]:
    """The first thing that is logged of this kind."""
    while True:
        for record in caplog.records:
            if vars(record).get("action") == action:
                return vars(record)
        await anyio.sleep(0.05)


def actions(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said one after the other; who is not known at once registers again."""
    seen = [vars(record).get("action") for record in caplog.records]
    return [action for action, _ in groupby(str(action) for action in seen if action in ACTIONS)]


async def test_a_worker_that_cannot_be_registered_tells_what_restate_says_of_it(
    restate: RestateServer, caplog: pytest.LogCaptureFixture
) -> None:
    nobody = f"http://ann:hush@127.0.0.1:{free_port()}"
    async with registering(restate.place("Run"), nobody):
        said = await told(caplog, "register_failed")

    assert "Connection refused" in said["error"]
    assert "hush" not in str(said)


async def test_at_an_address_where_others_used_to_be_runs_are_driven_all_the_same(
    restate_host: RestateHost, caplog: pytest.LogCaptureFixture
) -> None:
    """Restate says yes to an address that it knows, and knows nothing of who is there now."""
    first = restate_host.service
    for service in (first, f"{first}Renamed"):
        restate_host.service = service
        async with restate_host(clerk) as engine:
            control = Control(restate_host.store, engine)
            with anyio.fail_after(30):
                assert await control.result(await control.start(clerk, "work")) == "done"

    assert actions(caplog) == [REGISTERED, "address_reused", REGISTERED]
    assert first in (await told(caplog, "address_reused"))["message"]


async def test_whose_address_is_that_of_another_service_is_told_so_and_takes_nothing_from_it(
    restate_host: RestateHost, caplog: pytest.LogCaptureFixture
) -> None:
    async with restate_host(clerk) as engine:
        control = Control(restate_host.store, engine)
        with anyio.fail_after(30):
            await control.result(await control.start(clerk, "work"))
        uri = f"http://127.0.0.1:{restate_host.link.port}"
        async with registering(restate_host.server.place("AnotherService"), uri):
            said = await told(caplog, "address_shared")
            assert restate_host.service in said["message"]
            assert "an address of its own" in said["message"]

        with anyio.fail_after(30):
            assert await control.result(await control.start(clerk, "more")) == "done"


async def test_after_a_rollback_the_old_workers_say_that_calls_go_to_the_newer_ones(
    restate_host: RestateHost, caplog: pytest.LogCaptureFixture
) -> None:
    """Restate calls whoever was registered last, also when nobody is there any more."""
    old = restate_host.link.port
    async with restate_host(clerk), linked() as elsewhere:
        await told(caplog, REGISTERED)
        newer = f"http://127.0.0.1:{elsewhere.port}"
        elsewhere.ends.extend(restate_host.link.ends)
        await register(restate_host.place, newer)
        assert "not_newest" not in actions(caplog)

        await register(restate_host.place, f"http://127.0.0.1:{old}")
        said = await told(caplog, "not_newest")

    assert said["newest"].rstrip("/") == newer
    assert "DELETE /deployments/" in said["message"]


async def test_a_run_of_another_store_under_the_same_service_is_told_of(
    restate_host: RestateHost, caplog: pytest.LogCaptureFixture
) -> None:
    async with restate_host(clerk):
        await told(caplog, REGISTERED)
        another = MemoryStore()
        async with RestateEngine.open(another, [clerk], restate_host.place) as engine:
            await Control(another, engine).start(clerk, "work")
            with anyio.fail_after(30):
                said = await told(caplog, "run_unknown")

    assert f"the same --service {restate_host.service}" in said["message"]


@asynccontextmanager
async def welcoming() -> AsyncIterator[str]:
    """A server that says yes to everything, with a page; gives its address."""

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        words = b"<h1>Welcome</h1>"
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(words), words))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(page, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_an_admin_that_is_no_restate_is_not_taken_for_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        welcoming() as address,
        registering(Restate(admin=address), "http://127.0.0.1:1"),
    ):
        await told(caplog, "register_failed")

    assert REGISTERED not in actions(caplog)


async def test_an_ingress_that_is_no_restate_is_not_taken_for_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    async with (
        welcoming() as address,
        RestateEngine.open(store, [clerk], Restate(ingress=address)) as engine,
    ):
        await Control(store, engine).start(clerk, "work")
        with anyio.fail_after(30):
            await told(caplog, "engine_unreached")


async def test_an_ingress_that_is_another_restates_is_told_of(
    restate_host: RestateHost, caplog: pytest.LogCaptureFixture
) -> None:
    store, place = MemoryStore(), restate_host.place
    crossed = Restate(ingress=place.admin, admin=place.admin, service=place.service)
    async with (
        restate_host(clerk),
        RestateEngine.open(store, [clerk], crossed, sweep_s=0.2) as engine,
        owned_tasks() as tasks,
    ):
        uri = f"http://127.0.0.1:{restate_host.link.port}"
        tasks.start_soon(keep_registered, engine, crossed, uri)
        await Control(store, engine).start(clerk, "work")
        with anyio.fail_after(60):
            said = await told(caplog, "still_unknown")

    assert "the right way round" in said["message"]
