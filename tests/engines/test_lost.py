"""Workers that die, freeze or leave while they drive: real processes on a real Restate."""

from __future__ import annotations

import statistics
from typing import Any

import anyio
import httpx

from engines import fleet_world
from engines.conftest import ON_RESTATE, Hired
from engines.faults import audit, losing_workers
from engines.ways import UNHURRIED, all_at_work, begun, calls
from midflight.control import Control
from midflight.journal.phases import Phase

pytestmark = ON_RESTATE

SOON_S = 20.0
KILLED_S, FROZEN_S = 6.0, 20.0  # what a busy machine allows: how soon it is: `make bench-scale`


async def test_a_killed_workers_runs_go_on_elsewhere_and_nothing_happens_twice(
    hired: Hired,
) -> None:
    async with hired(3) as (control, workers):
        told = await losing_workers(control, workers, runs=12, times=2)

        assert await audit(control, workers, told) == {}
        assert statistics.median(told.takeovers) < KILLED_S


async def test_a_frozen_worker_that_wakes_decides_nothing_and_begins_nothing_new(
    hired: Hired,
) -> None:
    async with hired(3) as (control, workers):
        told = await losing_workers(control, workers, runs=12, times=1, how="freeze")

        assert await audit(control, workers, told) == {}
        assert max(told.takeovers) < FROZEN_S


async def test_what_a_frozen_worker_does_when_it_wakes_was_listed_as_unknown_in_the_receipt(
    hired: Hired,
) -> None:
    async with hired(2) as (control, workers):
        run = await control.start(fleet_world.deliverer, "parcel")
        await begun(workers.folder, "Deliver")
        frozen = workers.hand((await control.store.row(run)).driver)
        assert frozen is not None
        frozen.freeze()
        await control.until(run, lambda state: state.driver not in {"", frozen.driver})
        await control.cancel(run)
        await control.ended(run)
        assert [line.text for line in (await control.receipt(run)).lines] == [
            "Deliver parcel: unknown (worker lost)"
        ]

        (workers.folder / "go").touch()
        frozen.wake()
        (effect,) = (await control.state(run)).effects.values()
        with anyio.fail_after(20):
            while not fleet_world.is_done(effect.key, workers.folder):  # noqa: ASYNC110
                await anyio.sleep(0.05)
        await control.until(run, lambda state: state.effects[effect.position].learned > 0)

        (line,) = (await control.receipt(run)).lines
        assert line.text == "Deliver parcel: kept (no undo)"
        begins = [one for one in fleet_world.noted(workers.folder) if one.what == "begin"]
        assert [one.key for one in begins] == [effect.key]


async def test_a_call_for_a_resting_run_of_a_dead_worker_comes_to_its_end(hired: Hired) -> None:
    """Nobody need drive it, and its driver is gone: whoever is called must not wait for either."""
    async with hired(2) as (control, workers):
        run = await control.start(fleet_world.asker, "ask")
        state = await control.until(run, lambda state: state.phase is Phase.WAITING)
        dead = workers.hand(state.driver)
        assert dead is not None
        dead.kill()
        place = workers.restate
        async with httpx.AsyncClient(base_url=place.admin, trust_env=False) as admin:
            with anyio.fail_after(10):
                while await calls(admin, place.service):  # noqa: ASYNC110
                    await anyio.sleep(0.1)
            await anyio.sleep(1)
            assert await calls(admin, place.service) == []

        await control.answer(run, next(iter(state.questions)), "tea")
        assert await control.result(run) == "tea"


async def test_a_worker_that_is_told_to_leave_hands_its_runs_over_and_ends(hired: Hired) -> None:
    async with hired(2, options=UNHURRIED) as (control, workers):
        runs = [await control.start(fleet_world.busy, str(n)) for n in range(8)]
        await all_at_work(control, workers, runs)

        assert await workers.hands[0].leave() == 0

        workers.enough()
        for run in runs:
            await control.ended(run)
            assert "worker lost" not in str(await control.receipt(run))


async def test_what_a_leaving_worker_cuts_short_is_looked_up_and_done_elsewhere_at_once(
    hired: Hired,
) -> None:
    """It is not lost: nobody has to wait for what it may still do, nor to be asked."""
    async with hired(2, options=("--drain", "1", *UNHURRIED)) as (control, workers):
        run = await control.start(fleet_world.carrier, "parcel")
        await begun(workers.folder, "Carry")
        leaving = workers.hand((await control.store.row(run)).driver)
        assert leaving is not None

        assert await leaving.leave() == 0
        (workers.folder / "go").touch()
        with anyio.fail_after(SOON_S):  # its timeout is a minute
            assert (await control.ended(run)).phase is Phase.DONE

        processes = [one.process for one in fleet_world.noted(workers.folder)]
        assert processes.count(leaving.process.pid) == 1
        assert sorted(one.what for one in fleet_world.noted(workers.folder)) == [
            "begin", "begin", "done"
        ]  # fmt: skip
        assert leaving.driver not in [row["driver"] for row in await leases(control)]


async def leases(control: Control) -> list[Any]:
    found: list[Any] = await control.store._pool.fetch("SELECT driver FROM leases")  # type: ignore[attr-defined]
    return found
