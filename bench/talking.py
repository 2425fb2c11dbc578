"""How soon an aborted model call is closed at its provider, and a message is answered for.

``make bench-assistant`` writes ``bench/results/assistant.json`` and its page in ``docs``. The real
SDKs ask a stand-in on loopback that speaks as the providers do; SQLite, every commit synced.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from figures import ROOT, machine, percentile, save, show, table

from midflight.assistant import Profile, assistant
from midflight.control import Control
from midflight.conversation import TRIAGE_AFTER_S
from midflight.engines.local_engine import LocalEngine
from midflight.journal.phases import Phase
from midflight.journal.record import Limits
from midflight.stores.sqlite import SqliteStore
from models.standin import Request, StandIn, calls, says
from models.standin_wire import Answer

ABORTS = 150  # by each SDK
MESSAGES = 40
NO_LIMITS = Limits()

ROWS = {
    "abort_closed_p50_ms": ("pause → the provider sees the call closed, ms, p50", ""),
    "abort_closed_p99_ms": ("pause → the provider sees the call closed, ms, p99", "≤ 50"),
    "answered_p50_ms": ("message → the person is told what is done about it, ms, p50", ""),
    "answered_p99_ms": ("message → the person is told what is done about it, ms, p99", "seconds"),
}
PAGE = """# How soon a model call is closed, and a message answered for

Made by `make bench-assistant`; the figures are in `bench/results/assistant.json`. The official SDKs
of Anthropic and OpenAI ask a stand-in on loopback; SQLite with every commit synced. A message
waits {triage_after_ms:.0f} ms for others that may follow it before it is looked at; the figures
include that.

| what | figure | wanted |
|---|---|---|
{rows}

{aborts} aborts, {messages} messages. {machine}, {seconds:.0f} s.
"""


@asynccontextmanager
async def working(standin: StandIn, provider: str) -> AsyncIterator[tuple[Control, str]]:
    """An assistant that talks for ever."""
    works = assistant(f"bench-{provider}", Profile(getattr(standin, provider)()), limits=NO_LIMITS)
    with tempfile.TemporaryDirectory() as folder:
        async with (
            SqliteStore.open(Path(folder) / "runs.db") as store,
            LocalEngine.open(store, [works], workdir=folder) as engine,
        ):
            control = Control(store, engine)
            run = await control.start(works, "Talk for ever")
            yield control, run
            await control.cancel(run)
            await control.ended(run)


async def aborts(provider: str) -> list[float]:
    """Pause in the middle of an answer, resume, again."""
    waits = []
    async with StandIn() as standin:
        standin.answer_by(lambda _: says(*["word "] * 4_000, between_s=0.005))
        async with working(standin, provider) as (control, run):
            for number in range(ABORTS):
                while len(standin.requests) <= number:  # noqa: ASYNC110 - a server has no event
                    await anyio.sleep(0.002)
                await anyio.sleep(0.01)
                pressed = anyio.current_time()
                await control.pause(run)
                waits.append(await standin.requests[number].closed() - pressed)
                await control.until(run, lambda s: s.phase is Phase.PAUSED)
                await control.resume(run)
    return waits


def _answer(request: Request) -> Answer:
    """The work goes on for ever; a triage answers at once."""
    tools = [tool.get("function", tool)["name"] for tool in request.body.get("tools", [])]
    if "triage" in tools:
        return calls(("triage", {"choices": []}))
    return says(*["word "] * 20_000, between_s=0.01)


async def answers() -> list[float]:
    """Send a message while it works, and wait until the thread has its answer."""
    waits = []
    async with StandIn() as standin:
        standin.answer_by(_answer)
        async with working(standin, "anthropic") as (control, run):
            thread = (await control.state(run)).thread
            for number in range(MESSAGES):
                sent = anyio.current_time()
                accepted = await control.send(run, f"thought {number}")
                await _told(control, thread, accepted.position)
                waits.append(anyio.current_time() - sent)
    return waits


async def _told(control: Control, thread: str, message: int) -> None:
    async with control.store.watch({thread: message}) as news:
        async for record in news:
            if getattr(record.event, "message", 0) == message:
                return


async def main() -> None:
    """Measure, show, save."""
    began = time.perf_counter()
    closed = [*await aborts("anthropic"), *await aborts("openai")]
    results: dict[str, Any] = {
        "abort_closed_p50_ms": percentile(closed, 50) * 1e3,
        "abort_closed_p99_ms": percentile(closed, 99) * 1e3,
    }
    show(results)
    told = await answers()
    results["answered_p50_ms"] = percentile(told, 50) * 1e3
    results["answered_p99_ms"] = percentile(told, 99) * 1e3
    results["triage_after_ms"] = TRIAGE_AFTER_S * 1e3
    show(results)
    results |= {"aborts": len(closed), "messages": len(told), "machine": machine()}
    results["seconds"] = round(time.perf_counter() - began, 1)
    save("assistant", results)
    page = ROOT / "docs/benchmarks-assistant.md"
    page.write_text(report(results), encoding="utf-8")


def report(results: dict[str, Any]) -> str:
    """The page in the docs."""
    return PAGE.format(rows=table(results, ROWS), **results)


if __name__ == "__main__":
    anyio.run(main)
