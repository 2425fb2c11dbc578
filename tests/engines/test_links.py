"""Links that are slow, break, or swallow everything one way: nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from engines import fleet_world
from engines.conftest import ON_RESTATE, Hired
from engines.faults import Person, Told, audit
from engines.fleet import Fleet
from engines.link import BACK, THERE, Link
from engines.ways import UNHURRIED, way_to
from midflight.control import Control
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.stores.postgres import PostgresStore
from stores.backends import postgres_server

pytestmark = ON_RESTATE

FAULTS = ("delay", "reset", THERE, BACK)
BRIEFS = ("1000", "2000", "3000", "4000")  # so far apart that no work of one is the next one's too
LASTS_S = 2.5  # longer than a lease
AWAY_S = 4.5  # longer than a worker is patient with its own
RUNS = 8
HELD_AGAIN_S = 30.0
MORE = 20  # runs that are started at most until a certain worker has one


@asynccontextmanager
async def faulty(link: Link, fault: str) -> AsyncIterator[None]:
    """While the block runs; what was swallowed on the way is lost with its connection."""
    match fault:
        case "delay":
            link.delay_s = 0.2
        case "reset":
            link.reset()
        case way:
            link.swallow(way)
    yield
    link.delay_s = 0.0
    link.swallow()
    if fault in {THERE, BACK}:
        link.reset()


async def work_on(control: Control, workers: Fleet, runs: list[str], person: Person) -> None:
    """Let everything come to its end, and look whether it is as it must be."""
    async with anyio.create_task_group() as beside:
        beside.start_soon(person.answer, runs)
        workers.enough()
        for run in runs:
            await control.ended(run)
        beside.cancel_scope.cancel()
    assert await audit(control, workers, Told(runs, [], person.asked)) == {}


async def moves_on(control: Control, run: str) -> None:
    before = (await control.state(run)).head
    await control.until(run, lambda state: state.head > before + 3)


async def has_settled(control: Control, run: str, step: str) -> None:
    async with control.store.watch({run: 0}) as news:
        async for record in news:
            if isinstance(record.event, e.StepSettled) and record.event.name == step:
                return


async def one_of(control: Control, runs: list[str], driver: str) -> str:
    """A run that this one is at; a new one, if others have taken all that it had."""
    for _ in range(MORE):
        for run in runs:
            row = await control.store.row(run)
            if row.driver == driver and row.phase == Phase.RUNNING:
                return run
        runs.append(await control.start(fleet_world.busy, str(len(runs))))
        await anyio.sleep(0.5)
    raise AssertionError(f"{driver} drives nothing")


async def test_whatever_the_link_between_worker_and_store_does_nothing_is_lost_or_done_twice(
    hired: Hired, postgres_address: str, tmp_path: Path
) -> None:
    async with (
        way_to(postgres_address, tmp_path / "a") as (link, bad),
        hired(2, bad, postgres_address) as (control, workers),
    ):
        runs = [await control.start(fleet_world.busy, str(n)) for n in range(RUNS)]
        acknowledged = []
        for brief, fault in zip(BRIEFS, FAULTS, strict=True):
            run = await one_of(control, runs, workers.hands[0].driver)
            async with faulty(link, fault):
                sent = await control.redirect(run, brief)
                acknowledged.append((run, sent.position, brief))
                await anyio.sleep(LASTS_S)
            state = await control.until(run, lambda s: "redirect" not in s.pending.values())
            assert state.brief == brief
            await has_settled(control, run, f"Enough {brief}")  # or the next one comes before it
        await work_on(control, workers, runs, Person(control, workers))

        for run, position, brief in acknowledged:
            asked, *later = await control.store.read(run, after=position - 1)
            assert isinstance(asked.event, e.RedirectRequested)
            entered = next(r for r in later if isinstance(r.event, e.RedirectDelivered))
            work = [r.event.name for r in later if isinstance(r.event, e.StepSettled)
                    and r.position > entered.position]  # fmt: skip
            assert f"Enough {brief}" in work


async def test_whatever_the_link_between_restate_and_workers_does_runs_go_on_and_are_steered(
    hired: Hired,
) -> None:
    async with hired(2, options=UNHURRIED) as (control, workers):
        runs = [await control.start(fleet_world.busy, str(n)) for n in range(RUNS)]
        for fault in FAULTS:
            async with faulty(workers.link, fault):
                at_work = list(runs)
                runs.append(await control.start(fleet_world.busy, "40"))  # waits, if it must
                stopped = await control.start(fleet_world.lingerer, fault)
                await control.cancel(stopped)
                for run in at_work:
                    await moves_on(control, run)
                await anyio.sleep(1)
            assert (await control.ended(stopped)).phase is Phase.CANCELLED
        await work_on(control, workers, runs, Person(control, workers))


async def test_a_store_away_for_longer_than_leases_delays_what_is_pressed_and_doors_open_again(
    hired: Hired, tmp_path: Path
) -> None:
    with postgres_server() as address:
        async with (
            way_to(address, tmp_path / "c") as (link, way),
            hired(2, way, way, address=address) as (control, workers),
        ):
            runs = [await control.start(fleet_world.busy, str(n)) for n in range(4)]
            stopped = await control.start(fleet_world.lingerer, "stopped")
            await control.until(stopped, lambda state: state.phase is Phase.RUNNING)
            schema = control.store._server._schema  # type: ignore[attr-defined]
            async with PostgresStore.open(way, schema=schema) as far:
                ends, link.ends = link.ends, []
                link.reset()
                pressed = anyio.Event()

                async def press() -> None:
                    await Control(far).cancel(stopped)  # is patient, and says nothing before
                    pressed.set()

                async with anyio.create_task_group() as beside:
                    beside.start_soon(press)
                    await anyio.sleep(AWAY_S)
                    assert not pressed.is_set()
                    assert (await control.state(stopped)).phase is Phase.RUNNING
                    link.ends = ends
                    await pressed.wait()

            assert (await control.ended(stopped)).phase is Phase.CANCELLED
            later = await control.start(fleet_world.busy, "40")  # comes in by a door
            await control.until(later, lambda state: state.phase is Phase.RUNNING)
            await work_on(control, workers, [*runs, later], Person(control, workers))
            for hand in workers.hands:  # one of them alone may have brought all to its end
                log = workers.folder / f"worker-{hand.port}.log"
                with anyio.fail_after(HELD_AGAIN_S):
                    while "lease_held" not in log.read_text():  # noqa: ASYNC110 - it is a file
                        await anyio.sleep(0.05)
                assert log.read_text().index("lease_lost") < log.read_text().index("lease_held")
