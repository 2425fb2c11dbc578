"""LangGraph: an agent of ``langchain.agents.create_agent`` with its SQLite or Postgres saver.

By the pages "Agents", "Persistence", "Durable execution" and "Streaming" of docs.langchain.com:
``astream`` with ``stream_mode="messages"`` and ``durability="sync"``, the strongest it has. Stop is
the cancellation of the task that streams; pause is ``RunControl.request_drain``, which holds the
run at the next superstep, and resume is ``astream(None)`` on the same thread, as after a crash. A
message is given to a run that is held so before a turn of its model, by ``aupdate_state``: there is
no verb for it ("Double texting" is of the platform alone), and these calls are all documented.
"""

from __future__ import annotations

import asyncio
import inspect
import operator
import os
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypedDict

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.errors import GraphDrained
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import RunControl
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from typing_extensions import override

from midflight.kit.adapters import stage, tools
from midflight.kit.adapters.stage import Runtime

CONNECTIONS = 20


def _tool(function: Callable[..., Any]) -> StructuredTool:
    kind = "coroutine" if inspect.iscoroutinefunction(function) else "func"
    return StructuredTool.from_function(
        **{kind: function}, name=function.__name__, description=function.__doc__
    )


class OnLanggraph(Runtime):
    """One graph, one saver, a thread for each run."""

    offers = frozenset({"stop", "pause", "crash", "again", "send", "steps"})
    keeps: ClassVar[str] = "graph.db*"

    def __init__(self, folder: Path, model_url: str, saver: str) -> None:
        super().__init__(folder, model_url)
        self._saver = saver
        self._controls: dict[str, RunControl] = {}
        self._turn: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._checkpoints: Any = None
        self._graph: Any = None

    @override
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with self._opened_saver() as saver:
            self._checkpoints = saver
            await saver.setup()
            self._graph = create_agent(
                self._model(),
                [_tool(tool) for tool in tools.TOOLS],
                checkpointer=saver,
            )
            yield

    def _model(self) -> Any:
        """Return the model, with its bound on the gap between chunks off, as its error offers.

        The bound uses ``asyncio.wait_for``, which on Python 3.11 loses a cancellation that comes
        together with a chunk: the stream then went on to its end, in most trials.
        """
        return ChatOpenAI(
            model="kit",
            base_url=self.model_url,
            api_key="kit",
            max_retries=0,
            stream_chunk_timeout=None,
        )

    @asynccontextmanager
    async def _opened_saver(self) -> AsyncIterator[Any]:
        if self._saver == "sqlite":
            async with AsyncSqliteSaver.from_conn_string(str(self.folder / "graph.db")) as saver:
                yield saver
            return
        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        async with AsyncConnectionPool(
            os.environ["MIDFLIGHT_KIT_POSTGRES"],
            max_size=CONNECTIONS,
            kwargs=options,
            open=False,
        ) as pool:
            yield AsyncPostgresSaver(pool)

    def _config(self, run: str, limit: int = 100) -> Any:
        thread = f"{self.folder}-{run}"  # one Postgres serves all folders
        return {"configurable": {"thread_id": thread}, "recursion_limit": limit}

    def _begin(self, run: str, given: Any, **options: Any) -> None:
        self._controls[run] = RunControl()
        self.begin(run, self._work(run, given, self._controls[run], **options))

    async def _work(self, run: str, given: Any, control: RunControl, **options: Any) -> None:
        stream = self._graph.astream(
            given,
            self._config(run),
            stream_mode="messages",
            durability="sync",
            control=control,
            **options,
        )
        with suppress(GraphDrained):
            async with aclosing(stream):
                async for _ in stream:
                    pass

    @override
    async def start(self, run: str, brief: str) -> None:
        given = {"messages": [{"role": "user", "content": brief}]}
        self._begin(run, given)

    @override
    async def stop(self, run: str) -> list[str]:
        self.tasks[run].cancel()
        return []

    @override
    async def pause(self, run: str) -> None:
        self._controls[run].request_drain("pause")
        await self.over(run)

    @override
    async def resume(self, run: str) -> None:
        self._begin(run, None)

    @override
    async def take_up(self, run: str) -> None:
        await self.resume(run)

    @override
    async def send(self, run: str, text: str) -> None:
        async with self._turn[run]:
            await self.pause(run)
            state = await self._graph.aget_state(self._config(run))
            if "tools" in state.next:  # a call without its result would be refused
                self._begin(run, None, interrupt_before=["model"])
                await self.over(run)
            elif not state.next:
                await self.start(run, text)  # the run has come to its end meanwhile
                return
            said = {"messages": [{"role": "user", "content": text}]}
            await self._graph.aupdate_state(self._config(run), said, as_node="tools")
            await self.resume(run)

    # ── durable steps ────────────────────────────────────────────────────────────────────────────

    @override
    async def steps(self, runs: int, count: int, shape: str) -> None:
        graph = self._stepper(count, shape)

        async def one(number: int) -> None:
            run = f"steps-{shape}-{runs}-{count}-{number}-{os.urandom(3).hex()}"
            await graph.ainvoke({"n": 0}, self._config(run, count + 10), durability="sync")

        await stage.together(one(number) for number in range(runs))

    @override
    async def grow(self, run: str, count: int, shape: str) -> None:
        graph = self._stepper(count, shape)
        await graph.ainvoke({"n": 0}, self._config(run, count + 10), durability="sync")

    @override
    async def regrow(self, run: str, count: int, shape: str) -> None:
        await self._stepper(count, shape, run).ainvoke(None, self._config(run), durability="sync")

    @override
    async def syncs(self) -> str:
        if self._saver == "sqlite":
            found = await self._checkpoints.conn.execute("PRAGMA synchronous")
            return f"PRAGMA synchronous = {(await found.fetchone())[0]}"
        async with self._checkpoints.conn.connection() as connection:
            names = ("synchronous_commit", "fsync")
            shown = [await (await connection.execute(f"SHOW {n}")).fetchone() for n in names]
        return ", ".join(f"{n} = {row[n]}" for n, row in zip(names, shown, strict=True))

    @override
    async def size(self) -> int:
        if self._saver == "sqlite":
            return await super().size()
        async with self._checkpoints.conn.connection() as connection:
            found = await connection.execute("SELECT pg_database_size(current_database()) AS size")
            return int((await found.fetchone())["size"])

    def _stepper(self, count: int, shape: str, run: str = "") -> Any:
        """Return a graph of a node that is done so many times, and one after it that waits."""

        async def step(state: Any) -> dict[str, Any]:
            text = f"{state['n']:06}{tools.PAYLOAD}"
            return {"n": state["n"] + 1, "notes": text if shape == "last" else [text]}

        async def after(state: Any) -> None:
            tools.tell("reached", run)

        def where(state: Any) -> str:
            return "step" if state["n"] < count else "after"

        building = StateGraph(STATES[shape])
        building.add_node("step", step)
        building.add_node("after", after)
        building.add_edge(START, "step")
        building.add_conditional_edges("step", where, ["step", "after"])
        building.add_edge("after", END)
        return building.compile(checkpointer=self._checkpoints, interrupt_before=["after"])


class Last(TypedDict):
    """Keeps the last result alone: the least that a checkpoint can hold."""

    n: int
    notes: str


class Listed(TypedDict):
    """Keeps all results, as the messages of an agent are kept."""

    n: int
    notes: Annotated[list[str], operator.add]


def _joined(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*(state or []), *(text for write in writes for text in write)]


class Delta(TypedDict):
    """Keeps all results by ``DeltaChannel``, which is in beta."""

    n: int
    notes: Annotated[list[str], DeltaChannel(_joined)]


STATES: dict[str, Any] = {"last": Last, "list": Listed, "delta": Delta}


if __name__ == "__main__":
    stage.serve(lambda folder, url: OnLanggraph(folder, url, sys.argv[3]))
