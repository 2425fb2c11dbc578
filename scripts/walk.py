"""Traces the way that data takes through Midflight, and prints how long it is: ``make walk``.

Four walks, each on a SQLite file: a plain step, a cancel, a message, and a spoken "wait". Each is
walked once to warm up and then ``SAMPLES`` times. The sample with the fewest calls counts: what
disturbs a walk, such as a sweep, nearly always adds calls. No figure depends on ids or on the date.

A call is a ``call`` event of ``sys.setprofile``, on any thread of the process, for a function whose
file is in ``src/midflight``. Python reports such an event when a function begins, and again each
time that a coroutine or a generator resumes: a step that waits for the disk under six coroutines
counts six more calls when it goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import dis
import math
import signal
import sqlite3
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import anyio

import midflight
from midflight import Client, Run, RunHandle, agent, tool
from midflight.control import Control
from midflight.engines import watchdog
from midflight.interfaces.voice.line import Line, line_to
from midflight.interfaces.voice.room import RoomSink
from midflight.interfaces.voice.speech.speech_engines import FRAME, WIDTH, Chunk, Engines, Heard
from midflight.journal.record import Actor
from midflight.runtime.steps import attempt
from midflight.stores.sqlite import sqlite_news, sqlite_store, sqlite_writer

SOURCE: Final = f"{Path(midflight.__file__).resolve().parent}/"
SAMPLES: Final = 4
LOOK_S: Final = 0.001
QUIET_LOOKS: Final = 20  # in a row, between which nothing was called: the walk has ended
BOUND_S: Final = 10.0  # for a walk


class Figures(NamedTuple):
    """How long a walk is."""

    modules: int
    crossings: int  # from one call to the next, into another module
    calls: int
    pairs: int  # of modules between which there are crossings both ways


class Known(NamedTuple):
    """A walk in words, its figures when they were last written down, and what they should be."""

    told: str
    today: Figures
    goal: tuple[int | None, ...] = (None, None, None, None)


WALKS: Final = {
    "step": Known(
        "a no-op `write` step that nobody watches, from the call of `run.step` until it returns",
        today=Figures(28, 70, 122, 6),
        goal=(28, 110, 170, 8),
    ),
    "cancel": Known(
        "a cancel of a run in a read, from the press until the run has ended",
        today=Figures(49, 223, 419, 27),
        goal=(30, 130, None, None),
    ),
    "message": Known(
        "a message to a thread whose run is at work, until it is known what is done about it",
        today=Figures(47, 377, 657, 26),
    ),
    "wait": Known(
        'a spoken "wait", from the recognised word until the run is paused',
        today=Figures(61, 301, 576, 32),
    ),
}
SLACK: Final = 0.02  # of a figure, and
SLACK_MIN: Final = 4  # at least; beside busy loops on all cores figures grew by up to 3


def bound(today: int) -> int:
    """The most that a figure may be before the test fails."""
    return today + max(SLACK_MIN, math.ceil(today * SLACK))


# ── the trace ────────────────────────────────────────────────────────────────────────────────────


class Call(NamedTuple):
    """One ``call`` event: which function, from how deep, on which thread."""

    module: str
    function: str
    depth: int  # calls of Midflight that it stands in, down to code that is not Midflight's
    resumed: bool  # it had waited or yielded, and goes on
    thread: str


class Trace:
    """Notes the calls of all threads that were started after ``watch``, while it records."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._records = False

    def watch(self) -> None:
        """Have Python report calls of this thread, and of those that are started from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note the calls of this block, and of everything that goes on beside it."""
        self.calls, self._records = [], True
        try:
            yield
        finally:
            self._records = False

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not self._records or event != "call" or not code.co_filename.startswith(SOURCE):
            return
        module = code.co_filename.removeprefix(SOURCE).removesuffix(".py")
        resumed = frame.f_lasti > _entry(code)
        thread = threading.current_thread().name
        self.calls.append(Call(module, code.co_qualname, _depth(frame), resumed, thread))


@cache
def _entry(code: CodeType) -> int:
    """Where Python reports that a function begins: at the first of its RESUME instructions."""
    return next(found.offset for found in dis.get_instructions(code) if found.opname == "RESUME")


def _depth(frame: FrameType) -> int:
    depth, above = 0, frame.f_back
    while above is not None and above.f_code.co_filename != __file__:
        depth += above.f_code.co_filename.startswith(SOURCE)
        above = above.f_back
    return depth


def measure(calls: Sequence[Call]) -> Figures:
    """Count. Crossings and pairs are counted thread by thread: threads alternate by chance."""
    by_thread = sorted(calls, key=lambda call: call.thread)  # stable: in order within each
    ways = [
        (one.module, next_one.module)
        for _, group in groupby(by_thread, key=lambda call: call.thread)
        for one, next_one in pairwise(group)
        if one.module != next_one.module
    ]
    there = set(ways)
    pairs = sum(one < other and (other, one) in there for one, other in there)
    return Figures(len({call.module for call in calls}), len(ways), len(calls), pairs)


# ── the walks ────────────────────────────────────────────────────────────────────────────────────

TRACE: Final = Trace()
Walk = AsyncGenerator[list[Call], None]


@tool(effect="write", name="walk.nothing")
async def nothing(_number: int) -> None:
    """Does nothing, each time with another number: the same call again may be a circle."""


@tool(effect="read", name="walk.read_on")
async def read_on() -> None:
    """Reads until it is ended."""
    at_work.set()
    await asyncio.Event().wait()


at_work: Final = asyncio.Event()
samples_of_steps: Final[list[list[Call]]] = []


@agent
async def stepper(run: Run) -> None:
    """Makes steps that do nothing, and keeps what was traced of each."""
    for number in range(1 + SAMPLES):
        with TRACE.recording():
            await run.step("Nothing", nothing, number)
        samples_of_steps.append(TRACE.calls)


@agent(converses=True, triage_after=0.05)  # it does not wait long for a second message
async def reader(run: Run) -> None:
    """Reads until it is ended."""
    await run.step("Read", read_on)


class Stage:
    """An open store with a client, and a look at its file that calls nothing of Midflight."""

    def __init__(self, client: Client, file: sqlite3.Connection) -> None:
        self.client, self._file = client, file
        self._threads = 0

    @asynccontextmanager
    async def run_at_work(self) -> AsyncIterator[tuple[RunHandle, str]]:
        """A run in a read, in a thread of its own."""
        self._threads += 1
        thread = f"t-{self._threads}"
        at_work.clear()
        run = await self.client.start(reader, "Read on", thread=thread)
        await at_work.wait()
        await asyncio.sleep(0.15)  # the sweep has looked at the new run by then
        try:
            yield run, thread
        finally:
            if (await run.state()).alive:
                await run.cancel_and_wait()

    async def until(self, column: str, journal: str, wanted: Callable[[Any], bool]) -> None:
        """Wait until the file says so of a journal, and all that follows from it is done."""
        query = f"SELECT {column} FROM journals WHERE journal = ?"  # noqa: S608 - our own columns
        with anyio.fail_after(BOUND_S):
            while not wanted(self._file.execute(query, (journal,)).fetchone()[0]):  # noqa: ASYNC110 - no event
                await asyncio.sleep(LOOK_S)
        quiet = 0
        while quiet < QUIET_LOOKS:
            before = len(TRACE.calls)
            await asyncio.sleep(LOOK_S)
            quiet = quiet + 1 if len(TRACE.calls) == before else 0


TIMERS: Final = (
    (sqlite_news, "POLL_S"),  # looks for what other processes have appended
    (sqlite_store, "MIND_S"),  # looks whether the file is still the store
    (watchdog, "ASK_S"),  # looks whether the loop turns
    (attempt, "SHORT_S"),  # the outcome of a call that takes longer is written by itself
    (sqlite_writer, "SLOW_S"),  # a commit that takes longer gives the next ones to a thread
)
"""Time is an input: none of these strikes during a walk, and every disk counts as quick."""


def stop_timers() -> None:
    """See ``TIMERS``."""
    for module, name in TIMERS:
        assert hasattr(module, name), f"{module.__name__} has no {name} any more"
        setattr(module, name, 3600.0)


@asynccontextmanager
async def on_stage() -> AsyncIterator[Stage]:
    """A stage, on a SQLite file that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "walk.db"
        async with midflight.open(path, agents=[stepper, reader], workdir=folder) as client:
            file = sqlite3.connect(path, isolation_level=None)
            yield Stage(client, file)
        file.close()  # not before the store: see stores/sqlite/locks.py


async def step(stage: Stage) -> Walk:
    """See ``WALKS``."""
    run = await stage.client.start(stepper, "Step")
    await stage.until("phase", run.id, lambda phase: phase == "done")
    for sample in samples_of_steps:
        yield sample


async def cancel(stage: Stage) -> Walk:
    """See ``WALKS``."""
    for _ in range(1 + SAMPLES):
        async with stage.run_at_work() as (run, _thread):
            with TRACE.recording():
                await run.cancel()
                await stage.until("phase", run.id, lambda phase: phase == "cancelled")
            yield TRACE.calls


async def message(stage: Stage) -> Walk:
    """See ``WALKS``."""
    for _ in range(1 + SAMPLES):
        async with stage.run_at_work() as (_run, thread):
            with TRACE.recording():
                sent = await stage.client.thread(thread).send("Please read the second page too.")
                await stage.until("head", thread, sent.position.__lt__)  # the choice is behind it
            yield TRACE.calls


async def wait(stage: Stage) -> Walk:
    """See ``WALKS``."""
    controls = stage.client.controls
    assert isinstance(controls, Control)
    for _ in range(1 + SAMPLES):
        ear = Ear()
        engines = Engines(lambda: ear, (ear,), (Silence(),))  # noqa: B023 - called at once
        async with (
            stage.run_at_work() as (run, thread),
            line_to(
                controls, reader, thread, who=Actor("ann"), engines=engines, sink=RoomSink()
            ) as line,
        ):
            await ear.hears_a_word_on(line)
            with TRACE.recording():
                ear.recognises.set()
                await stage.until("phase", run.id, lambda phase: phase == "paused")
            yield TRACE.calls


class Ear:
    """Hears speech in all that is not silence, and recognises "wait" in it when it may."""

    name = "ear"

    def __init__(self) -> None:
        self.asked, self.recognises = asyncio.Event(), asyncio.Event()

    def hear(self, frame: bytes) -> float:
        """See ``Vad``."""
        return float(any(frame))

    def forget(self) -> None:
        """See ``Vad``."""

    async def recognise(self, pcm: bytes) -> Heard:
        """See ``Recogniser``."""
        self.asked.set()
        await self.recognises.wait()
        return Heard("wait", 0.9)

    async def hears_a_word_on(self, line: Line) -> None:
        """Speak half a second into the line, and be silent until it asks what was said."""
        for _ in range(16):
            await line.hear(b"\x10" * FRAME * WIDTH)
        while not self.asked.is_set():
            await line.hear(bytes(FRAME * WIDTH))
            await asyncio.sleep(0.001)


class Silence:
    """Speaks without a sound."""

    name = "silence"

    async def speak(self, text: str) -> AsyncGenerator[Chunk, None]:
        """See ``Synthesiser``."""
        yield Chunk(bytes(FRAME * WIDTH))


async def walked(names: Sequence[str]) -> dict[str, list[list[Call]]]:
    """Walk, and give the samples of each walk without the one that only warmed up."""
    ways: dict[str, Callable[[Stage], Walk]] = {
        "step": step, "cancel": cancel, "message": message, "wait": wait
    }  # fmt: skip
    samples = {}
    for name in names:
        async with on_stage() as stage:
            samples[name] = [sample async for sample in ways[name](stage)][1:]
    return samples


# ── what is printed ──────────────────────────────────────────────────────────────────────────────


def fewest(samples: Sequence[list[Call]]) -> list[Call]:
    """The sample that counts: see the module."""
    return min(samples, key=lambda calls: (len(calls), measure(calls)))


def over(name: str, found: Figures) -> list[str]:
    """The figures of a walk that have grown past their bounds, in words."""
    return [
        f"{name}: {count} {figure}, and at most {bound(today)} are allowed"
        for figure, count, today in zip(Figures._fields, found, WALKS[name].today, strict=True)
        if count > bound(today)
    ]


def table(found: Mapping[str, Figures]) -> str:
    """Figures beside their goals, as a table in Markdown."""
    rows = ["| walk | modules | crossings | calls | pairs |", "|---|---|---|---|---|"]
    for name, figures in found.items():
        goals = zip(figures, WALKS[name].goal, strict=True)
        cells = [str(count) if goal is None else f"{count} (goal {goal})" for count, goal in goals]
        rows.append(f"| {' | '.join([name, *cells])} |")
    return "\n".join(rows)


def way(calls: Sequence[Call]) -> str:
    """The walk itself: modules on the left, their functions in order, indented by depth."""
    lines, module, thread = [], "", ""
    for call in calls:
        if call.thread != thread:
            lines.append(f"\nthread {call.thread}:")
        elif not call.depth:
            lines.append("")
        shown = call.module if (call.module, call.thread) != (module, thread) else ""
        module, thread = call.module, call.thread
        resumed = "… " if call.resumed else ""
        lines.append(f"{shown:<34}{'  ' * call.depth}{resumed}{call.function}")
    return "\n".join(lines)


LEGEND: Final = """\
A line is a call: its module if that has changed, and the function, indented by the calls that it
stands in. "…": the function had waited, and goes on. After a blank line the event loop calls
Midflight anew, or code that is not Midflight's does, such as the agent's function.
"""


def main() -> int:
    """Walk and print. Returns 1 if a figure has grown past its bound."""
    reads = argparse.ArgumentParser(description="Traces the way that data takes through Midflight.")
    reads.add_argument("walks", nargs="*", metavar="WALK", help=f"of {', '.join(WALKS)}; or all")
    reads.add_argument("--show", action="store_true", help="print the way itself, call by call")
    asked = reads.parse_args()
    names = asked.walks or list(WALKS)
    if unknown := set(names) - set(WALKS):
        reads.error(f"there is no walk {', '.join(sorted(unknown))}; there are {', '.join(WALKS)}")

    stop_timers()
    TRACE.watch()
    samples = asyncio.run(walked(names))
    sys.setprofile(None)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # so that the way can be read with head
    chosen = {name: fewest(of_it) for name, of_it in samples.items()}
    if asked.show:
        for name, calls in chosen.items():
            print(f"# {name}: {WALKS[name].told}\n\n{LEGEND}\n{way(calls)}\n")
    found = {name: measure(calls) for name, calls in chosen.items()}
    print(table(found))
    grown = [line for name, figures in found.items() for line in over(name, figures)]
    print(*grown, sep="\n", end="\n" if grown else "")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
