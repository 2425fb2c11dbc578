"""Many machines, on one: workers as processes, a real Restate, a real Postgres that syncs its disk.

Run by ``make bench-scale``. Moments are CLOCK_MONOTONIC, which the processes of one host share;
a takeover counts from the kill to the claim of the next driver, on the store's clock.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from operator import truediv
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import psutil
from figures import RESULTS, ROOT, Load, machine, percentile, save, show, table
from figures import load as figures_load
from stepping import (
    COUNTERS,
    RAW_BYTES,
    made,
    raw,
    raw_inserts,
    records_a_step,
    step_bytes,
    stepping,
)

from engines import contested_story, fleet_world
from engines.contest import Contest
from engines.contest_restate import RestateContest
from engines.elsewhere import read_out, serving
from engines.faults import audit, losing_workers, twice_in_the_middle
from engines.fleet import Fleet, fleet
from engines.hosts import RestateServer, restate_server
from midflight.control import Control
from midflight.control.remote import RemoteControl
from midflight.engines.restate_placement import RestateEngine
from midflight.stores.postgres import PostgresStore
from midflight.stores.protocol import Query
from scenarios.ledger import SOCKET, witness
from stores.backends import postgres_server

WORKERS = 4
KILLS, KILLED_RUNS = 20, 40
FLEETS, FREEZES, FROZEN_RUNS = 2, 100, 24
NOTICED, NOTICED_RUNS = 4, 12
CANCELS = 300
CONTESTED = 600
WRITING_S, COST_ROUNDS = 3.0, 5
SIZES = (500, 1000, 2000)
LOADED_CANCELS = 100
BESIDE, PRESSES = 500, 100
SETTINGS = "max_connections = 200\n"
SHIPPED, QUICK = "3s", "1s"  # what Restate's keep-alive is


def engine_settings(keep_alive: str) -> dict[str, str]:
    """As in deploy/, where the keep-alive is ``SHIPPED``."""
    return {
        "RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_INTERVAL": keep_alive,
        "RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_TIMEOUT": keep_alive,
        "RESTATE_WORKER__INVOKER__HTTP2_STREAMS_PER_CONNECTION_LIMIT": "8",
    }


class Yard:
    """Where all of it runs."""

    def __init__(self, server: RestateServer, address: str) -> None:
        self.server = server
        self.address = address

    @asynccontextmanager
    async def at_work(self, size: int = WORKERS) -> AsyncIterator[tuple[Control, Fleet]]:
        """A fleet with a store, a folder and a service of its own."""
        name, folder = uuid4().hex, Path(tempfile.mkdtemp(prefix="mf-scale-"))
        store = f"{self.address}&schema=bench_{name}"
        try:
            async with (
                PostgresStore.open(self.address, schema=f"bench_{name}") as opened,
                fleet(self.server, f"Run{name}", folder, *[store] * size) as workers,
                RestateEngine.open(opened, fleet_world.AGENTS, workers.restate) as engine,
            ):
                yield Control(opened, engine), workers
        finally:
            shutil.rmtree(folder)


def tell(wrong: Mapping[str, list[str]]) -> None:
    """What went wrong, each with how it came."""
    for what, found in wrong.items():
        print(f"{what}:", *found, sep="\n")


async def killed(yard: Yard) -> dict[str, float]:
    """Workers killed in the middle of steps."""
    async with yard.at_work() as (control, workers):
        told = await losing_workers(control, workers, runs=KILLED_RUNS, times=KILLS)
        wrong = await audit(control, workers, told)
    tell(wrong)
    return {
        "takeover_p50_s": percentile(told.takeovers, 50),
        "takeover_p99_s": percentile(told.takeovers, 99),
        "takeovers": len(told.takeovers),
        "kills": KILLS,
        "kill_questions": told.asked,
        "lost": len(wrong.pop("not done", [])),
        "duplicates": sum(map(len, wrong.values())),
    }


async def frozen(yard: Yard) -> dict[str, float]:
    """Workers frozen at random, and woken when others have their runs.

    Two fleets at once, each with its own store, service and runs: most of the time is waiting.
    """
    takeovers, middle, asked, wrong = list[float](), list[str](), 0, 0

    async def story(seed: int) -> None:
        nonlocal asked, wrong
        async with yard.at_work() as (control, workers):
            told = await losing_workers(
                control,
                workers,
                runs=FROZEN_RUNS,
                times=FREEZES // FLEETS,
                how="freeze",
                seed=seed,
            )
            found = await audit(control, workers, told)
            middle.extend(twice_in_the_middle(workers))
        tell(found)
        takeovers.extend(told.takeovers)
        asked += told.asked
        wrong += sum(map(len, found.values()))

    async with anyio.create_task_group() as fleets:
        for number in range(FLEETS):
            fleets.start_soon(story, 2 + 10 * number)
    return {
        "freezes": FREEZES,
        "freeze_takeover_p50_s": percentile(takeovers, 50),
        "freeze_takeover_p99_s": percentile(takeovers, 99),
        "freeze_takeovers": len(takeovers),
        "freeze_questions": asked,
        "freeze_wrong": wrong,
        "freeze_twice_in_the_middle": len(middle),
    }


async def contested(yard: Yard) -> dict[str, float]:
    """Runs cancelled while two workers are alive, each of which is sure to drive them.

    With local engines, and with workers of a Restate that places every run on both.
    """
    taken = wrong = 0
    at_restate = partial(RestateContest.open_at, yard.server)
    for contest in (Contest.open, at_restate):
        with tempfile.TemporaryDirectory(prefix="mf-scale-") as name:
            folder, schema = Path(name), f"bench_{uuid4().hex}"
            with witness(folder) as ledger:
                os.environ[SOCKET] = str(folder / "ledger")
                desk = contested_story.PostgresDesk.open(yard.address, schema=schema)
                place = f"{yard.address} schema={schema}", desk
                cases, found = await contested_story.told(
                    place, ledger, folder, CONTESTED // 2, contest
                )
        if found:
            print(found)
        taken += contested_story.taken(cases)
        wrong += sum(map(len, found.values()))
    return {
        "contested_cancels": CONTESTED,
        "contested_taken": taken,
        "contested_wrong": wrong,
    }


async def noticed(yard: Yard) -> dict[str, float]:
    """A few frozen workers, with the keep-alive that deploy/ has."""
    async with yard.at_work() as (control, workers):
        told = await losing_workers(
            control, workers, runs=NOTICED_RUNS, times=NOTICED, how="freeze", seed=3
        )
    return {"noticed_freezes": NOTICED, "shipped_freeze_takeover_max_s": max(told.takeovers)}


async def aborts(yard: Yard) -> dict[str, float]:
    """A cancel here ends a step there."""
    async with yard.at_work(2) as (control, workers):
        took, acknowledged = await _cancelled(control, workers, CANCELS)
    return {
        "cross_machine_abort_p50_ms": percentile(took, 50),
        "cross_machine_abort_p99_ms": percentile(took, 99),
        "cancel_acknowledged_p50_ms": percentile(acknowledged, 50),
        "cancels": len(took),
    }


async def _cancelled(
    control: Control, workers: Fleet, count: int
) -> tuple[list[float], list[float]]:
    """For each of so many cancels: until its step ended, and until it was acknowledged, in ms."""
    briefs = [f"stop {uuid4().hex}" for _ in range(count)]
    runs = [await control.start(fleet_world.lingerer, brief) for brief in briefs]
    await _begun(workers, set(briefs))
    sent, acknowledged = {}, []
    for run, brief in zip(runs, briefs, strict=True):
        sent[brief] = time.monotonic()
        await control.cancel(run)
        acknowledged.append(1000 * (time.monotonic() - sent[brief]))
        await anyio.sleep(0.005)
    for run in runs:
        await control.ended(run)
    ended = {n.key: n.at for n in fleet_world.noted(workers.folder) if n.what == "ended"}
    return [1000 * (ended[brief] - at) for brief, at in sent.items()], acknowledged


async def _begun(workers: Fleet, briefs: set[str]) -> float:
    """Wait until they are all inside their step; when the last one was."""
    with anyio.fail_after(600):
        while True:
            seen = {n.key: n.at for n in fleet_world.noted(workers.folder) if n.what == "begin"}
            if briefs <= seen.keys():
                return max(seen[brief] for brief in briefs)
            await anyio.sleep(0.2)


async def steps(yard: Yard) -> dict[str, float]:
    """Steps of fifty runs on two workers, and what raw inserts of the same bytes come to.

    Counted in the store while all of them step: from when each has made its first until three
    seconds later. Like for like is fifty connections; one is there because it is often quoted.
    """
    rates, ones, manys, fullest = [], [], [], []
    busy: dict[str, float] = {}
    bytes_each = 0.0
    for _round in range(3):
        one, many = await raw(yard.address, 1), await raw(yard.address, COUNTERS)
        # Each on a fleet of its own: Restate spreads runs by new connections, and keeps old ones.
        async with yard.at_work(2) as (control, workers), stepping(control) as runs:
            before, began = await made(control, runs)
            busy = await _busy(yard, workers)
            after, ended = await made(control, runs)
            fullest.append(await _fullest(control, workers))
            bytes_each = await step_bytes(yard.address, control)
        rates.append((after - before) / (ended - began))
        ones.append((one + await raw(yard.address, 1)) / 2)
        manys.append((many + await raw(yard.address, COUNTERS)) / 2)
    return {
        **{f"stepping_{who}_cpu_pct": used for who, used in busy.items()},
        "steps_ratio": statistics.median(map(truediv, rates, manys)),
        "steps_ratio_to_one": statistics.median(map(truediv, rates, ones)),
        "steps_per_s": statistics.median(rates),
        "raw_per_s": statistics.median(manys),
        "raw_one_per_s": statistics.median(ones),
        "step_bytes": bytes_each,
        "raw_bytes": RAW_BYTES,
        "stepping_fullest_worker": max(fullest),
    }


async def writes(yard: Yard) -> dict[str, float]:
    """The same with steps that touch the world, whose attempt is on record before they begin."""
    rates, manys, records = [], [], 0.0
    for _round in range(3):
        many = await raw(yard.address, COUNTERS)
        async with yard.at_work(2) as (control, _), stepping(control, fleet_world.putter) as runs:
            before, began = await made(control, runs)
            await anyio.sleep(WRITING_S)
            after, ended = await made(control, runs)
            records = await records_a_step(control, runs)
        rates.append((after - before) / (ended - began))
        manys.append((many + await raw(yard.address, COUNTERS)) / 2)
    return {
        "writes_per_s": statistics.median(rates),
        "writes_ratio": statistics.median(map(truediv, rates, manys)),
        "writes_raw_per_s": statistics.median(manys),
        "records_a_write": records,
    }


async def costs(yard: Yard) -> dict[str, float]:
    """What such a step takes of the processor, and what a raw insert takes, in microseconds.

    A machine that others use too shows it all the same: their time is not counted.
    """
    found: dict[str, list[float]] = {}

    def note(what: str, used: Mapping[str, float], count: float) -> None:
        for who, seconds in used.items():
            found.setdefault(f"{what}_{who}_us", []).append(1e6 * seconds / count)

    async def raw_costs() -> None:
        took: dict[str, float] = {}

        @contextmanager
        def noted() -> Iterator[None]:
            kinds = {"postgres": _postgres(yard), "client": [psutil.Process()]}
            with _used(kinds) as used:
                yield
            took.update(used)

        await raw(yard.address, COUNTERS, noted)
        note("raw", took, raw_inserts(COUNTERS))

    for _round in range(COST_ROUNDS):
        await raw_costs()
        async with (
            yard.at_work(2) as (control, workers),
            stepping(control, fleet_world.putter) as runs,
        ):
            before, _ = await made(control, runs)
            with _used(_processes(yard, workers)) as used:
                await anyio.sleep(WRITING_S)
                after, _ = await made(control, runs)
        note("write", used, after - before)
        await raw_costs()
    cost = {name: statistics.median(times) for name, times in found.items()}
    raw_us = cost["raw_client_us"] + cost["raw_postgres_us"]
    ours_us = cost["write_workers_us"] + cost["write_postgres_us"]
    return {
        **cost,
        "raw_us": raw_us,
        "write_us": ours_us,
        "write_cost_ratio": raw_us / ours_us,
        "write_cost_bound": raw_us / cost["write_workers_us"],
    }


async def _fullest(control: Control, workers: Fleet) -> int:
    """How many runs the worker has that has most."""
    rows = await control.store.rows(Query(limit=10_000))
    return max(sum(row.driver == hand.driver for row in rows) for hand in workers.hands)


async def live(yard: Yard) -> dict[str, float]:
    """How late it is read at a server on another machine what a step says."""
    async with yard.at_work(1) as (control, workers):
        with serving(control, workers, yard.address) as door:
            async with RemoteControl.open(*door) as remote:
                _, late = await read_out(remote, await remote.start("teller", "100"))
    return {
        "live_text_p50_ms": statistics.median(late) * 1e3,
        "live_text_p95_ms": statistics.quantiles(late, n=20)[-1] * 1e3,
    }


async def crowd(yard: Yard, size: int) -> dict[str, float]:
    """Runs that live and mostly wait: what each costs, and how soon one of them is stopped."""
    found: dict[str, float] = {}
    async with yard.at_work() as (control, workers):
        empty = _memory(yard, workers)
        found["started_per_s"] = await _crowd(control, workers, size)
        for who, bytes_then in _memory(yard, workers).items():
            found[f"{who}_kb_per_run"] = (bytes_then - empty[who]) / size / 1024
            found[f"{who}_mb"] = bytes_then / 2**20
        found["fullest_worker"] = await _fullest(control, workers)
        found |= {f"{who}_cpu_pct": of for who, of in (await _busy(yard, workers)).items()}
        took, _ = await _cancelled(control, workers, LOADED_CANCELS)
        found["loaded_abort_p50_ms"] = percentile(took, 50)
        found["loaded_abort_p99_ms"] = percentile(took, 99)
    return {f"{what}_{size}": figure for what, figure in found.items()}


async def loaded(yard: Yard) -> dict[str, float]:
    """Pauses, messages and cancels while fifty runs step as fast as they can, beside a crowd."""
    found: dict[str, list[float]] = {}
    async with yard.at_work() as (control, workers):
        await _crowd(control, workers, BESIDE)
        briefs = [f"press {number}" for number in range(PRESSES)]
        runs = [await control.start(fleet_world.lingerer, brief) for brief in briefs]
        await _begun(workers, set(briefs))
        async with stepping(control) as at_work:
            before, began = await made(control, at_work)
            found["message_acknowledged"] = await _pressed(
                lambda run: control.send(run, "how far are you?"), runs
            )
            found["pause_acknowledged"] = await _pressed(control.pause, runs)
            found["abort"], found["cancel_acknowledged"] = await _cancelled(
                control, workers, PRESSES
            )
            after, ended = await made(control, at_work)
    return {
        f"loaded_{what}_p{percent}_ms": percentile(took, percent)
        for what, took in found.items()
        for percent in (50, 99)
    } | {"loaded_steps_per_s": (after - before) / (ended - began)}


async def _pressed(press: Callable[[str], Awaitable[object]], runs: list[str]) -> list[float]:
    """Until each was acknowledged, in ms."""
    took = []
    for run in runs:
        began = time.monotonic()
        await press(run)
        took.append(1000 * (time.monotonic() - began))
        await anyio.sleep(0.005)
    return took


async def _crowd(control: Control, workers: Fleet, size: int) -> float:
    """Start so many runs that wait; how many began a second."""
    began, limiter = time.monotonic(), anyio.CapacityLimiter(20)
    briefs = [f"wait {number}" for number in range(size)]

    async def start(brief: str) -> None:
        async with limiter:
            await control.start(fleet_world.lingerer, brief)

    async with anyio.create_task_group() as many:
        for brief in briefs:
            many.start_soon(start, brief)
    return size / (await _begun(workers, set(briefs)) - began)


def _postgres(yard: Yard) -> list[psutil.Process]:
    data = Path(yard.address.partition("host=")[2].partition("&")[0])
    postmaster = psutil.Process(int((data / "postmaster.pid").read_text().splitlines()[0]))
    return [postmaster, *postmaster.children()]


def _processes(yard: Yard, workers: Fleet) -> dict[str, list[psutil.Process]]:
    return {
        "workers": [psutil.Process(hand.process.pid) for hand in workers.hands],
        "restate": [psutil.Process(yard.server.process.pid)],
        "postgres": _postgres(yard),
    }


def _memory(yard: Yard, workers: Fleet) -> dict[str, float]:
    """What each kind of process has for itself."""
    return {
        who: sum(process.memory_full_info().uss for process in processes)
        for who, processes in _processes(yard, workers).items()
    }


async def _busy(yard: Yard, workers: Fleet) -> dict[str, float]:
    """Per cent of a core that each kind of process uses now, this one too."""
    kinds, wait_s = {**_processes(yard, workers), "desk": [psutil.Process()]}, 3.0
    with _used(kinds) as used:
        await anyio.sleep(wait_s)
    return {who: 100 * seconds / wait_s for who, seconds in used.items()}


@contextmanager
def _used(kinds: Mapping[str, list[psutil.Process]]) -> Iterator[dict[str, float]]:
    """Seconds of the processor that kinds of processes have used in the block, when it is over.

    Processes that ended meanwhile, such as one of Postgres that cleans up, are not counted.
    """
    used, before = dict[str, float](), {who: _clocks(those) for who, those in kinds.items()}
    yield used
    for who, those in kinds.items():
        used[who] = sum(at - before[who].get(one, at) for one, at in _clocks(those).items())


def _clocks(processes: list[psutil.Process]) -> dict[psutil.Process, float]:
    """Seconds that each of them has used so far, if it is still there."""
    found = {}
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            found[process] = sum(process.cpu_times()[:2])
    return found


PARTS: dict[str, list[Callable[[Yard], Awaitable[dict[str, float]]]]] = {
    "aborts": [aborts],
    "steps": [steps],
    "writes": [writes],
    "costs": [costs],
    "live": [live],
    "killed": [killed],
    "loaded": [loaded],
    "contested": [contested],
    "crowds": [partial(crowd, size=size) for size in SIZES],
    "noticed": [noticed],
    "frozen": [frozen],
}
"""What each part measures, one after the other, each with servers of its own."""

ROWS = {
    "takeover_p50_s": ("a killed worker's run is claimed by another, p50 s", "≤ 2"),
    "takeover_p99_s": ("the same, p99 s", ""),
    "lost": (f"runs not done after {KILLS} kills, of {KILLED_RUNS}", "0"),
    "duplicates": ("keys applied twice, repeats unasked, late decisions", "0"),
    "freeze_takeover_p50_s": ("a frozen worker's run is claimed by another, p50 s", "< 20"),
    "freeze_takeover_p99_s": ("the same, p99 s", "< 20"),
    "freeze_wrong": (f"anything wrong after {FREEZES} freezes", "0"),
    "freeze_twice_in_the_middle": ("keys applied twice, stopped in the very middle of it", ""),
    "contested_wrong": (
        f"anything wrong after {CONTESTED} cancels of runs that two living workers drove",
        "0",
    ),
    "cross_machine_abort_p50_ms": ("cancel here, step ended there, p50 ms", "≤ 10"),
    "cross_machine_abort_p99_ms": ("the same, p99 ms", "≤ 60"),
    "shipped_freeze_takeover_max_s": (
        f"with the keep-alive of deploy/, {SHIPPED} and {SHIPPED}: the latest of {NOTICED}, s",
        "< 20",
    ),
    "live_text_p95_ms": ("what a step says, read at a server elsewhere, p95 ms", "≤ 400"),
    "steps_ratio": ("steps a second of 50 runs against 50 raw connections of asyncpg", "≥ 0.6"),
    "steps_ratio_to_one": ("the same against one raw connection", ""),
    "writes_ratio": ("steps that touch the world against 50 raw connections", ""),
}

WRONG = ("lost", "duplicates", "freeze_wrong", "contested_wrong")


def report(results: dict[str, Any]) -> str:
    """The page in the docs, around what was measured."""
    text = (ROOT / "bench/scale.template.md").read_text(encoding="utf-8")
    figures = {
        name: f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        for name, value in results.items()
        if isinstance(value, float)
    }
    few, many = SIZES[0], SIZES[-1]
    for kind in ("workers", "restate", "postgres"):
        more = results[f"{kind}_mb_{many}"] - results[f"{kind}_mb_{few}"]
        figures[f"{kind}_slope"] = f"{more * 1024 / (many - few):.0f}"
    lines = []
    for size in SIZES:
        cells = [
            f"{results[f'workers_kb_per_run_{size}']:.0f}",
            f"{results[f'restate_kb_per_run_{size}']:.0f}",
            f"{results[f'postgres_kb_per_run_{size}']:.0f}",
            f"{results[f'workers_cpu_pct_{size}']:.0f}",
            f"{results[f'restate_cpu_pct_{size}']:.0f}",
            f"{results[f'postgres_cpu_pct_{size}']:.0f}",
            f"{results[f'started_per_s_{size}']:.0f}",
            f"{results[f'fullest_worker_{size}']:.0f}",
            f"{results[f'loaded_abort_p50_ms_{size}']:.1f} / "
            f"{results[f'loaded_abort_p99_ms_{size}']:.1f}",
        ]
        lines.append(f"| {size:,} | {' | '.join(cells)} |")
    text = text.replace("{{table}}", table(results, ROWS)).replace("{{crowds}}", "\n".join(lines))
    for name, figure in {**figures, "machine": str(results["machine"])}.items():
        text = text.replace(f"{{{{{name}}}}}", figure)
    return text


async def measure(name: str) -> dict[str, Any]:
    """One part, and how much of the machine was used by others meanwhile."""
    load, began = Load(), time.monotonic()
    settings = engine_settings(QUICK if name == "frozen" else SHIPPED)
    results: dict[str, Any] = {}
    for part in PARTS[name]:
        with postgres_server(SETTINGS) as address, restate_server(**settings) as server:
            results |= await part(Yard(server, address))
        show(results)
    results[f"{name}_load_of_others_pct"] = load.of_others_pct()
    results[f"{name}_seconds"] = time.monotonic() - began
    return results


def main() -> None:
    """Measure all parts, or those that are named; what the others came to is kept."""
    os.environ.pop(fleet_world.FOLDER, None)
    kept = RESULTS / "scale.json"
    for name in sys.argv[1:] or PARTS:
        found = anyio.run(measure, name)
        show(found)
        results = figures_load("scale") if kept.exists() else {}
        results |= {what: round(float(value), 4) for what, value in found.items()}
        save("scale", dict(sorted(results.items())) | {"machine": machine()})
    results = figures_load("scale")
    wrong = sum(results.get(name, 0) for name in WRONG)
    if wrong:
        sys.exit(f"{wrong:g} things went wrong that must not; the page was not written.")
    if all(f"{name}_seconds" in results for name in PARTS):
        (ROOT / "docs/scale.md").write_text(report(results), encoding="utf-8")


if __name__ == "__main__":
    main()
