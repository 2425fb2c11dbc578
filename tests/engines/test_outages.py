"""The engine's server, the store, or a link is gone for a while: what was acknowledged is kept."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import httpx
import pytest
from msgspec.structs import replace

from engines import fleet_world
from engines.conftest import ON_RESTATE, Hired, RestateHost
from engines.faults import Person, Told, audit
from engines.hosts import restate_server
from engines.link import BACK, THERE
from engines.ways import UNHURRIED, all_at_work, begun, calls, claims, way_to
from midflight.agents import agent
from midflight.control import Control
from midflight.engines.driver_pool import LEASE_S
from midflight.errors import StoreUnavailable
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.record import Limits
from midflight.run import Run
from midflight.stores.postgres import PostgresStore, links, postgres_writer
from scenarios.stage import Stage
from server.house import opened
from stores.backends import postgres_server
from stores.restarts import head_of, restart

pytestmark = ON_RESTATE

IMPATIENT = ("INACTIVITY", "ABORT")
SILENT_S = 8.0  # so impatient, it makes a silent call again after six


async def test_while_restate_is_down_runs_go_on_and_what_is_asked_waits_for_it(
    hired: Hired,
) -> None:
    with restate_server() as server:
        async with hired(2, server=server, options=UNHURRIED) as (control, workers):
            at_work = await control.start(fleet_world.busy, "0")
            stopped = await control.start(fleet_world.lingerer, "stopped")
            await begun(workers.folder, "stopped")
            await control.until(at_work, lambda state: state.spent.steps > 0)
            server.kill()

            await control.cancel(stopped)
            assert (await control.ended(stopped)).phase is Phase.CANCELLED
            begun_now = await control.start(fleet_world.busy, "1")
            head = (await control.state(at_work)).head
            await control.until(at_work, lambda state: state.head > head + 5)
            assert (await control.state(begun_now)).phase is Phase.QUEUED  # and says so

            server.start()
            await control.until(begun_now, lambda state: state.head > 5)
            workers.enough()
            await control.ended(begun_now)
            await control.ended(at_work)
            assert await claims(control, at_work) == 1  # nobody took it from who drove it
            assert await audit(control, workers, Told([at_work, begun_now], [], 0)) == {}


@pytest.mark.parametrize("away", ["crashes", "is restarted"])
async def test_a_store_that_goes_away_and_comes_back_loses_nothing_acknowledged(
    hired: Hired, away: str
) -> None:
    with postgres_server() as address:
        async with hired(2, address=address) as (control, workers):
            runs = [await control.start(fleet_world.busy, str(n)) for n in range(4)]
            stopped = await control.start(fleet_world.lingerer, "stopped")
            await begun(workers.folder, "stopped")
            sent = await control.redirect(runs[0], "7")
            (crash if away == "crashes" else restart)(address)
            await control.cancel(stopped)

            assert (await control.ended(stopped)).phase is Phase.CANCELLED
            assert isinstance(
                (await control.store.read(runs[0]))[sent.position - 1].event, e.RedirectRequested
            )
            person = Person(control, workers)
            async with anyio.create_task_group() as beside:
                beside.start_soon(person.answer, runs)
                workers.enough()
                for run in runs:
                    await control.ended(run)
                beside.cancel_scope.cancel()
            assert await audit(control, workers, Told(runs, [], 0)) == {}


def crash(address: str) -> None:
    """Kill a process of the server: it throws out everybody, and recovers from its log."""
    (writer,) = [
        child for child in head_of(address).children() if "writer" in " ".join(child.cmdline())
    ][:1]
    os.kill(writer.pid, signal.SIGKILL)


async def test_a_worker_cut_off_in_a_step_begins_nothing_after_its_lease_and_is_followed(
    hired: Hired, postgres_address: str, tmp_path: Path
) -> None:
    async with (
        way_to(postgres_address, tmp_path / "a") as (link, cut),
        hired(2, cut, postgres_address) as (control, workers),
    ):
        lost = workers.hands[0]
        runs = [await control.start(fleet_world.busy, str(n)) for n in range(8)]
        await all_at_work(control, workers, runs)
        link.swallow(THERE, BACK)
        at = time.monotonic()
        mine = [run for run in runs if (await control.store.row(run)).driver == lost.driver]
        assert mine
        lost.process.send_signal(0)  # it lives
        person = Person(control, workers)
        person.patient = True
        async with anyio.create_task_group() as beside:
            beside.start_soon(person.answer, runs)
            for run in mine:
                await control.cancel(run)  # from a desk that is not cut off: taken at once
            for run in mine:
                await control.until(run, lambda state: state.driver != lost.driver)
            link.swallow()
            link.reset()
            person.patient = False
            workers.enough()
            for run in runs:
                await control.ended(run)
            beside.cancel_scope.cancel()

        pid = lost.process.pid
        late = [
            line for line in fleet_world.noted(tmp_path) if line.process == pid and line.at > at
        ]
        assert not [line for line in late if line.what == "begin" and line.at > at + LEASE_S]
        others = [run for run in runs if run not in mine]
        assert await audit(control, workers, Told(others, [], 0)) == {}
        for run in mine:
            assert (await control.state(run)).phase is Phase.CANCELLED


async def test_a_desk_that_is_cut_off_says_so_and_whether_anything_was_changed(
    hired: Hired, postgres_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        hired(1) as (control, workers),
        way_to(postgres_address, tmp_path / "b") as (link, cut),
    ):
        run = await control.start(fleet_world.lingerer, "stays")
        await begun(workers.folder, "stays")
        schema = control.store._server._schema  # type: ignore[attr-defined]
        async with PostgresStore.open(cut, schema=schema) as far:
            await far.row(run)
            for module in (links, postgres_writer):
                monkeypatch.setattr(module, "PATIENCE_S", 2.0)
            link.ends.clear()
            link.reset()
            refusals: list[StoreUnavailable] = []

            async def press(verb: Callable[[], Awaitable[object]]) -> None:
                with pytest.raises(StoreUnavailable, match="cannot be reached") as refused:
                    await verb()
                refusals.append(refused.value)

            desk = Control(far)
            verbs = [
                partial(desk.cancel, run),
                partial(desk.pause, run),
                partial(desk.redirect, run, "elsewhere"),
                partial(desk.raise_limits, run, Limits(steps=9)),
                partial(desk.send, "a-thread", "hello"),
            ]

            async with opened(Control(far)) as house, house.client() as client:
                async with anyio.create_task_group() as beside:  # each is patient for a while
                    for verb in verbs:
                        beside.start_soon(press, verb)
                    over_http = await client.post(f"/v1/runs/{run}/cancel", json={})
                alive = await client.get("/healthz")

        assert len(refusals) == len(verbs)
        for refused in refusals:
            assert "Nothing was changed" in str(refused)
            assert not refused.unsure
        assert (over_http.status_code, alive.status_code) == (503, 503)
        answer = over_http.json()
        assert (answer["error"], answer["changed"]) == ("store_unavailable", False)
        assert answer["message"].endswith("Nothing was changed.")
        assert (await control.state(run)).phase is Phase.RUNNING


async def test_a_run_of_an_agent_that_a_worker_does_not_know_is_left_and_told_of(
    restate_host: RestateHost, caplog: pytest.LogCaptureFixture
) -> None:
    @agent("known-here")
    async def known(run: Run) -> str:
        return "done"

    @agent("known-elsewhere")
    async def unknown(run: Run) -> str:
        return "done"

    async with restate_host(known) as engine:
        control = Control(restate_host.store, engine)
        await control.result(await control.start(known, "work"))
        run = await control.start(unknown, "work")  # and Restate is told of it
        with anyio.fail_after(10):
            while not [r for r in caplog.records if "agent_unknown" in vars(r).values()]:  # noqa: ASYNC110
                await anyio.sleep(0.05)
        assert (await control.state(run)).phase is Phase.QUEUED


async def test_a_restate_that_has_forgotten_everything_is_told_again(hired: Hired) -> None:
    with restate_server() as server:
        async with hired(1, server=server) as (control, _):
            first = await control.start(fleet_world.counter, "1")
            await control.ended(first)
            server.kill()
            server.forget()
            server.start()

            run = await control.start(fleet_world.counter, "1")
            assert (await control.ended(run)).phase is Phase.DONE


@pytest.mark.parametrize("how", ["cancel", "kill"])
async def test_what_restate_itself_cancels_or_kills_takes_nothing_from_a_run(
    restate_host: RestateHost, how: str
) -> None:
    stage = Stage(f"its-own-{how}")
    make, gate = stage.writer(), stage.gate("a")

    @agent(f"its-own-{how}")
    async def clerk(run: Run) -> object:
        return await run.step("Make a", make, "a")

    async with restate_host(clerk) as engine:
        control = Control(restate_host.store, engine)
        run = await control.start(clerk, "work")
        await stage.until_begun("a")
        async with httpx.AsyncClient(base_url=restate_host.place.admin, trust_env=False) as admin:
            (call,) = await calls(admin, restate_host.place.service)
            (await admin.patch(f"/invocations/{call['id']}/{how}")).raise_for_status()
        await anyio.sleep(0.5)
        gate.set()

        assert await control.result(run) == "made a"
        assert await claims(control, run) == 1
    assert stage.begun == ["a"]


async def test_a_step_silent_for_longer_than_restate_waits_is_called_for_once(
    hired: Hired,
) -> None:
    """Restate waits for minutes, and then makes a call again, unless it is told otherwise."""
    waits = {f"RESTATE_WORKER__INVOKER__{which}_TIMEOUT": "500ms" for which in IMPATIENT}
    with restate_server(**waits) as server:
        async with hired(1, server=server, options=UNHURRIED) as (control, workers):
            run = await control.start(fleet_world.lingerer, "silent")
            await begun(workers.folder, "silent")
            await anyio.sleep(SILENT_S)
            async with httpx.AsyncClient(base_url=workers.restate.admin, trust_env=False) as admin:
                (call,) = await calls(admin, workers.restate.service)
            await control.cancel(run)
            assert (await control.ended(run)).phase is Phase.CANCELLED

    assert call["retry_count"] == 1


async def test_a_paused_run_has_no_call_after_a_while_and_is_called_for_when_it_goes_on(
    restate_host: RestateHost,
) -> None:
    stage = Stage("returned")
    look, gate = stage.reader(), stage.gate("a")

    @agent("returned.clerk")
    async def clerk(run: Run) -> object:
        return await run.step("Look at a", look, "a")

    async with (
        restate_host(replace(clerk, evict_after=0.2)) as engine,
        httpx.AsyncClient(base_url=restate_host.place.admin, trust_env=False) as admin,
    ):
        control, service = Control(restate_host.store, engine), restate_host.place.service
        run = await control.start(clerk, "work")
        await stage.until_begun("a")
        assert len(await calls(admin, service)) == 1

        await control.pause(run)
        await control.until(run, lambda state: not state.driver)
        with anyio.fail_after(10):
            while await calls(admin, service):  # noqa: ASYNC110
                await anyio.sleep(0.05)

        gate.set()
        await control.resume(run)
        await control.ended(run)
        assert await claims(control, run) == 2


async def test_restate_is_told_that_a_call_may_be_silent_for_a_year(
    restate_host: RestateHost,
) -> None:
    """Restate makes a call again that is silent for a minute, unless it has been told otherwise."""

    @agent("silent")
    async def clerk(run: Run) -> str:
        return "done"

    async with restate_host(clerk) as engine:
        control = Control(restate_host.store, engine)
        await control.ended(await control.start(clerk, "work"))
        place = restate_host.place
        async with httpx.AsyncClient(base_url=place.admin, trust_env=False) as admin:
            known = (await admin.get(f"/services/{place.service}")).raise_for_status().json()

    assert (known["inactivity_timeout"], known["abort_timeout"]) == ("365d", "365d")
