"""A runtime under test: its process is started, told what to do, killed and started again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final

import anyio
from anyio.abc import Process, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Struct

from midflight.errors import MidflightError
from midflight.kit.adapters import stage, tools
from midflight.kit.ledger import Ledger
from midflight.kit.provider import Provider

START_S: Final = 60.0  # a big library on a busy machine
VERB_S: Final = 60.0
ANSWER_MAX: Final = 1 << 20
ADAPTERS: Final = Path(stage.__file__).parent


Waiting = dict[int, tuple[anyio.Event, list[Any]]]


class SubjectFailed(MidflightError):
    """A runtime under test did not do what its adapter asked of it; says what it printed."""


class Kind(Struct, frozen=True):
    """A runtime as the kit knows it: its adapter, its arguments, and where it is installed."""

    name: str
    adapter: str
    arguments: tuple[str, ...] = ()
    requirements: str = ""  # a file of pins; empty: this very environment
    needs_postgres: bool = False
    program: str = ""  # the file of an adapter that is somebody's own
    python: str = ""  # and the interpreter that has its runtime; empty: this one


class Subject:
    """One process with a runtime in it."""

    def __init__(self, kind: Kind, folder: Path, ledger: Ledger, provider: Provider) -> None:
        self.kind = kind
        self.folder = folder
        self.ledger = ledger
        self.provider = provider
        self.python = sys.executable
        self.postgres = ""
        self.offers: frozenset[str] = frozenset()
        self._process: Process | None = None
        self._waiting: Waiting = {}
        self._count = 0
        self._tasks: TaskGroup | None = None

    async def start(self, tasks: TaskGroup) -> None:
        """Start its process in its folder, with what an earlier process has left there."""
        self._tasks = tasks
        ours = ("-m", f"midflight.kit.adapters.{self.kind.adapter}")
        program = (self.kind.program,) if self.kind.program else ours
        command = [self.python, *program, str(self.folder), self.provider.url]
        with (self.folder / "printed.txt").open("ab") as printed:
            self._process = await anyio.open_process(
                [*command, *self.kind.arguments],
                stdin=PIPE,
                stdout=PIPE,
                stderr=printed,
                env=self._environment(),
            )
        self._waiting = {}  # verbs that its predecessor had not answered stay unanswered
        ready = self._expect(0)
        tasks.start_soon(self._hear, self._process, self._waiting)
        self.offers = frozenset(await self._answered("start", *ready, within_s=START_S))

    def _environment(self) -> dict[str, str]:
        """Return the variables of its process; one with another Python sees only our adapters."""
        env = os.environ | {
            tools.LEDGER: str(self.ledger.path),
            "OPENAI_API_KEY": "kit",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "LANGSMITH_TRACING": "false",
            "MIDFLIGHT_KIT_POSTGRES": self.postgres,
        }
        if self.kind.requirements or self.kind.python:
            alone = self.folder / "alone"
            target = alone / "midflight/kit/adapters"
            if not target.exists():
                shutil.copytree(ADAPTERS, target, ignore=shutil.ignore_patterns("__pycache__"))
            env["PYTHONPATH"] = str(alone)
        return env

    def cpu_s(self, *, loop_only: bool = False) -> float:
        """Return the seconds of processor time of its process: of all threads or its event loop."""
        assert self._process is not None
        pid = self._process.pid
        stat = Path(f"/proc/{pid}/task/{pid}/stat" if loop_only else f"/proc/{pid}/stat")
        line = stat.read_text(encoding="utf-8")
        used = line.rpartition(")")[2].split()[11:13]
        return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")

    async def kill(self) -> None:
        """Kill its process at once, as a power cut would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()

    async def restart(self) -> None:
        """Start a new process on what the old one has left."""
        assert self._tasks is not None
        await self.start(self._tasks)

    async def end(self) -> None:
        """Close the input of its process and wait for its end; after a while, kill it."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        await self._process.stdin.aclose()
        with anyio.move_on_after(5):
            await self._process.wait()
        if self._process.returncode is None:
            await self.kill()
        await self._process.aclose()

    async def ask(self, verb: str, *arguments: Any, within_s: float = VERB_S) -> Any:
        """Have it carry out a verb, and wait until it says that this is done."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._count += 1
        waiting = self._expect(self._count)
        line = json.dumps([self._count, verb, arguments]).encode() + b"\n"
        await self._process.stdin.send(line)
        return await self._answered(verb, *waiting, within_s=within_s)

    def _expect(self, number: int) -> tuple[anyio.Event, list[Any]]:
        self._waiting[number] = (anyio.Event(), [])
        return self._waiting[number]

    async def _answered(
        self, verb: str, come: anyio.Event, answer: list[Any], *, within_s: float
    ) -> Any:
        with anyio.move_on_after(within_s):
            await come.wait()
        if not answer:
            raise SubjectFailed(self._why(verb, f"nothing came back within {within_s:g} s"))
        how, said = answer
        if how not in {"ok", "offers"}:
            raise SubjectFailed(self._why(verb, f"{how}: {said}"))
        return said

    def _why(self, verb: str, what: str) -> str:
        printed = (self.folder / "printed.txt").read_text(encoding="utf-8", errors="replace")
        tail = "\n".join(printed.splitlines()[-15:])
        return f"{self.kind.name}: {verb}: {what}. It has printed:\n{tail}"

    async def _hear(self, process: Process, waiting: Waiting) -> None:
        assert process.stdout is not None
        lines = BufferedByteReceiveStream(process.stdout)
        try:
            while True:
                number, how, said = json.loads(await lines.receive_until(b"\n", ANSWER_MAX))
                if number in waiting:
                    come, answer = waiting.pop(number)
                    answer += [how, said]
                    come.set()
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError):
            for come, answer in waiting.values():
                answer += ["gone", "its process has ended"]
                come.set()


@asynccontextmanager
async def subject(
    kind: Kind, folder: Path, ledger: Ledger, provider: Provider, *, python: str, postgres: str = ""
) -> AsyncIterator[Subject]:
    """Run a runtime in its process, for the length of the block."""
    made = Subject(kind, folder, ledger, provider)
    made.python, made.postgres = python, postgres
    async with anyio.create_task_group() as tasks:
        try:
            await made.start(tasks)
            yield made
        finally:
            with anyio.CancelScope(shield=True):
                await made.end()
            tasks.cancel_scope.cancel()
