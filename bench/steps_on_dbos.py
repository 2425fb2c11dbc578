"""DBOS in ``make bench-steps``: workflows and steps that are coroutines, on Postgres.

    python steps_on_dbos.py FOLDER MODEL_URL [later]

By the pages "Database Connections", "Workflows", "Steps" and "Workflow Management" of
docs.dbos.dev: Postgres is what they recommend; on SQLite, their default, it does fewer steps. Steps
in flight are ``preemptible``: only these end with their workflow's cancellation, for which DBOS
looks once a second. A stop is ``cancel_workflow_async``.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from clocked import clocked
from dbos import DBOS, SetWorkflowID
from openai import AsyncOpenAI
from typing_extensions import override

from midflight.kit.adapters import stage, tools
from midflight.kit.adapters.stage import Runtime

left: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
"""By run: whether the step that was in flight has ended."""
model_url = sys.argv[2]


@DBOS.step()
async def note_down(text: str) -> str:
    return text


@DBOS.step()
async def act(item: str) -> str:
    await asyncio.sleep(0.001)
    tools.tell("acted", item)
    await asyncio.sleep(0.001)
    return item


@DBOS.step()
async def arrive(run: str) -> None:
    tools.tell("reached", run)
    await asyncio.Event().wait()


@DBOS.step(preemptible=True)
async def hang(run: str) -> None:
    try:
        tools.tell("begin", run)
        await asyncio.Event().wait()
    finally:
        left[run].set()


@DBOS.step(preemptible=True)
async def stream(run: str, brief: str) -> str:
    model = AsyncOpenAI(base_url=model_url, api_key="kit", max_retries=0)
    said = []
    try:
        async with (
            model,
            await model.chat.completions.create(
                model="kit", messages=[{"role": "user", "content": brief}], stream=True
            ) as chunks,
        ):
            async for chunk in chunks:
                said += [choice.delta.content or "" for choice in chunk.choices]
    finally:
        left[run].set()
    return "".join(said)


@DBOS.workflow()
async def stepping(count: int) -> None:
    for number in range(count):
        await note_down(f"{number:06}{tools.PAYLOAD}")


@DBOS.workflow()
async def long(run: str, count: int) -> None:
    for number in range(count):
        await note_down(f"{number:06}{tools.PAYLOAD}")
    await arrive(run)


@DBOS.workflow()
async def hanging(run: str) -> None:
    await hang(run)


@DBOS.workflow()
async def streaming(run: str, brief: str) -> None:
    await stream(run, brief)


@DBOS.workflow()
async def acting(run: str) -> None:
    for number in range(1_000_000):
        await act(f"{run}/{number}")


class StepsOnDbos(Runtime):
    """One system database, one process."""

    offers = frozenset({"stop", "crash", "steps"})

    def __init__(self, folder: Path, model_url: str, *, later: bool) -> None:
        super().__init__(folder, model_url)
        self._later = later

    @override
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        if not self._later:
            self._open()
        yield

    def _open(self) -> None:
        DBOS(
            config={
                "name": "steps",
                "system_database_url": os.environ["MIDFLIGHT_KIT_POSTGRES"],
                "application_version": "1",
                "executor_id": "steps",
                "run_admin_server": False,
                "log_level": "CRITICAL",
            }
        )
        DBOS.launch()

    async def _begin(self, workflow: Any, run: str, *given: Any) -> None:
        with SetWorkflowID(run):
            await DBOS.start_workflow_async(workflow, *given)

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    async def timed(self, runs: int, count: int) -> dict[str, float]:
        """Do so many steps in each of so many workflows at once."""

        async def one() -> None:
            handle = await DBOS.start_workflow_async(stepping, count)
            await handle.get_result()

        return await clocked(one() for _ in range(runs))

    # ── stops ────────────────────────────────────────────────────────────────────────────────────

    @override
    async def start(self, run: str, brief: str) -> None:
        await self._begin(streaming, run, run, brief)

    async def hang(self, run: str) -> None:
        """Start a workflow that stays in an async step."""
        await self._begin(hanging, run, run)

    async def press(self, run: str) -> float:
        """Cancel a workflow; return the ms until that is durable and its step has ended."""
        pressed = time.monotonic()
        await DBOS.cancel_workflow_async(run)
        await left[run].wait()
        return (time.monotonic() - pressed) * 1000

    async def press_all(self, runs: list[str]) -> float:
        """Cancel them all in one call; return the ms until the last of their steps has ended."""
        pressed = time.monotonic()
        await DBOS.cancel_workflows_async(runs)
        for run in runs:
            await left[run].wait()
        return (time.monotonic() - pressed) * 1000

    # ── crashes ──────────────────────────────────────────────────────────────────────────────────

    @override
    async def grow(self, run: str, count: int, shape: str = "") -> None:
        await self._begin(long, run, run, count)

    async def resumed(self, run: str, count: int) -> float:
        """Launch DBOS, which takes the workflow up; return the moment at which that began."""
        began = time.monotonic()
        self._open()
        return began

    async def act(self, run: str) -> None:
        """Start a workflow that acts for ever."""
        await self._begin(acting, run, run)

    @override
    async def take_up(self, run: str) -> None:
        """Do nothing: the process that launches DBOS takes up the workflows of its name."""


if __name__ == "__main__":
    later = "later" in sys.argv[3:]
    with suppress(KeyboardInterrupt):
        stage.serve(lambda folder, url: StepsOnDbos(folder, url, later=later))
