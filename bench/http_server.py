"""How soon a cancel over HTTP is heard inside a step, and what watching costs.

Run by ``make bench-server``. The server is a process of its own with a real SQLite file (WAL,
``synchronous=FULL``); moments are CLOCK_MONOTONIC, which the processes of one host share. A press
counts from before the request is written until the step hears that it is ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
from figures import ROOT, Load, machine, percentile, save, show, table

from server.reader import Reader

PRESSES = 500
PRESSES_SATURATED = 100
BATCH = 50
STEP_S = 0.05
BUSY_RUNS = 50
WATCHERS = 500
CUTS = 200
CUT_WATCHERS = 100


class Client:
    """One connection that is kept open, as a browser's is, and nothing else in the way."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def open(self) -> Client:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def ask(self, method: str, path: str, body: str = "") -> tuple[float, Any]:
        """When it was sent, and what was answered."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Authorization: Bearer {self.token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        )
        sent = time.monotonic()
        self._writer.write(head.encode())
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().partition(": ")[::2] for line in answer.split("\r\n")[1:])
        data = await self._reader.readexactly(int(fields["content-length"]))
        status = int(answer.split(" ", 2)[1])
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {data!r}")
        return sent, json.loads(data)


class Watcher(Reader):
    """Watches what is mounted below ``/m``."""

    prefix = "/m"


async def bare(client: Client) -> float:
    """The median of an endpoint that does nothing."""
    took = []
    for _ in range(200):
        sent, _ = await client.ask("GET", "/bare")
        took.append(time.monotonic() - sent)
    return 1000 * statistics.median(took)


async def idle(client: Client) -> dict[str, float]:
    return {"bare_endpoint_p50_ms": await bare(client)}


async def cancels(client: Client) -> dict[str, float]:
    """Beside runs whose steps take as long as a quick call of something else does."""
    await client.ask("POST", f"/start/steps/{BUSY_RUNS}?brief={STEP_S}")
    took, acknowledged = await _pressed(client, PRESSES)
    return {
        "cancel_p50_ms": percentile(took, 50),
        "cancel_p99_ms": percentile(took, 99),
        "cancel_acknowledged_p50_ms": percentile(acknowledged, 50),
        "cancel_acknowledged_p99_ms": percentile(acknowledged, 99),
        "bare_endpoint_busy_p50_ms": await bare(client),
        "presses": len(took),
    }


async def cancels_saturated(client: Client) -> dict[str, float]:
    """Beside runs that also step as fast as they can, and leave nothing of a core."""
    await client.ask("POST", f"/start/steps/{BUSY_RUNS}?brief=0")
    took, _ = await _pressed(client, PRESSES_SATURATED)
    return {
        "cancel_saturated_p50_ms": percentile(took, 50),
        "cancel_saturated_p99_ms": percentile(took, 99),
    }


async def _pressed(client: Client, presses: int) -> tuple[list[float], list[float]]:
    """Cancel runs one after another: until each step heard it, and until each receipt came."""
    sent: dict[str, float] = {}
    acknowledged: list[float] = []
    for _ in range(presses // BATCH):
        _, runs = await client.ask("POST", f"/start/waits/{BATCH}")
        while True:
            _, moments = await client.ask("GET", "/moments")
            if all(run in moments["begun"] for run in runs):
                break
            await asyncio.sleep(0.02)
        for run in runs:
            sent[run], _ = await client.ask("POST", f"/m/v1/runs/{run}/cancel", "{}")
            acknowledged.append(1000 * (time.monotonic() - sent[run]))
    await asyncio.sleep(0.5)
    _, moments = await client.ask("GET", "/moments")
    return [1000 * (moments["aborted"][run] - at) for run, at in sent.items()], acknowledged


async def first_events(client: Client) -> dict[str, float]:
    """From the request to the first record."""
    _, (run,) = await client.ask("POST", "/start/waits/1")
    took = []
    for _ in range(100):
        watcher = Watcher(client.port, client.token, [run])
        began = time.monotonic()
        await watcher.read("run.created")
        took.append(1000 * (time.monotonic() - began))
    return {"first_event_p50_ms": percentile(took, 50), "first_event_p99_ms": percentile(took, 99)}


async def memory(client: Client) -> dict[str, float]:
    """What a watcher costs that has nothing to hear."""
    _, (run,) = await client.ask("POST", "/start/waits/1")
    async with anyio.create_task_group() as tasks:
        await _watch(tasks, client, run, 50)  # what is only paid once
        _, before = await client.ask("GET", "/memory")
        await _watch(tasks, client, run, WATCHERS)
        _, after = await client.ask("GET", "/memory")
        tasks.cancel_scope.cancel()
    return {"bytes_per_watcher": (after - before) / WATCHERS}


async def _watch(tasks: Any, client: Client, run: str, count: int) -> None:
    watchers = [Watcher(client.port, client.token, [run]) for _ in range(count)]
    for watcher in watchers:
        tasks.start_soon(watcher.read)
    with anyio.fail_after(20):
        while not all(watcher.positions[run] for watcher in watchers):  # noqa: ASYNC110
            await anyio.sleep(0.05)


async def watching(client: Client) -> dict[str, float]:
    """Watchers of one run that lose their connections at random."""
    _, (run,) = await client.ask("POST", "/start/tells/1")
    chance, cuts = random.Random(3), [CUTS]
    watchers = [Watcher(client.port, client.token, [run]) for _ in range(CUT_WATCHERS)]

    async def watch(watcher: Watcher) -> None:
        while True:
            done = False
            with anyio.move_on_after(chance.uniform(0, 3) if cuts[0] > 0 else 30) as cut:
                done = await watcher.read()
            if done:
                return
            cuts[0] -= cut.cancelled_caught

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for watcher in watchers:
                tasks.start_soon(watch, watcher)
            await client.ask("POST", "/talk")
    last = max(watcher.positions[run][-1] for watcher in watchers)
    seen = [watcher.positions[run] for watcher in watchers]
    return {
        "watch_lost": sum(last - len(set(one)) for one in seen) + sum(w.gaps for w in watchers),
        "watch_doubled": sum(len(one) - len(set(one)) for one in seen),
        "watch_cuts": CUTS - cuts[0],
    }


ROWS = {
    "cancel_p50_ms": ("POST of a cancel until the step hears it, p50, ms", "≤ 25"),
    "cancel_p99_ms": ("the same, p99, ms", "≤ 25"),
    "cancel_saturated_p50_ms": ("beside 50 more that step as fast as they can, p50, ms", "no goal"),
    "cancel_saturated_p99_ms": ("the same, p99, ms", "no goal"),
    "cancel_acknowledged_p50_ms": ("POST of a cancel until its receipt, p50, ms", "no goal"),
    "cancel_acknowledged_p99_ms": ("the same, p99, ms", "no goal"),
    "bare_endpoint_busy_p50_ms": ("an endpoint that does nothing, at the same time, ms", "no goal"),
    "bare_endpoint_p50_ms": (
        "an endpoint that does nothing, with nothing else to do, ms",
        "no goal",
    ),
    "first_event_p50_ms": ("asking for the stream until its first record, p50, ms", "no goal"),
    "bytes_per_watcher": ("memory of one watcher, bytes", "no goal"),
    "watch_lost": ("events that watchers missed, over connections that were cut", "0"),
    "watch_doubled": ("events that they got twice", "0"),
}

PAGE = """\
# The server, measured

Made by `make bench-server`; the figures are in `bench/results/server.json`. The server is a process
of its own, mounted into another app, with SQLite (`synchronous=FULL`) and the local engine. Cancels
are pressed one after another, {presses:.0f} times, beside {busy} runs with steps of {step:.0f} ms.
Watchers were cut off {cuts:.0f} times.

| what | measured | wanted |
|---|---|---|
{table}

Machine: {machine}; other programs used {load:.0f} % of it meanwhile.
"""


def report(results: dict[str, Any]) -> str:
    return PAGE.format(
        table=table(results, ROWS),
        presses=results["presses"],
        busy=BUSY_RUNS,
        step=1000 * STEP_S,
        cuts=results["watch_cuts"],
        machine=results["machine"],
        load=results["load_of_others_pct"],
    )


async def measure(port: int, token: str) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for part in (idle, first_events, memory, watching, cancels, cancels_saturated):
        results |= await part(await Client(port, token).open())  # idle ones are hung up on
        show(results)
    return results


def main() -> None:
    began, load = time.perf_counter(), Load()
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".bench-") as folder:
        server = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("http_served.py")), folder],
            stdout=subprocess.PIPE,
            env=os.environ,
        )
        try:
            assert server.stdout is not None
            place = json.loads(server.stdout.readline())
            results = asyncio.run(measure(place["port"], place["token"]))
        finally:
            server.send_signal(signal.SIGKILL)  # its runs are not meant to end
            server.wait()
    results["load_of_others_pct"] = load.of_others_pct()
    results = {name: round(value, 4) for name, value in results.items()}
    results["machine"], results["seconds"] = machine(), round(time.perf_counter() - began, 1)
    save("server", results)
    (ROOT / "docs/benchmarks-server.md").write_text(report(results), encoding="utf-8")
    print(f"Done in {results['seconds']} s.")


if __name__ == "__main__":
    main()
