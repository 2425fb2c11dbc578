"""What a durable step costs, how soon a run is stopped, and how soon a long one goes on.

Run by ``make bench-steps``, on a SQLite file, beside LangGraph, DBOS and plain commits of SQLite on
the same disk. Each runtime is a process of its own, in an environment with pinned versions; this
process keeps the witnesses: the ledger, and a provider that speaks to models' SDKs over HTTP. The
runtimes take turns in every round. ``make bench-steps PARTS="--quick speed"`` tries one part, with
few rounds, and keeps nothing.
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from figures import RESULTS, ROOT, Load, machine, missed, percentile, save, show, table
from figures import load as figures_load
from interruptibility import commit
from msgspec import Struct

from midflight.kit import durable
from midflight.kit.subject import KINDS, Kind, Subject, environment, python_of, subject, version_of
from midflight.kit.witnesses import Answer, Ledger, Provider, happened, keeping, providing
from stores.backends import postgres_server

HERE = Path(__file__).parent
PINS = HERE / "dbos.txt"
TOGETHER = 50
PLAIN = 400  # commits
COUNTED = 9  # stops whose commits are counted
STREAM = Answer(words=4_000, between_ms=5.0)
WORDS_FIRST = 3
SIZES = (200, 5_000, 50_000)
PEERS_UP_TO = 5_000  # steps; a peer needs minutes to make 50,000
ACTORS = 6
LONG_S = 600.0
STEPS = ("midflight", "langgraph", "dbos")
PEERS = STEPS[1:]


class Scale(Struct, frozen=True):
    """How much of everything is done."""

    rounds: int = 5
    alone: int = 400
    """The steps of one run by itself."""
    each: int = 30
    """The steps of each of the runs at once."""
    presses: int = 40
    """Of each kind, for each runtime, in a round."""
    crowd: int = 200
    sizes: tuple[int, ...] = SIZES
    races: int = 200
    kills: int = 15


QUICK = Scale(2, 100, 10, 10, 50, (200, 1_000), 20, 3)


class Yard:
    """Where all of it runs: a folder on the disk, a Postgres server, the witnesses."""

    def __init__(self, folder: Path, postgres: str, ledger: Ledger, provider: Provider) -> None:
        self.folder = folder
        self.ledger = ledger
        self.provider = provider
        self._postgres = postgres
        self._pythons: dict[str, str] = {}

    def prepare(self) -> None:
        """Make the environments of the peers, which takes minutes the first time."""
        self._pythons = {
            "langgraph": python_of(KINDS["langgraph-sqlite"]),
            "dbos": environment("dbos", PINS),
        }

    @asynccontextmanager
    async def runtime(self, name: str, place: str, *given: str) -> AsyncIterator[Subject]:
        """Run one of the runtimes in its process, with what an earlier one has left there."""
        folder = self.folder / place / name
        folder.mkdir(parents=True, exist_ok=True)
        kind = Kind(
            name,
            f"steps_on_{name}",
            given,
            program=str(HERE / f"steps_on_{name}.py"),
            python=self._pythons.get(name, ""),
        )
        database = place.replace("-", "_")
        address = self._postgres.replace("/postgres?", f"/{database}?")
        python = kind.python or python_of(kind)
        async with subject(
            kind, folder, self.ledger, self.provider, python=python, postgres=address
        ) as made:
            yield made

    @asynccontextmanager
    async def all_of_them(self, place: str) -> AsyncIterator[dict[str, Subject]]:
        """Run each of the runtimes in a process of its own."""
        async with AsyncExitStack() as stack:
            yield {
                name: await stack.enter_async_context(self.runtime(name, place)) for name in STEPS
            }

    async def plain(self) -> tuple[float, float]:
        """Return the commits a second of plain SQLite: on a log that grows, and in place."""
        return await anyio.to_thread.run_sync(plain_per_s, self.folder / "plain.db")

    async def told(self, run: str, what: str, times: int = 1) -> None:
        """Wait until something was told of a run so many times."""
        if not await self.ledger.until(run, happened(what, times), LONG_S):
            raise TimeoutError(f"{run} has not come to {what!r} within {LONG_S:g} s.")


def plain_per_s(path: Path) -> tuple[float, float]:
    """Return the commits a second of rows of 200 bytes, one row each, on one connection.

    The log is new, since the last connection to a file takes it away. It grows at first, and a
    file that grows syncs slower; after a thousand pages SQLite writes it anew in place.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("CREATE TABLE IF NOT EXISTS plain (n INTEGER PRIMARY KEY, text TEXT)")

        def per_s(count: int) -> float:
            began = time.monotonic()
            for _ in range(count):
                db.execute("INSERT INTO plain (text) VALUES (?)", (durable.PAYLOAD,))
            return count / (time.monotonic() - began)

        growing = per_s(PLAIN)
        per_s(durable.LOG_ROUND - PLAIN)
        return growing, per_s(PLAIN)


Samples = defaultdict[str, list[float]]


def medians(found: Samples) -> dict[str, float]:
    """Return the median of the rounds of each figure."""
    return {name: statistics.median(values) for name, values in found.items()}


# ── steps ────────────────────────────────────────────────────────────────────────────────────


async def speed(yard: Yard, scale: Scale) -> dict[str, float]:
    """Steps a second of one run and of fifty at once, against the peers and plain commits."""
    found: Samples = defaultdict(list)
    async with yard.all_of_them("speed") as runtimes:
        for runtime in runtimes.values():
            await runtime.ask("timed", 1, scale.alone, within_s=LONG_S)  # fills its log
            await runtime.ask("timed", TOGETHER, 2, within_s=LONG_S)
        for _ in range(scale.rounds):
            for runs, count in ((1, scale.alone), (TOGETHER, scale.each)):
                await _speed_round(yard, runtimes, found, runs, count)
            done = await runtimes["midflight"].ask("timed", 1, scale.alone, True)
            found["reads_per_s"].append(scale.alone / done["s"])
        committed = {
            name: await runtimes[name].ask("commits", "timed", 1, scale.alone)
            for name in ("midflight", "langgraph")
        }
    results = medians(found)
    results["commits_per_step"] = committed["midflight"] / scale.alone
    results["langgraph_commits_per_step"] = committed["langgraph"] / scale.alone
    return results


async def _speed_round(
    yard: Yard, runtimes: dict[str, Subject], found: Samples, runs: int, count: int
) -> None:
    """Let each take its turn once; Midflight's is between two of the plain commits."""
    rates: dict[str, float] = {}
    plain = [await yard.plain()]
    for name, runtime in runtimes.items():
        done = await runtime.ask("timed", runs, count, within_s=LONG_S)
        rates[name] = runs * count / done["s"]
        ours = "" if name == "midflight" else f"{name}_"
        found[f"{ours}steps_per_s_{runs}"].append(rates[name])
        found[f"{ours}cpu_ms_per_step_{runs}"].append(done["cpu_s"] * 1000 / (runs * count))
        if name == "midflight":
            plain.append(await yard.plain())
    growing, in_place = (statistics.mean(rate) for rate in zip(*plain, strict=True))
    found["raw_per_s"].append(growing)
    found["raw_in_place_per_s"].append(in_place)
    what = "one_run" if runs == 1 else "fifty_runs"
    for name, rate in rates.items():
        ours = "" if name == "midflight" else f"{name}_"
        found[f"{ours}{what}_vs_raw"].append(rate / growing)
        found[f"{ours}{what}_vs_raw_in_place"].append(rate / in_place)
    for name in PEERS:
        found[f"{what}_vs_{name}"].append(rates["midflight"] / rates[name])


# ── stops ────────────────────────────────────────────────────────────────────────────────────


async def stops(yard: Yard, scale: Scale) -> dict[str, float]:
    """From the press to the durable end, in a model's stream and in an async tool."""
    found: Samples = defaultdict(list)
    async with yard.all_of_them("stops") as runtimes:
        for number in range(-1, scale.rounds):
            warm = found if number >= 0 else defaultdict(list)
            for name, runtime in runtimes.items():
                for kind in ("stream", "tool"):
                    took = await _presses(yard, runtime, scale, f"{name}.{number}", kind)
                    warm[f"{name}_stop_{kind}"] += took
        committed = await _commits_of_stops(yard, runtimes["midflight"])
        listed = await runtimes["midflight"].ask("unlisted")
    results: dict[str, float] = {"commits_per_stop": committed}
    for what, took in found.items():
        key = what.removeprefix("midflight_")
        for percent in (50, 99):
            results[f"{key}_p{percent}_ms"] = percentile(took, percent)
        results[f"{key}_presses"] = len(took)
    return results | _of("stops", listed)


async def _commits_of_stops(yard: Yard, runtime: Subject) -> float:
    """Count the commits of stops in the async tool; each begins when the run is at rest."""
    counts: list[int] = []
    for number in range(COUNTED):
        run = f"counted_{number}"
        await _begin(yard, runtime, "tool", run)
        counts.append(await runtime.ask("commits", "press", run))
    return statistics.median(counts)


async def _begin(yard: Yard, runtime: Subject, kind: str, run: str) -> None:
    """Start a run, and wait until it is where it is to be stopped."""
    if kind == "stream":
        await runtime.ask("start", run, yard.provider.script(run, STREAM))
        await yard.told(run, "word", WORDS_FIRST)
    else:
        await runtime.ask("hang", run)
        await yard.told(run, "begin")


async def _presses(
    yard: Yard, runtime: Subject, scale: Scale, about: str, kind: str
) -> list[float]:
    """Press in so many runs, each in flight; one after the other, where that ends soon."""
    runs = [f"{kind}-{about}-{number}".replace(".", "_") for number in range(scale.presses)]
    took: list[float] = []

    async def press(run: str) -> None:
        took.append(await runtime.ask("press", run))

    async with anyio.create_task_group() as tasks:
        for run in runs:
            await _begin(yard, runtime, kind, run)
            if runtime.kind.name == "dbos":
                tasks.start_soon(press, run)  # it looks for stops once a second, for all of them
            else:
                await press(run)
    return took


async def stop_all(yard: Yard, scale: Scale) -> dict[str, float]:
    """Two hundred runs in an async tool, all stopped at once, until the last is stopped."""
    found: Samples = defaultdict(list)
    async with yard.all_of_them("all") as runtimes:
        for number in range(-1, scale.rounds):
            for name, runtime in runtimes.items():
                runs = [f"{name}_{number}_{each}" for each in range(scale.crowd)]
                async with anyio.create_task_group() as tasks:
                    for run in runs:
                        tasks.start_soon(runtime.ask, "hang", run)
                for run in runs:
                    await yard.told(run, "begin")
                took = await runtime.ask("press_all", runs, within_s=LONG_S)
                ours = "" if name == "midflight" else f"{name}_"
                if number >= 0:  # the one before is to warm up
                    found[f"{ours}stop_{scale.crowd}_ms"].append(took)
        listed = await runtimes["midflight"].ask("unlisted")
    return medians(found) | _of("stop_all", listed)


async def races(yard: Yard, scale: Scale) -> dict[str, float]:
    """Runs that do one effect after another, each cancelled at another moment."""
    chance = random.Random(23)
    async with yard.runtime("midflight", "races") as runtime:

        async def race(run: str) -> None:
            await runtime.ask("act", run)
            await yard.told(run, "acted", 2)
            await anyio.sleep(chance.uniform(0, 0.02))
            await runtime.ask("press", run)

        for first in range(0, scale.races, 20):
            async with anyio.create_task_group() as tasks:
                for number in range(first, min(first + 20, scale.races)):
                    tasks.start_soon(race, f"race_{number}")
        listed = await runtime.ask("unlisted")
    return _of("races", listed)


def _of(part: str, listed: dict[str, int]) -> dict[str, float]:
    return {f"{part}_unlisted": listed["unlisted"], f"{part}_cancels": listed["cancels"]}


# ── crashes ──────────────────────────────────────────────────────────────────────────────────


async def resumes(yard: Yard, scale: Scale) -> dict[str, float]:
    """From opening the store to the step after so many, when the driver was killed with -9."""
    found: Samples = defaultdict(list)
    long = [
        (name, n) for n in scale.sizes for name in STEPS if n <= PEERS_UP_TO or name not in PEERS
    ]
    async with anyio.create_task_group() as tasks:  # how long this takes is no figure
        for name, count in long:
            tasks.start_soon(_grown, yard, name, count)
    for number in range(scale.rounds):
        for name, count in long:
            ours = "" if name == "midflight" else f"{name}_"
            took = await _resumed(yard, name, count, number + 2)
            found[f"{ours}resume_{count}_ms"].append(took)
    return medians(found)


async def _grown(yard: Yard, name: str, count: int) -> None:
    """Make a run of so many steps, and kill its process in the step after them."""
    run = f"{name}_{count}"
    async with yard.runtime(name, f"long-{count}") as runtime:
        await runtime.ask("grow", run, count)
        await yard.told(run, "reached")
        await runtime.kill()


async def _resumed(yard: Yard, name: str, count: int, times: int) -> float:
    """Go on with a run in a process that has just started, and kill that; in ms."""
    run = f"{name}_{count}"
    async with yard.runtime(name, f"long-{count}", "later") as runtime:
        began: float = await runtime.ask("resumed", run, count, within_s=LONG_S)
        await yard.told(run, "reached", times)
        await runtime.kill()
    reached = [one.at for one in yard.ledger.of(run) if one.what == "reached"]
    return (reached[-1] - began) * 1000


async def kills(yard: Yard, scale: Scale) -> dict[str, float]:
    """Processes killed with -9 at any moment while six runs act; each effect tells the ledger."""
    results: dict[str, float] = {"kills": scale.kills}

    async def one(name: str) -> None:
        results.update(await _killed(yard, name, scale.kills))

    async with anyio.create_task_group() as tasks:
        for name in STEPS:
            tasks.start_soon(one, name)
    return results


async def _killed(yard: Yard, name: str, times: int) -> dict[str, float]:
    """Kill the process of a runtime so many times; count what has happened twice."""
    chance = random.Random(name)
    runs = [f"{name}_act_{number}" for number in range(ACTORS)]
    async with yard.runtime(name, "kills") as runtime:
        for run in runs:
            await runtime.ask("act", run)
        for _ in range(times):
            await _acting(yard, runs)
            await anyio.sleep(chance.uniform(0, 0.1))
            await runtime.kill()
            await runtime.restart()
            for run in runs:
                await runtime.ask("take_up", run)
        await _acting(yard, runs)
        await runtime.kill()
    return _repeats(name, yard.ledger, runs)


async def _acting(yard: Yard, runs: list[str]) -> None:
    """Wait until each of them has acted three times more."""
    before = {run: len(yard.ledger.of(run)) for run in runs}
    for run, there in before.items():
        await yard.told(run, "acted", there + 3)


def _repeats(name: str, ledger: Ledger, runs: Iterable[str]) -> dict[str, float]:
    """Count the effects that were done twice; of Midflight's writes, those under another key.

    In Midflight every other effect is ``once``. A ``write`` may be done again, under its key.
    """
    acted = [one for run in runs for one in ledger.of(run) if one.what == "acted"]
    times = Counter(one.about for one in acted)
    if name != "midflight":
        return {f"{name}_duplicates": len(acted) - len(times), f"{name}_acts": len(acted)}
    keys: defaultdict[str, set[str]] = defaultdict(set)
    for one in acted:
        keys[one.about].add(one.more)
    writes = {about for about in times if int(about.rpartition("/")[2]) % 2}
    once = sum(times[about] - 1 for about in times.keys() - writes)
    other_key = sum(len(keys[about]) - 1 for about in writes)
    again = sum(times[about] - 1 for about in writes)
    return {
        "duplicates": once + other_key,
        "writes_done_again_under_their_key": again - other_key,
        "acts": len(acted),
    }


# ── the report ───────────────────────────────────────────────────────────────────────────────

ROWS = {
    "one_run_vs_langgraph": ("steps a second of one run, against LangGraph's", "≥ 4"),
    "fifty_runs_vs_langgraph": ("steps a second of 50 runs at once, against LangGraph's", "≥ 17"),
    "one_run_vs_raw": (
        "steps a second of one run, against plain commits, growing log",
        "≥ 0.4",
    ),
    "one_run_vs_raw_in_place": ("the same, where the log of plain commits is written in place", ""),
    "fifty_runs_vs_raw": ("steps a second of 50 runs, against plain commits, growing log", ""),
    "fifty_runs_vs_raw_in_place": ("the same, where their log is written in place", ""),
    "one_run_vs_dbos": ("steps a second of one run, against those of DBOS", ""),
    "fifty_runs_vs_dbos": ("steps a second of 50 runs at once, against those of DBOS", ""),
    "commits_per_step": ("commits for a step", "≤ 1.1"),
    "cpu_ms_per_step_1": ("processor time of a step, one run, ms", ""),
    "cpu_ms_per_step_50": ("processor time of a step, 50 runs at once, ms", ""),
    "reads_per_s": ("`read` steps a second of one run", ""),
    "stop_stream_p50_ms": ("stop in a model's stream, p50 ms", "≤ 4"),
    "stop_stream_p99_ms": ("the same, p99 ms", "≤ 12"),
    "stop_tool_p50_ms": ("stop in an async tool, p50 ms", "≤ 4"),
    "stop_tool_p99_ms": ("the same, p99 ms", "≤ 12"),
    "commits_per_stop": ("commits for a stop in an async tool", ""),
    "stop_200_ms": ("200 runs stopped at once, until the last, ms", "≤ 150"),
    "resume_200_ms": ("on again after 200 steps and a kill, ms", ""),
    "resume_5000_ms": ("on again after 5,000 steps and a kill, ms", "≤ 80"),
    "resume_50000_ms": ("on again after 50,000 steps and a kill, ms", "≤ 400"),
    "unlisted_after_ack": ("effects begun after a cancel and not listed by it", "0"),
    "duplicates": ("`once` effects that happened twice, and `write`s under two keys", "0"),
    "writes_done_again_under_their_key": ("`write`s done again under their key", ""),
}

BESIDE = {
    "steps_per_s_1": "steps a second, one run",
    "steps_per_s_50": "steps a second, 50 runs at once",
    "one_run_vs_raw": "one run against plain commits",
    "one_run_vs_raw_in_place": "the same, where their log is written in place",
    "fifty_runs_vs_raw": "50 runs at once against plain commits",
    "fifty_runs_vs_raw_in_place": "the same, where their log is written in place",
    "commits_per_step": "commits for a step",
    "cpu_ms_per_step_1": "processor time of a step, one run, ms",
    "cpu_ms_per_step_50": "processor time of a step, 50 runs at once, ms",
    "stop_stream_p50_ms": "stop in a model's stream, p50 ms",
    "stop_stream_p99_ms": "the same, p99 ms",
    "stop_tool_p50_ms": "stop in an async tool, p50 ms",
    "stop_tool_p99_ms": "the same, p99 ms",
    "stop_200_ms": "200 runs stopped at once, until the last, ms",
    "resume_200_ms": "on again after 200 steps, ms",
    "resume_5000_ms": "on again after 5,000 steps, ms",
    "resume_50000_ms": "on again after 50,000 steps, ms",
    "duplicates": "effects that happened twice and must not; of peers any",
    "writes_done_again_under_their_key": "`write`s done again under their key",
    "acts": "of so many",
}
"""What is told of every runtime beside each other."""


def report(results: dict[str, Any]) -> str:
    """Return the page in the docs, around what was measured."""
    text = (HERE / "steps.template.md").read_text(encoding="utf-8")
    figures = {
        name: _figure(value) if isinstance(value, float | int) else str(value)
        for name, value in results.items()
    }
    beside = "\n".join(
        f"| {what} | " + " | ".join(_beside(figures, name, who) for who in STEPS) + " |"
        for name, what in BESIDE.items()
    )
    sittings = "\n".join(
        f"| {part} | {results[f'{part}_commit']} | {results[f'{part}_seconds']:.0f} "
        f"| {results[f'{part}_load_of_others_pct']:.0f} % |"
        for part in PARTS
    )
    scale = Scale()
    more = {
        "table": table(results, ROWS),
        "beside": beside,
        "sittings": sittings,
        "alone": str(scale.alone),
        "each": str(scale.each),
        "rounds": str(scale.rounds),
        "races": str(scale.races),
        "actors": str(ACTORS),
        "plain_commits": str(PLAIN),
    }
    for name, figure in {**figures, **more}.items():
        text = text.replace(f"{{{{{name}}}}}", figure)
    return text


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _beside(figures: dict[str, str], name: str, who: str) -> str:
    return figures.get(name if who == "midflight" else f"{who}_{name}", "not measured")


PARTS: dict[str, Callable[[Yard, Scale], Awaitable[dict[str, float]]]] = {
    part.__name__: part for part in (speed, stops, stop_all, races, resumes, kills)
}


async def measure(names: list[str], scale: Scale, keep: Callable[[dict[str, Any]], None]) -> None:
    """Measure these parts, and hand over what each has found as soon as it is done."""
    with (
        tempfile.TemporaryDirectory(dir=ROOT, prefix=".bench-") as folder,
        postgres_server("") as postgres,
    ):
        async with keeping(Path(folder)) as ledger, providing(ledger) as provider:
            yard = Yard(Path(folder), postgres, ledger, provider)
            yard.prepare()
            for name in names:
                measured, load, began = commit(), Load(), time.monotonic()
                found: dict[str, Any] = dict(await PARTS[name](yard, scale))
                found[f"{name}_load_of_others_pct"] = load.of_others_pct()
                found[f"{name}_seconds"] = time.monotonic() - began
                show(found)
                keep(found | versions() | {f"{name}_commit": measured})


def versions() -> dict[str, str]:
    """Return what the peers are, by their pins."""
    (dbos,) = re.findall(r"^dbos==(.+)$", PINS.read_text(encoding="utf-8"), re.MULTILINE)
    return {"langgraph_version": version_of(KINDS["langgraph-sqlite"]), "dbos_version": dbos}


def add_up(results: dict[str, Any]) -> None:
    """Add up, over the parts that cancel runs, what no cancel had listed."""
    parts = [part for part in PARTS if f"{part}_unlisted" in results]
    results["unlisted_after_ack"] = sum(results[f"{part}_unlisted"] for part in parts)
    results["cancels"] = sum(results[f"{part}_cancels"] for part in parts)


def keep(found: dict[str, Any]) -> None:
    """Keep the figures of a part with those of the others."""
    results = figures_load("steps") if (RESULTS / "steps.json").exists() else {}
    results |= {n: round(v, 4) if isinstance(v, float) else v for n, v in found.items()}
    results["machine"] = machine()
    add_up(results)
    save("steps", dict(sorted(results.items())))


def write_page() -> None:
    """Write the page, if there are figures of all parts."""
    results = figures_load("steps")
    if lacking := [part for part in PARTS if f"{part}_seconds" not in results]:
        print(f"The page was not written: nothing is known yet of {', '.join(lacking)}.")
        return
    (ROOT / "docs/benchmarks-steps.md").write_text(report(results), encoding="utf-8")
    for name in missed(results, ROWS):
        print(f"MISSED: {name} is {results[name]}, wanted {ROWS[name][1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure durable steps, stops and resumes.")
    parser.add_argument("parts", nargs="*", help=f"of: {', '.join(PARTS)}; all without any")
    parser.add_argument("--quick", action="store_true", help="few rounds; nothing is kept")
    parser.add_argument("--page", action="store_true", help="only write the page anew")
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - PARTS.keys():
        parser.error(f"there is no part {', '.join(sorted(unknown))}; see --help")
    began = time.monotonic()
    if not chosen.page:
        scale = QUICK if chosen.quick else Scale()
        kept = (lambda _: None) if chosen.quick else keep
        anyio.run(measure, chosen.parts or list(PARTS), scale, kept)
        print(f"Done in {time.monotonic() - began:.0f} s.")
    if not chosen.quick:
        write_page()


if __name__ == "__main__":
    main()
