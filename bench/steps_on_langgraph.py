"""LangGraph in ``make bench-steps``: its SQLite saver with ``durability="sync"``.

    python steps_on_langgraph.py FOLDER MODEL_URL [later]

The state of a run keeps its last result alone, which is the least that a checkpoint can hold, and
the fastest. A stop is the cancellation of the task that streams, as in the kit.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from clocked import clocked
from langgraph.graph import END, START, StateGraph
from typing_extensions import override

from midflight.kit.adapters import stage, tools
from midflight.kit.adapters.on_langgraph import Last, OnLanggraph

ENDLESS = 1_000_000


class StepsOnLanggraph(OnLanggraph):
    """One graph for each kind of work, one saver, a thread for each run."""

    def __init__(self, folder: Path, model_url: str, *, later: bool) -> None:
        super().__init__(folder, model_url, "sqlite")
        self._later = later
        self._left_open = AsyncExitStack()

    @override
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        if self._later:
            yield
            return
        async with super().opened():
            yield

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    async def timed(self, runs: int, count: int) -> dict[str, float]:
        """Do so many steps in each of so many runs at once."""
        return await clocked([self.steps(runs, count, "last")])

    async def commits(self, verb: str, *given: Any) -> int:
        """Return how many times its connection commits while one of these verbs is done."""
        made: list[str] = []
        db = self._checkpoints.conn
        await db.set_trace_callback(lambda said: made.append(said) if said == "COMMIT" else None)
        await getattr(self, verb)(*given)
        await db.set_trace_callback(None)
        return len(made)

    # ── stops ────────────────────────────────────────────────────────────────────────────────────

    async def hang(self, run: str) -> None:
        """Start a run that stays in an async node."""

        async def node(state: Any) -> None:
            tools.tell("begin", run)
            await asyncio.Event().wait()

        building = StateGraph(Last)
        building.add_node("node", node)
        building.add_edge(START, "node")
        building.add_edge("node", END)
        graph = building.compile(checkpointer=self._checkpoints)
        self.begin(run, graph.ainvoke({"n": 0}, self._config(run), durability="sync"))

    async def press(self, run: str) -> float:
        """Stop a run; return the ms until its task has ended. Nothing durable says so."""
        pressed = time.monotonic()
        await self.stop(run)
        await self.over(run)
        return (time.monotonic() - pressed) * 1000

    async def press_all(self, runs: list[str]) -> float:
        """Stop them all at once; return the ms until the last task has ended."""
        pressed = time.monotonic()
        await stage.together(self.press(run) for run in runs)
        return (time.monotonic() - pressed) * 1000

    # ── crashes ──────────────────────────────────────────────────────────────────────────────────

    @override
    async def grow(self, run: str, count: int, shape: str = "") -> None:
        self._long(run, count, {"n": 0})

    async def resumed(self, run: str, count: int) -> float:
        """Open the saver and go on with the run; return the moment at which that began."""
        began = time.monotonic()
        self._checkpoints = await self._left_open.enter_async_context(self._opened_saver())
        self._long(run, count, None)
        return began

    def _long(self, run: str, count: int, given: Any) -> None:
        async def step(state: Any) -> dict[str, Any]:
            return {"n": state["n"] + 1, "notes": f"{state['n']:06}{tools.PAYLOAD}"}

        async def arrive(state: Any) -> None:
            tools.tell("reached", run)
            await asyncio.Event().wait()

        building = StateGraph(Last)
        building.add_node("step", step)
        building.add_node("arrive", arrive)
        building.add_edge(START, "step")
        building.add_conditional_edges(
            "step", lambda state: "step" if state["n"] < count else "arrive", ["step", "arrive"]
        )
        graph = building.compile(checkpointer=self._checkpoints)
        self.begin(run, graph.ainvoke(given, self._config(run, count + 10), durability="sync"))

    async def act(self, run: str) -> None:
        """Start a run that acts for ever."""
        self._act(run, {"n": 0})

    @override
    async def take_up(self, run: str) -> None:
        self._act(run, None)

    def _act(self, run: str, given: Any) -> None:
        async def node(state: Any) -> dict[str, int]:
            item = f"{run}/{state['n']}"
            await asyncio.sleep(0.001)
            tools.tell("acted", item)
            await asyncio.sleep(0.001)
            return {"n": state["n"] + 1}

        building = StateGraph(Last)
        building.add_node("node", node)
        building.add_edge(START, "node")
        building.add_conditional_edges("node", lambda _: "node", ["node"])
        graph = building.compile(checkpointer=self._checkpoints)
        config = self._config(run, ENDLESS)
        self.begin(run, graph.ainvoke(given, config, durability="sync"))


if __name__ == "__main__":
    later = "later" in sys.argv[3:]
    stage.serve(lambda folder, url: StepsOnLanggraph(folder, url, later=later))
