"""How soon an agent hears that it is to stop, what steps cost, and what paused runs cost.

Run by ``make bench-interrupt``. Everything happens on a real SQLite file (WAL,
``synchronous=FULL``) with the local engine driving. Moments are CLOCK_MONOTONIC, which the
processes of one host share; ratios are medians of rounds whose two sides were measured in turn.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from figures import ROOT, Load, machine, missed, percentile, rate, save, show, table
from listing import unlisted
from msgspec import Raw

from midflight.agents import Agent, agent
from midflight.control import Control, local
from midflight.inputs import new_id
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.stores.protocol import Append, Entry
from midflight.stores.sqlite.sqlite_file import connect
from midflight.stores.sqlite.transaction import read_events
from midflight.tools.declaration import tool
from midflight.tools.processes.process import run_process
from stores.programs import started
from stores.runs import Driver, running
from tools.processes import alive, tree

ROUNDS = 7
SAMPLES = 200
BUSY_RUNS = 50
LONG = 10_000  # steps
BOUNDARY_STEP_S = 0.02
EVICT_S = 0.02
RESULT = "x" * 198
PAYLOAD = Raw(b'"' + RESULT.encode() + b'"')


class World:
    """What the tools of one part have done, and when."""

    def __init__(self) -> None:
        self.begun: dict[str, list[tuple[str, float]]] = {}
        self.aborted: dict[str, float] = {}
        self.acknowledged: dict[str, float] = {}
        self.go = asyncio.Event()
        self.over = False
        self.ended_at = 0.0
        self._news = asyncio.Event()

    def begins(self, run: str, key: str) -> None:
        self.begun.setdefault(run, []).append((key, time.monotonic()))
        self.stir()

    def stir(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def until(self, ready: Callable[[], bool]) -> None:
        with anyio.fail_after(30):
            while not ready():
                await self._news.wait()

    async def until_begun(self, run: str, times: int = 1) -> None:
        await self.until(lambda: len(self.begun.get(run, ())) >= times)

    async def until_aborted(self, run: str) -> float:
        await self.until(lambda: run in self.aborted)
        return self.aborted.pop(run)


world: World


# ── tools and agents ─────────────────────────────────────────────────────────────────────────


async def in_flight(run: str, idempotency_key: str = "") -> None:
    """Goes on until it is ended, and notes the moment at which it hears of that."""
    world.begins(run, idempotency_key)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        world.aborted[run] = time.monotonic()
        world.stir()
        raise


read_for_ever = tool(effect="read", name="bench.read_for_ever")(in_flight)
work_for_ever = tool(effect="once", name="bench.work_for_ever", label="work")(in_flight)


@tool(effect="read")
async def stubborn(run: str) -> None:
    """Swallows every cancel until the part is over."""
    world.begins(run, "")
    while not world.over:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


@tool(effect="read")
async def look(number: int) -> str:
    return RESULT


@tool(effect="once", label="line")
async def write_line(run: str, number: int, idempotency_key: str = "") -> int:
    world.begins(run, idempotency_key)
    await asyncio.sleep(0)
    return number


@tool(effect="read")
async def short_look(run: str, number: int) -> int:
    world.begins(run, "")
    await asyncio.sleep(BOUNDARY_STEP_S)
    world.ended_at = time.monotonic()
    return number


@tool(effect="once", label="process tree")
async def process_tree(run: str, token: str) -> None:
    def up(_: str, __: bytes) -> None:
        world.begins(run, "")

    await run_process(tree(token, "child", "session", "daemon", "stubborn"), on_output=up)


@agent(evict=False)
async def hanging(run: Run) -> None:
    await run.step("Hang", work_for_ever if run.input else read_for_ever, run.id)


@agent(evict=False)
async def swallowing(run: Run) -> None:
    await run.step("Swallow", stubborn, run.id)


@agent(evict=False)
async def stepping(run: Run) -> None:
    number = 0
    while not world.over:
        number += 1
        await run.step("step", look, number)


@agent(evict=False)
async def writing(run: Run) -> None:
    for number in range(1_000_000):
        await run.step("Write", write_line, run.id, number)


@agent(evict=False, mode="boundary")
async def bounded(run: Run) -> None:
    for number in range(1_000_000):
        await run.step("Look", short_look, run.id, number)


@agent(evict=False)
async def spawning(run: Run) -> None:
    await run.step("Processes", process_tree, run.id, run.input)


@agent(evict=False)
async def in_turns(run: Run) -> None:
    """Steps when it is told to, so that somebody else can be measured in between."""
    turns: asyncio.Queue[tuple[int, asyncio.Future[None]]] = queues[run.input]
    number = 0
    while True:
        count, done = await turns.get()
        if not count:
            return
        for _ in range(count):
            number += 1
            await run.step("step", look, number)
        done.set_result(None)


@agent()
async def long(run: Run) -> None:
    for number in range(LONG):
        await run.step("step", look, number)
    world.ended_at = time.monotonic()
    await run.step("Hang", read_for_ever, run.id)


queues: dict[int, asyncio.Queue[tuple[int, asyncio.Future[None]]]] = {}
evicted_soon = Agent(long.name, long.function, evict_after=EVICT_S)
AGENTS = (hanging, swallowing, stepping, writing, bounded, spawning, in_turns, evicted_soon)


@asynccontextmanager
async def driving(path: Path, *agents: Agent) -> AsyncIterator[Control]:
    global world
    world = World()
    async with local(path, *(agents or AGENTS), workdir=path.parent / "work") as control:
        yield control


async def start_many(control: Control, count: int, what: Agent, given: Any = None) -> list[str]:
    runs: list[str] = []

    async def one(number: int) -> None:
        chosen = given(number) if callable(given) else given
        runs.append(await control.start(what, "bench", input=chosen))

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)
    return runs


async def cancel(control: Control, run: str) -> float:
    """Press cancel; the time from there until the step in flight hears of it, in ms."""
    pressed = time.monotonic()
    await control.cancel(run)
    world.acknowledged[run] = time.monotonic()
    return (await world.until_aborted(run) - pressed) * 1000


def reads_and_effects(number: int) -> bool:
    return number % 2 == 1


# ── how soon a stop is heard ─────────────────────────────────────────────────────────────────


async def abort_idle(path: Path) -> dict[str, float]:
    cancels, pauses, paused = [], [], []
    async with driving(path) as control:
        for number in range(SAMPLES):
            run = await control.start(hanging, "bench", input=reads_and_effects(number))
            await world.until_begun(run)
            cancels.append(await cancel(control, run))
            await control.ended(run)
        run = await control.start(hanging, "bench", input=False)
        for number in range(SAMPLES):
            await world.until_begun(run, number + 1)
            pressed = time.monotonic()
            accepted = await control.pause(run)
            pauses.append((await world.until_aborted(run) - pressed) * 1000)
            await control.applied(accepted)
            paused.append((time.monotonic() - pressed) * 1000)
            await control.resume(run)
        await control.cancel(run)
    return {
        "abort_p50_ms": percentile(cancels, 50),
        "abort_p99_ms": percentile(cancels, 99),
        "pause_p50_ms": percentile(pauses, 50),
        "pause_p99_ms": percentile(pauses, 99),
        "paused_p50_ms": percentile(paused, 50),
        "paused_p99_ms": percentile(paused, 99),
    }


async def abort_busy(path: Path) -> dict[str, float]:
    delays = []
    async with driving(path) as control:
        runs = await start_many(control, SAMPLES, hanging, reads_and_effects)
        for run in runs:
            await world.until_begun(run)
        (deaf,) = await start_many(control, 1, swallowing)
        await world.until_begun(deaf)
        await control.cancel(deaf)
        busy = await start_many(control, BUSY_RUNS, stepping)
        await anyio.sleep(0.2)
        before, began = await steps_of(control, busy), time.monotonic()
        for run in runs:
            delays.append(await cancel(control, run))
            await anyio.sleep(0.005)
        made = await steps_of(control, busy) - before
        per_s = made / (time.monotonic() - began)
        world.over = True
        await control.cancel(deaf)
        for run in [*busy, *runs]:
            await control.ended(run)
    return {
        "abort_busy_p50_ms": percentile(delays, 50),
        "abort_busy_p99_ms": percentile(delays, 99),
        "abort_busy_steps_per_s": per_s,
    }


async def steps_of(control: Control, runs: list[str]) -> int:
    return sum([(await control.store.row(run)).steps for run in runs])


async def abort_other_process(path: Path) -> dict[str, float]:
    pressed: dict[str, float] = {}
    async with driving(path) as control:
        runs = await start_many(control, SAMPLES, hanging, reads_and_effects)
        for run in runs:
            await world.until_begun(run)
        with started("../../bench/presser.py", str(path), *runs) as presser:
            said, _ = await anyio.to_thread.run_sync(presser.communicate)
        for line in said.splitlines():
            run, press, acknowledgement = line.split()
            pressed[run] = float(press)
            world.acknowledged[run] = float(acknowledgement)
        delays = [(await world.until_aborted(run) - pressed[run]) * 1000 for run in runs]
        for run in runs:
            await control.ended(run)
    return {
        "abort_other_process_p50_ms": percentile(delays, 50),
        "abort_other_process_p99_ms": percentile(delays, 99),
    }


async def boundary(path: Path) -> dict[str, float]:
    """Pause at moments spread evenly over a step that takes 20 ms."""
    reactions, after_step = [], []
    async with driving(path) as control:
        run = await control.start(bounded, "bench")
        for number in range(SAMPLES):
            await world.until_begun(run, len(world.begun.get(run, ())) + 1)
            await anyio.sleep(BOUNDARY_STEP_S * (number % 20) / 20)
            pressed = time.monotonic()
            await control.applied(await control.pause(run))
            paused = time.monotonic()
            reactions.append((paused - pressed) * 1000)
            after_step.append((paused - max(pressed, world.ended_at)) * 1000)
            await control.resume(run)
        await control.cancel(run)
        await control.ended(run)
    return {
        "boundary_step_ms": BOUNDARY_STEP_S * 1000,
        "boundary_reaction_p50_ms": percentile(reactions, 50),
        "boundary_reaction_p99_ms": percentile(reactions, 99),
        "boundary_after_step_p99_ms": percentile(after_step, 99),
    }


# ── what steps cost ──────────────────────────────────────────────────────────────────────────


async def appends(driving: Driver, count: int) -> None:
    """What a read step writes, by itself."""
    run, head = driving.run, driving.state.head
    for number in range(count):
        step = e.StepSettled(epoch=1, step=f"step:{number:012d}", name="step", result=PAYLOAD)
        await driving.store.append(Append(new_id(), (Entry(run, head, (step,)),)))
        head += 1
    driving.state.head = head


async def take_turns(numbers: range, count: int) -> None:
    turns = [asyncio.get_running_loop().create_future() for _ in numbers]
    for number, done in zip(numbers, turns, strict=True):
        queues[number].put_nowait((count, done))
    for done in turns:
        await done


async def speed(path: Path) -> dict[str, float]:
    one, fifty = range(1), range(1, BUSY_RUNS + 1)
    cost, many, singles = [], [], []
    queues.update((number, asyncio.Queue()) for number in range(BUSY_RUNS + 1))
    async with driving(path) as control:
        plain = await running(control.store, "r-plain")
        runs = await start_many(control, BUSY_RUNS + 1, in_turns, lambda number: number)
        await appends(plain, 1000)  # until the log has gone round: a growing file syncs slower
        await take_turns(one, 500)
        await take_turns(fifty, 10)
        for _ in range(ROUNDS):
            before = await rate(lambda: appends(plain, 300), 300)
            single = await rate(lambda: take_turns(one, 300), 300)
            after = await rate(lambda: appends(plain, 300), 300)
            crowd = await rate(lambda: take_turns(fifty, 40), BUSY_RUNS * 40)
            single_again = await rate(lambda: take_turns(one, 300), 300)
            cost.append((before + after) / 2 / single)
            singles.append((single + single_again) / 2)
            many.append(crowd / singles[-1])
        for number in (*one, *fifty):
            queues[number].put_nowait((0, asyncio.get_running_loop().create_future()))
        for run in runs:
            await control.ended(run)
    return {
        "read_step_ratio": statistics.median(cost),
        "runs50_ratio": statistics.median(many),
        "steps_per_s": statistics.median(singles),
    }


async def resume_long(path: Path) -> dict[str, float]:
    """A paused run of 10,000 steps goes on: in the process that let it go, and in a new one."""
    warm, cold = [], []
    async with driving(path) as control:
        run = await control.start(evicted_soon, "bench")
        await laid_down(control, run)
        for _ in range(ROUNDS):
            warm.append(await resumed(control, path, run))
            await laid_down(control, run)
    for _ in range(3):
        async with driving(path) as control:
            cold.append(await resumed(control, path, run))
            await laid_down(control, run)
    return {
        "resume_10k_ratio": statistics.median(ratio for ratio, _ in warm),
        "resume_10k_ms": statistics.median(took for _, took in warm),
        "resume_10k_new_process_ratio": statistics.median(ratio for ratio, _ in cold),
    }


async def laid_down(control: Control, run: str) -> None:
    """Pause it where it hangs, and wait until its function is let go."""
    await world.until_begun(run)
    await control.pause(run)
    await control.until(run, lambda state: state.phase is Phase.PAUSED and not state.driver)
    world.begun.clear()


async def resumed(control: Control, path: Path, run: str) -> tuple[float, float]:
    gc.collect()
    before = bare_read(path, run)
    began = time.monotonic()
    await control.resume(run)
    await world.until_begun(run)
    took = world.ended_at - began
    return took / ((before + bare_read(path, run)) / 2), took * 1000


def bare_read(path: Path, run: str) -> float:
    """Seconds that reading and decoding the rows take, and nothing else."""
    db = connect(path, writes=False, busy_s=1)
    began = time.monotonic()
    found = read_events(db, run, 0, -1)
    took = time.monotonic() - began
    db.close()
    assert len(found) > LONG
    return took


# ── what paused runs cost ────────────────────────────────────────────────────────────────────


async def paused_memory(path: Path) -> dict[str, float]:
    """What each further evicted run leaves behind in the process, once its caches are full."""
    quick = Agent("quick", hanging.function, evict_after=EVICT_S)
    sizes = []
    tracemalloc.start()
    try:
        async with driving(path, quick) as control:
            for count in (520, 600):  # the first fill the caches: 1024 folded journals, two a run
                await pause_and_let_go(control, quick, count)
                await anyio.sleep(0.2)
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    return {"paused_run_bytes": (sizes[1] - sizes[0]) / 600}


async def pause_and_let_go(control: Control, what: Agent, count: int) -> None:
    async def let_go(run: str) -> None:
        await world.until_begun(run)
        await control.pause(run)
        await control.until(run, lambda state: state.phase is Phase.PAUSED and not state.driver)

    runs = await start_many(control, count, what, False)
    async with anyio.create_task_group() as tasks:
        for run in runs:
            tasks.start_soon(let_go, run)
    world.begun.clear()
    world.aborted.clear()


# ── what must never happen ───────────────────────────────────────────────────────────────────


async def races(path: Path) -> dict[str, float]:
    """Cancel runs that do one effect after another, each at another moment."""
    async with driving(path) as control:

        async def race(run: str, after: float) -> None:
            await world.until_begun(run, 2)
            await anyio.sleep(after)
            await control.cancel(run)
            world.acknowledged[run] = time.monotonic()
            await control.ended(run)

        for batch in range(10):
            runs = await start_many(control, SAMPLES // 10, writing)
            async with anyio.create_task_group() as tasks:
                for number, run in enumerate(runs):
                    tasks.start_soon(race, run, 0.001 * number + 0.0001 * batch)
    return {}


async def processes(path: Path) -> dict[str, float]:
    """Cancel tools that have started processes which do not want to end; count who is left."""
    tokens = {f"bench-{new_id()}-{number}" for number in range(6)}
    async with driving(path) as control:
        left = iter(tokens)
        runs = await start_many(control, len(tokens), spawning, lambda _: next(left))
        for run in runs:
            await world.until_begun(run)
        there = sum(len(alive(token)) for token in tokens)
        for run in runs:
            await control.cancel(run)
            world.acknowledged[run] = time.monotonic()
        for run in runs:
            await control.ended(run)
        orphans = sum(len(alive(token)) for token in tokens)
    assert there >= 4 * len(tokens), f"only {there} processes had come up"
    return {"orphans": float(orphans), "orphans_of_processes": float(there)}


# ── the report ───────────────────────────────────────────────────────────────────────────────

ROWS = {
    "abort_p99_ms": ("from cancel to the step hearing it, p99 ms", "≤ 5"),
    "abort_busy_p99_ms": ("beside 50 stepping runs and a tool that swallows cancels, ms", "≤ 50"),
    "abort_other_process_p99_ms": ("pressed in another process, ms", "≤ 20"),
    "boundary_reaction_p99_ms": ("boundary mode: pause over steps of 20 ms, ms", "no bound"),
    "read_step_ratio": ("a `read` step that does nothing, against the append alone", "≤ 1.7"),
    "runs50_ratio": ("steps a second of 50 runs, against one", "≥ 3"),
    "resume_10k_ratio": ("resuming 10,000 steps by replay, against reading its rows", "≤ 5"),
    "resume_10k_new_process_ratio": ("the same in a process that has just started", "no bound"),
    "paused_run_bytes": ("memory that an evicted run keeps, bytes", "≤ 2048"),
    "unlisted_after_ack": ("effects begun after a cancel and not listed by it", "0"),
    "orphans": ("processes left of cancelled tools", "0"),
}

PAGE = """\
# Interrupting, measured

Made by `make bench-interrupt`; the figures are in `bench/results/interrupt.json`. SQLite with
`synchronous=FULL` and the local engine. Moments are CLOCK_MONOTONIC, p99 is of {samples} presses,
half of them on reads and half on effects; ratios are medians of {rounds} rounds whose two sides
were measured in turn. A press counts from the call of `control.cancel` or `control.pause`.

| what | measured | wanted |
|---|---|---|
{table}

Machine: {machine}; other programs used {load:.0f} % of it meanwhile. The effects are those of
{cancels:.0f} cancelled runs, the processes {processes:.0f}, some of which do not want to end.

What an evicted run keeps is what is still in use. What was freed is another matter: CPython's own
allocator gives memory back by the megabyte, and one small object holds a megabyte. After a wave of
10,000 live runs (+290 MB) were paused and evicted, 41 to 54 MB stayed with the process in seven
measurements, idle and busy: some forty small objects of the store and the loop lie in as many of
those megabytes. After a thousand runs were let go the engine asks the C library for what it has
kept. With `PYTHONMALLOC=malloc` and free pages asked back, it is 16 MB.
`tests/scenarios/test_memory.py` wants at most 60 MB, in the first or a second try, and 40 MB.
"""

REACTION = """\
| | the step in flight | the run is paused, p50 / p99 | what it costs |
|---|---|---|---|
| `mode="immediate"` | a read is ended, {pause_p50_ms:.1f} / {pause_p99_ms:.1f} ms after the \
press; an effect finishes | {paused_p50_ms:.1f} / {paused_p99_ms:.1f} ms during a read | that read \
is done again at the resume |
| `mode="boundary"` | comes to its end | {boundary_reaction_p50_ms:.1f} / \
{boundary_reaction_p99_ms:.1f} ms with steps of {boundary_step_ms:.0f} ms | up to one whole step, \
however long it is; nothing is done twice |

A cancel in immediate mode also ends effects, whose outcome is then unknown. It is heard inside the
step {abort_p50_ms:.1f} / {abort_p99_ms:.1f} ms after the press; {abort_busy_p50_ms:.1f} / \
{abort_busy_p99_ms:.1f} ms beside {busy} runs that step as
fast as they can and a tool that swallows cancels; {abort_other_process_p50_ms:.1f} / \
{abort_other_process_p99_ms:.1f} ms when pressed in another
process.
"""


def report(results: dict[str, Any]) -> str:
    return PAGE.format(
        table=table(results, ROWS),
        samples=SAMPLES,
        rounds=ROUNDS,
        machine=results["machine"],
        load=results["load_of_others_pct"],
        cancels=results["cancels"],
        processes=results["orphans_of_processes"],
    )


TOLD_ON = ("README.md", "docs/concepts.md")


def reaction(results: dict[str, Any]) -> str:
    """The table on the pages of ``TOLD_ON``: what each mode costs."""
    return REACTION.format(**results, busy=BUSY_RUNS)


def with_reaction(page: str, results: dict[str, Any]) -> str:
    head, _, rest = page.partition("<!-- reaction -->\n")
    _, _, tail = rest.partition("<!-- /reaction -->\n")
    return f"{head}<!-- reaction -->\n{reaction(results)}<!-- /reaction -->\n{tail}"


PARTS: tuple[Callable[[Path], Awaitable[dict[str, float]]], ...] = (
    abort_idle,
    abort_busy,
    abort_other_process,
    boundary,
    speed,
    resume_long,
    paused_memory,
    races,
    processes,
)


async def main() -> None:
    began = time.perf_counter()
    results: dict[str, Any] = {"unlisted_after_ack": 0, "cancels": 0}
    load = Load()
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".bench-") as temporary:
        for part in PARTS:
            path = Path(temporary) / f"{part.__name__}.db"
            results |= await part(path)
            results["unlisted_after_ack"] += unlisted(path, world.acknowledged, world.begun)
            results["cancels"] += len(world.acknowledged)
            show({k: v for k, v in results.items() if k not in {"unlisted_after_ack", "cancels"}})
    results["load_of_others_pct"] = load.of_others_pct()
    show(results)
    results = {name: round(value, 4) for name, value in results.items()}
    results["machine"], results["rounds"], results["samples"] = machine(), ROUNDS, SAMPLES
    results["seconds"] = round(time.perf_counter() - began, 1)
    save("interrupt", results)
    write_pages(results)
    for name in missed(results, ROWS):
        print(f"MISSED: {name} is {results[name]}, wanted {ROWS[name][1]}")
    print(f"Done in {results['seconds']} s.")


def write_pages(results: dict[str, Any]) -> None:
    (ROOT / "docs/benchmarks-interrupt.md").write_text(report(results), encoding="utf-8")
    for page in (ROOT / told for told in TOLD_ON):
        text = page.read_text(encoding="utf-8")
        page.write_text(with_reaction(text, results), encoding="utf-8")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except subprocess.SubprocessError as error:
        sys.exit(f"a helper process failed: {error}")
