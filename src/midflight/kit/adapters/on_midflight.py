"""Midflight: its assistant on SQLite, by a client, as ``docs/assistant.md`` shows it.

``boundary`` or ``immediate`` is its mode. Blocking code and processes are tools that run in a
process of their own (``runs="process"``, ``docs/tools.md``); effects can be checked, and what
``make`` makes can be undone. Cancel, pause, resume and send are the verbs of the same names.
"""

from __future__ import annotations

import gc
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from msgspec.structs import replace
from typing_extensions import override

import midflight
from midflight.agents import Agent, Mode
from midflight.assistant import Profile, assistant
from midflight.client import Client
from midflight.guards import FileContent
from midflight.handles import RunHandle
from midflight.journal.phases import Phase
from midflight.journal.record import Limits
from midflight.kit.adapters import stage, tools
from midflight.kit.adapters.stage import Runtime
from midflight.models.openai import OpenAIModel
from midflight.run import Run
from midflight.tools.declaration import Done, NotDone, Tool, tool
from midflight.tools.options import EffectRecord


def _undo(about: EffectRecord) -> None:
    tools.unmake(about.kwargs["item"])


def _check(about: EffectRecord) -> Done | NotDone:
    """Ask the world, which is the ledger here, whether an effect has happened."""
    key = about.kwargs["item"]
    return Done(f"{key} is done") if tools.link.has_acted(key) else NotDone()


LEDGER_S: Final = 0.25  # the ledger is on this machine, and acts as soon as it is told

TOOLS: list[Tool] = [
    tool(effect="once", name="act", check=_check, settles_within=LEDGER_S)(tools.act),
    tool(effect="once", name="make", check=_check, settles_within=LEDGER_S, undo=_undo)(tools.make),
    tool(effect="once", name="hold", check=_check, settles_within=LEDGER_S, runs="process")(
        tools.hold
    ),
    tool(effect="once", name="spawn", check=_check, settles_within=LEDGER_S, runs="process")(
        tools.spawn_and_wait
    ),
    tool(effect="read", name="look")(tools.look),
]


@tool(effect="write", name="note-down")
async def note_down(text: str, idempotency_key: str = "") -> str:
    """A step that does nothing but be durable."""
    return text


class OnMidflight(Runtime):
    """One store, one engine, one process."""

    offers = frozenset(
        ["stop", "pause", "send", "crash", "again", "undo", "receipt", "stale", "switch", "steps"]
    )

    keeps: ClassVar[str] = "runs.db*"

    def __init__(self, folder: Path, model_url: str, mode: Mode) -> None:
        super().__init__(folder, model_url)
        self._mode = mode
        if mode == "boundary":
            self.offers = self.offers - {"steps"}  # the modes differ in what is heard when
        self._client: Client

    @override
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        agents = [self._clerk(), self._stepper()]
        folder = self.folder
        async with midflight.open(
            folder / "runs.db", agents=agents, workdir=folder / "work"
        ) as client:
            self._client = client
            yield

    def _handle(self, run: str) -> RunHandle:
        return self._client.run(f"r-library-{run}")

    def _clerk(self) -> Agent:
        model = OpenAIModel("kit", key="kit", base_url=self.model_url)
        clerk = assistant(
            "clerk", Profile(model, TOOLS), mode=self._mode, limits=Limits(), delegates=False
        )

        async def guarded(run: Run) -> Any:
            for path in run.input or ():
                await run.guard(FileContent(path))
            return await clerk.function(run)

        return replace(clerk, function=guarded)

    def _stepper(self) -> Agent:
        async def steps(run: Run) -> None:
            for number in range(run.input["count"]):
                await run.step("Note", note_down, f"{number:06}{tools.PAYLOAD}")
            if run.input["stays"]:
                await run.ask("Go on?")
                tools.tell("reached", run.input["stays"])

        return Agent("stepper", steps, self._mode)

    @override
    async def start(self, run: str, brief: str) -> None:
        relied = self.folder / f"{run}.txt"
        given = [str(relied)] if relied.exists() else []
        await self._client.start("clerk", brief, input=given, key=run)

    @override
    async def stop(self, run: str) -> list[str]:
        ack = await self._handle(run).cancel()
        return [_key(noun) for noun in ack.in_flight]

    @override
    async def ended(self, run: str) -> None:
        await self._handle(run).wait()

    @override
    async def pause(self, run: str) -> None:
        await self._handle(run).pause()
        await self._handle(run).until(lambda s: s.phase is Phase.PAUSED or not s.alive)

    @override
    async def resume(self, run: str) -> None:
        await self._handle(run).resume()

    @override
    async def take_up(self, run: str) -> None:
        """Do nothing: the process that opens the store takes up the runs without a driver."""

    @override
    async def send(self, run: str, text: str) -> None:
        await self._handle(run).send(text)

    @override
    async def again(self, run: str, text: str) -> None:
        thread = await self._handle(run).thread()
        sent = await thread.send(text)
        await self._client.run(sent.target).wait()

    @override
    async def asks(self, run: str) -> bool:
        return bool((await self._handle(run).state()).questions)

    @override
    async def receipt(self, run: str) -> dict[str, str]:
        lines = (await self._handle(run).receipt(wait=False)).lines
        return {_key(line.noun): line.word for line in lines}

    # ── durable steps ────────────────────────────────────────────────────────────────────────────

    @override
    async def syncs(self) -> str:
        """Return the settings of all connections to its file that may write."""
        found = set()
        for db in [one for one in gc.get_objects() if isinstance(one, sqlite3.Connection)]:
            file = db.execute("PRAGMA database_list").fetchone()[2]
            if Path(file).name == "runs.db" and not db.execute("PRAGMA query_only").fetchone()[0]:
                found.add(db.execute("PRAGMA synchronous").fetchone()[0])
        return ", ".join(f"PRAGMA synchronous = {level}" for level in sorted(found))

    @override
    async def steps(self, runs: int, count: int, shape: str) -> None:
        async def one() -> None:
            given = {"count": count, "stays": ""}
            run = await self._client.start("stepper", "steps", input=given)
            await run.wait()

        await stage.together(one() for _ in range(runs))

    @override
    async def grow(self, run: str, count: int, shape: str) -> None:
        given = {"count": count, "stays": run}
        await self._client.start("stepper", "steps", input=given, key=run)
        await self._handle(run).until(lambda state: bool(state.questions))

    @override
    async def regrow(self, run: str, count: int, shape: str) -> None:
        question = await self._handle(run).next_question()
        await question.answer("yes")


def _key(noun: str) -> str:
    """Return the item of a step, which the assistant calls *tool: first argument*."""
    return noun.rpartition(": ")[2]


if __name__ == "__main__":
    mode: Mode = "boundary" if sys.argv[3] == "boundary" else "immediate"
    stage.serve(lambda folder, url: OnMidflight(folder, url, mode))
