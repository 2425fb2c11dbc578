"""Midflight in ``make bench-steps``: what its process does when the bench asks it.

    python steps_on_midflight.py FOLDER MODEL_URL [later]

With ``later`` it opens nothing by itself: ``resumed`` opens the store, and that is measured.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from clocked import clocked
from listing import unlisted
from typing_extensions import override

import midflight
from midflight.agents import Agent, agent
from midflight.kit.adapters import stage, tools
from midflight.kit.adapters.on_midflight import OnMidflight
from midflight.run import Run
from midflight.tools.declaration import Done, NotDone, tool
from midflight.tools.options import EffectRecord

for module in ("midflight.client", "midflight.stores.sqlite"):
    import_module(module)  # before a clock runs, as the peers' programs import theirs

LEDGER_S = 0.25
begun: dict[str, list[tuple[str, float]]] = {}
"""By run: the key and the moment of the first line of each effect."""
acknowledged: dict[str, float] = {}


def _journal(run: str) -> str:
    return f"r-library-{run}"


def _begins(run: str, key: str) -> None:
    begun.setdefault(_journal(run), []).append((key, time.monotonic()))


def _looked_up(about: EffectRecord) -> Done | NotDone:
    return Done("done") if tools.link.has_acted(about.args[0]) else NotDone()


async def _act(item: str, idempotency_key: str = "") -> str:
    """Act on the world in the middle of a short call, under a key."""
    _begins(tools.run_of(item), idempotency_key)
    await asyncio.sleep(0.001)
    tools.tell("acted", item, idempotency_key)
    await asyncio.sleep(0.001)
    return item


act_once = tool(effect="once", name="steps.act_once", check=_looked_up, settles_within=LEDGER_S)(
    _act
)
act_write = tool(effect="write", name="steps.act_again")(_act)


@tool(effect="read", name="steps.look")
async def look(text: str) -> str:
    """Do nothing but be on record."""
    return text


@tool(effect="write", name="steps.note")
async def note_down(text: str, idempotency_key: str = "") -> str:
    """Do nothing but be on record, and have begun on record too."""
    return text


@tool(effect="write", name="steps.hang")
async def hang(run: str, idempotency_key: str = "") -> None:
    """Go on until it is ended."""
    _begins(run, idempotency_key)
    tools.tell("begin", run)
    await asyncio.Event().wait()


@tool(effect="read", name="steps.arrive")
async def arrive(run: str) -> None:
    """Be the step that comes after all the others."""
    tools.tell("reached", run)
    await asyncio.Event().wait()


@agent(evict=False)
async def stepper(run: Run) -> None:
    step = look if run.input["reads"] else note_down
    for number in range(run.input["count"]):
        await run.step("Note", step, f"{number:06}{tools.PAYLOAD}")


@agent(evict=False)
async def hanging(run: Run) -> None:
    await run.step("Hang", hang, run.input)


@agent(evict=False)
async def long(run: Run) -> None:
    for number in range(run.input["count"]):
        await run.step("Note", note_down, f"{number:06}{tools.PAYLOAD}")
    await run.step("Arrive", arrive, run.input["run"])


@agent(evict=False)
async def acting(run: Run) -> None:
    for number in range(1_000_000):
        step = act_write if number % 2 else act_once
        await run.step("Act", step, f"{run.input}/{number}")


class StepsOnMidflight(OnMidflight):
    """One store on a SQLite file, the local engine and a client, in one process."""

    def __init__(self, folder: Path, model_url: str, *, later: bool) -> None:
        super().__init__(folder, model_url, "immediate")
        self._later = later
        self._left_open = AsyncExitStack()

    @override
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        if not self._later:
            await self._open()
        yield

    async def _open(self, clerk: Agent | None = None) -> None:
        """Open the store; only the end of the process closes it."""
        agents = [clerk or self._clerk(), stepper, hanging, long, acting]
        client = midflight.open(
            self.folder / "runs.db", agents=agents, workdir=self.folder / "work"
        )
        self._client = await self._left_open.enter_async_context(client)

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    async def timed(self, runs: int, count: int, reads: bool = False) -> dict[str, float]:
        """Do so many steps in each of so many runs at once, each from its start to its end."""
        given = {"count": count, "reads": reads}

        async def one() -> None:
            run = await self._client.start(stepper, "steps", input=given)
            await run.wait()

        return await clocked(one() for _ in range(runs))

    async def commits(self, verb: str, *given: Any) -> int:
        """Return how many times all its connections commit while one of these verbs is done."""
        made: list[str] = []
        mine = [db for db in gc.get_objects() if isinstance(db, sqlite3.Connection)]
        for db in mine:
            db.set_trace_callback(lambda said: made.append(said) if said == "COMMIT" else None)
        await getattr(self, verb)(*given)
        for db in mine:
            db.set_trace_callback(None)
        return len(made)

    # ── stops ────────────────────────────────────────────────────────────────────────────────────

    async def hang(self, run: str) -> None:
        """Start a run that stays in an async tool."""
        await self._client.start(hanging, "hang", input=run, key=run)

    async def press(self, run: str) -> float:
        """Cancel a run; return the ms until it is durably cancelled."""
        handle = self._handle(run)
        pressed = time.monotonic()
        await handle.cancel()
        acknowledged[handle.id] = time.monotonic()
        ended = await handle.wait()
        took = (time.monotonic() - pressed) * 1000
        assert ended.phase == "cancelled", f"{run} is {ended.phase}"
        return took

    async def press_all(self, runs: list[str]) -> float:
        """Cancel them all at once; return the ms until the last is durably cancelled."""
        pressed = time.monotonic()
        await stage.together(self.press(run) for run in runs)
        return (time.monotonic() - pressed) * 1000

    async def unlisted(self) -> dict[str, int]:
        """Return how many effects began unlisted after a cancel was acknowledged, of how many."""
        found = unlisted(self.folder / "runs.db", acknowledged, begun)
        return {"unlisted": found, "cancels": len(acknowledged)}

    # ── crashes ──────────────────────────────────────────────────────────────────────────────────

    @override
    async def grow(self, run: str, count: int, shape: str = "") -> None:
        await self._client.start(long, "grow", input={"count": count, "run": run}, key=run)

    async def resumed(self, run: str, count: int) -> float:
        """Open the store, whose engine takes the run up; return the moment at which that began."""
        clerk = self._clerk()  # makes the client of its model, which loads certificates
        began = time.monotonic()
        await self._open(clerk)
        return began

    async def act(self, run: str) -> None:
        """Start a run that acts for ever; half of its acts must not happen twice."""
        await self._client.start(acting, "act", input=run, key=run)


if __name__ == "__main__":
    later = "later" in sys.argv[3:]
    stage.serve(lambda folder, url: StepsOnMidflight(folder, url, later=later))
