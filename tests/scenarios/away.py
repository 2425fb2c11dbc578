"""Every public call of ``Run`` and ``Child``, made while the store takes nothing.

Each call has a run of its own. All of them come as far as their call; then the trouble begins, the
calls are made, and the trouble lasts several times as long as the store's own patience. Afterwards
every run must have gone on as if nothing had been: no driver has failed, and what the call writes
is in the journals exactly once.

    python away.py FOLDER

is the same story on a disk that is full: FOLDER is a small file system of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest.mock import patch

import anyio
from typing_extensions import override

from forks import Forked
from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.errors import StoreBusy, StoreUnavailable
from midflight.guards import Fingerprint
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.record import Recorded
from midflight.journal.requests import Switch
from midflight.journal.threads.thread import Said
from midflight.run import Child, Run
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import PAGE, Append, Committed, Store, Submit
from midflight.stores.protocol import Row as StoredRow
from midflight.stores.sqlite import SqliteStore, sqlite_hold
from scenarios.stage import Stage
from stores.programs import TESTS, environment, next_line

TROUBLE_S: Final = 1.2
FULL_S: Final = 5.0
STORY_S: Final = 30.0
BUSY_S: Final = 0.1
WAIT_MAX_S: Final = 0.2
"""The patience of SQLite in these stories; the trouble outlasts it several times."""

T = TypeVar("T")
Trouble = Callable[[], AbstractAsyncContextManager[None]]


@dataclass
class World:
    """What the functions of this story share. A function names itself by its run's brief."""

    stage: Stage
    go: anyio.Event = field(default_factory=anyio.Event)
    arrived: set[str] = field(default_factory=set)
    back: set[str] = field(default_factory=set)  # calls that have returned
    called: Counter[str] = field(default_factory=Counter)  # functions of children

    async def ready(self, run: Run) -> None:
        self.arrived.add(run.brief)
        await self.go.wait()


@dataclass(frozen=True)
class Row:
    """One call: how it is made, what the run returns, what of it is on record exactly once."""

    made: Callable[[World, Run], Awaitable[Any]]
    gives: Any = None
    once: tuple[type, ...] = ()
    prepared: Callable[[World, Run], Awaitable[Any]] | None = None
    does: tuple[str, ...] = ()  # in the world, exactly once
    writes: bool = True
    ends: Phase = Phase.DONE


ROWS: dict[str, Row] = {}


def row(name: str, **about: Any) -> Callable[[Callable[[World, Run], Awaitable[Any]]], None]:
    def note(made: Callable[[World, Run], Awaitable[Any]]) -> None:
        ROWS[name] = Row(made, **about)

    return note


@row("step", gives="made step", does=("step",), once=(e.AttemptStarted, e.AttemptSettled))
async def step(world: World, run: Run) -> Any:
    return await run.step("Make", world.stage.writer(), "step")


@row("plan", once=(e.PlanSet,))
async def plan(world: World, run: Run) -> None:
    await run.plan("first", "then")


@row("distrust", once=(e.NoticeGiven,))
async def distrust(world: World, run: Run) -> None:
    await run.distrust("a page")


@row("ask", gives="blue", once=(e.QuestionOpened, e.QuestionAnswered))
async def ask(world: World, run: Run) -> Any:
    return (await run.ask("Which colour?")).payload


@row("approve", gives=True, once=(e.QuestionOpened, e.QuestionAnswered))
async def approve(world: World, run: Run) -> bool:
    return (await run.approve("May I?")).approved


@row("hand_over", gives="yours again", once=(e.QuestionOpened, e.HandedBack))
async def hand_over(world: World, run: Run) -> Any:
    return (await run.hand_over("Please take it")).payload


async def make_first(world: World, run: Run) -> None:
    await run.step("Make", world.stage.writer(), "cancel")


@row(
    "cancel",
    prepared=make_first,
    once=(e.CancelRequested, e.UndoSettled),
    does=("cancel", "undone cancel"),
    ends=Phase.CANCELLED,
)
async def cancel(world: World, run: Run) -> None:
    await run.cancel("enough")


@row("inbox", gives=["hello"], once=(e.MessagesTaken,))
async def inbox(world: World, run: Run) -> list[str]:
    return [message.text for message in await run.inbox()]


@row("earlier", gives=["before"], writes=False)
async def earlier(world: World, run: Run) -> list[str]:
    return [line.text for line in await run.earlier()]


@row("say", once=(e.Spoke, Said))
async def say(world: World, run: Run) -> None:
    await run.say("I am at it")


@row(
    "spawn",
    gives="done by spawn-child",
    once=(e.ChildSpawned, e.ChildSettled),
    does=("spawn-child",),
)
async def spawn(world: World, run: Run) -> Any:
    child = await run.spawn("child", "spawn-child")
    world.back.add("spawn")
    return await child.result()


async def spawn_first(world: World, run: Run) -> None:
    KEPT[run.id] = await run.spawn("child", "result-child")


KEPT: dict[str, Child] = {}


@row(
    "result",
    gives="done by result-child",
    prepared=spawn_first,
    once=(e.ChildSettled,),
    does=("result-child", "beside"),
)
async def result(world: World, run: Run) -> Any:
    """The child ends in the trouble, while an effect of its parent is in flight until it is over.

    A driver that failed at the child's end would cut that effect.
    """
    async with anyio.create_task_group() as beside:
        beside.start_soon(run.step, "Make", world.stage.writer(), "beside")
        return await KEPT.pop(run.id).result()


@row("guard", once=(e.GuardSet,))
async def guard(world: World, run: Run) -> None:
    async def look() -> str:
        return "as ever"

    await run.guard(Fingerprint("the weather", look))


@row("snapshot", once=(e.StateSaved,))
async def snapshot(world: World, run: Run) -> None:
    await run.snapshot({"at": 1})


def public(kind: type) -> dict[str, Any]:
    """The public members of a Protocol by name, as they are declared."""
    return {name: kind.__dict__[name] for name in kind.__dict__ if not name.startswith("_")}


def asynchronous(kind: type) -> set[str]:
    return {name for name, member in public(kind).items() if inspect.iscoroutinefunction(member)}


@row("members that only look", writes=False)
async def members_that_only_look(world: World, run: Run) -> None:
    """All others, whatever they are called: each gives its value at once."""
    for name in public(Run).keys() - asynchronous(Run):
        value = getattr(run, name)
        if callable(value) and name not in {"input", "restored"}:
            value()


# ── a store that can be away ─────────────────────────────────────────────────────────────────────


class Away(MemoryStore):
    """A store of which every verb fails while it is away, unless it can still be read.

    While it is ``deaf`` it does what it is asked to, and its answer is lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.away = self.deaf = self.readable = False

    @asynccontextmanager
    async def is_away(self, *, deaf: bool = False, readable: bool = False) -> AsyncIterator[None]:
        self.away, self.deaf, self.readable = not deaf, deaf, readable
        try:
            yield
        finally:
            self.away = self.deaf = False

    async def _through(self, asked: Awaitable[T], *, writes: bool = False) -> T:
        if self.away and (writes or not self.readable):
            asked.close()  # type: ignore[attr-defined]
            raise StoreUnavailable("it is away. Nothing was changed.")
        answer = await asked
        if self.deaf:
            raise StoreUnavailable("its answer was lost.").leaving_it_open()
        return answer

    @override
    async def append(self, decision: Append) -> Committed:
        return await self._through(super().append(decision), writes=True)

    @override
    async def submit(self, request: Submit) -> Committed:
        return await self._through(super().submit(request), writes=True)

    @override
    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        return await self._through(super().read(journal, after, limit))

    @override
    async def row(self, journal: str) -> StoredRow:
        return await self._through(super().row(journal))

    @override
    async def due(self, limit: int = 100) -> list[StoredRow]:
        return await self._through(super().due(limit))

    @override
    async def switches(self) -> list[Switch]:
        return await self._through(super().switches())

    @override
    async def blob(self, digest: str) -> bytes:
        return await self._through(super().blob(digest))


# ── the story ────────────────────────────────────────────────────────────────────────────────────


class Failures(logging.Handler):
    """Hears of drivers that have failed; the engine goes on, and so hides it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.waits: list[str] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        action = getattr(record, "action", "")
        if action in {"driver_failed", "agent_failed"}:
            self.seen.append(f"{action}: {getattr(record, 'error', '')} {record.exc_info}")
        if action == "store_awaited":
            self.waits.append(record.getMessage())


def agents_of(world: World) -> tuple[Agent, Agent]:
    @agent("caller")
    async def caller(run: Run) -> Any:
        about = ROWS[run.brief]
        if about.prepared is not None:
            await about.prepared(world, run)
        await world.ready(run)
        given = await about.made(world, run)
        world.back.add(run.brief)
        return given

    @agent("child")
    async def child(run: Run) -> str:
        world.called[run.brief] += 1
        await world.go.wait()
        return f"done by {run.brief}"

    return caller, child


async def store_away(
    store: Store, trouble: Trouble, workdir: Path, *, lasts_s: float = TROUBLE_S
) -> list[str]:
    """Tell the story. Returns a line for each thing that went wrong."""
    world, failures = World(Stage("away")), Failures()
    world.stage.gate("beside")
    logging.getLogger("midflight").addHandler(failures)
    try:
        async with LocalEngine.open(
            store, agents_of(world), workdir=workdir, sweep_s=0.05, drain_s=1
        ) as engine:
            control = Control(store, engine)
            with anyio.fail_after(STORY_S + lasts_s):
                runs = await begun(control, world)
                early = await in_trouble(world, trouble, lasts_s)
                found = [f"{name} was not held up: there was no trouble" for name in early]
                async with anyio.create_task_group() as all_of_them:
                    for name, run in runs.items():
                        all_of_them.start_soon(looked_at, control, world, name, run, found)
    finally:
        logging.getLogger("midflight").removeHandler(failures)
    if not 1 <= len(failures.waits) <= 1 + lasts_s // 10:
        found.append(f"{len(failures.waits)} warnings that runs wait for the store")
    return [*found, *failures.seen]


async def begun(control: Control, world: World) -> dict[str, str]:
    """Start a run for each call, all at once, and wait until each has come as far as its call."""
    runs: dict[str, str] = {}

    async def start(name: str) -> None:
        thread = f"t-{name.replace(' ', '-')}"
        if name == "earlier":
            first = await control.start("child", "before", thread=thread)
            await control.cancel(first, now=True)
            await control.ended(first)
        runs[name] = await control.start("caller", name, thread=thread)
        if name == "inbox":
            await control.send(runs[name], "hello")

    async with anyio.create_task_group() as starting:
        for name in ROWS:
            starting.start_soon(start, name)
    while world.arrived != ROWS.keys() or "result-child" not in world.called:  # noqa: ASYNC110
        await anyio.sleep(0.01)
    for run in runs.values():
        await control.until(run, lambda state: state.phase is Phase.RUNNING)
    return runs


async def in_trouble(world: World, trouble: Trouble, lasts_s: float) -> set[str]:
    """Make the calls in the trouble; gives those that write and were back before its end."""
    async with trouble():
        world.go.set()
        await anyio.sleep(lasts_s)
        early = {name for name in world.back if ROWS[name].writes}
    world.stage.gate("beside").set()
    return early


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Ask again, as people do: a busy machine is not back at once. Bounded by the story."""
    while True:
        try:
            return await call()
        except (StoreBusy, StoreUnavailable):
            await anyio.sleep(0.1)


async def looked_at(control: Control, world: World, name: str, run: str, found: list[str]) -> None:
    """See one run to its end, and compare what is on record."""
    about = ROWS[name]
    try:
        await patiently(lambda: answered(control, name, run))
        state = await patiently(lambda: control.ended(run))
        if state.phase is not about.ends:
            found.append(f"{name}: {state.phase}, not {about.ends}: {state.error}")
            return
        if about.ends is Phase.DONE and (gave := await control.result(run)) != about.gives:
            found.append(f"{name} gave {gave!r}, not {about.gives!r}")
    except TimeoutError:
        found.append(f"{name} did not end")
        return
    records = [*await control.store.read(run), *await control.store.read(state.thread)]
    seen = Counter(type(record.event) for record in records)
    for kind in (*about.once, e.DriverClaimed):
        times = seen[kind] // 2 if kind is e.MessagesTaken else seen[kind]  # in run and thread
        if times != 1:
            found.append(f"{name}: {kind.__name__} is on record {times} times")
    done = Counter(world.stage.done) + world.called
    found += [f"{name}: {what} {done[what]} times" for what in about.does if done[what] != 1]


async def answered(control: Control, name: str, run: str) -> None:
    """People answer when the trouble is over."""
    if name not in {"ask", "approve", "hand_over"}:
        return
    state = await control.until(run, lambda state: bool(state.questions) or not state.alive)
    for question in state.questions:
        if name == "hand_over":
            await control.until(run, lambda state: state.phase is Phase.PAUSED)
            await control.hand_back(run, "yours again")
        else:
            await control.answer(run, question, "blue" if name == "ask" else "approve")


@asynccontextmanager
async def neighbour(*held: str, frozen: bool) -> AsyncIterator[None]:
    """Another process holds this, and may be frozen while it does."""
    process = Forked(
        [sys.executable, str(TESTS / "scenarios" / "neighbour.py"), *held],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert await anyio.to_thread.run_sync(next_line, process) == "held"
        if frozen:
            process.send_signal(signal.SIGSTOP)
        yield
        process.send_signal(signal.SIGCONT)
        await anyio.to_thread.run_sync(process.communicate, "", 20)
    finally:
        process.kill()
        process.wait(10)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


# ── a full disk ──────────────────────────────────────────────────────────────────────────────────


async def main(folder: Path) -> list[str]:
    @asynccontextmanager
    async def full() -> AsyncIterator[None]:
        ballast = folder / "ballast"
        with ballast.open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 12):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass
        try:
            yield
        finally:
            ballast.unlink()

    with (
        tempfile.TemporaryDirectory() as workdir,
        patch.object(sqlite_hold, "GROWN_BY", b""),  # or there is room in the log for a while
    ):
        async with SqliteStore.open(folder / "journals.db", busy_s=BUSY_S) as store:
            return await store_away(store, full, Path(workdir), lasts_s=FULL_S)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(Path(sys.argv[1])))))
