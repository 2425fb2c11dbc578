"""Scenarios, and the plays: each interrupts a run at its moment, and looks at what follows.

A scenario knows nothing of any runtime. It presses the verb at a moment that is seen from outside.
The rest is read from the ledger when all trials are over, so that late effects count.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct

from midflight.kit.adapters.tools import LEDGER, MARK
from midflight.kit.score import Trial, interrupted
from midflight.kit.subject import Subject, SubjectFailed
from midflight.kit.witnesses import Answer, Call, Told, happened

END_S: Final = 45.0  # a machine that is busy with other things may stall for long
MOMENT_S: Final = 60.0
LATE_S: Final = 1.5  # longer than what is in flight takes: what comes late has come by then
LANES: Final = 4
ROUNDS_MAX: Final = 10
BACK_S: Final = 8.0
HELD_S: Final = 0.6
SEEN_S: Final = 5.0
SCALE: Final = 200
CRASHED_AT_ONCE: Final = 10
MESSAGES: Final = 20
LOOKS: Final = 4
LOOK_AGAIN_S: Final = 0.01

Ready = Callable[[Sequence[Told]], bool]
Play = Callable[["Scenario", Subject, int], Awaitable[list[Trial]]]


class Scenario(Struct, frozen=True):
    """A play, the verbs that it needs of a runtime, and its metrics, the most important first."""

    name: str
    title: str
    play: Play
    metrics: tuple[str, ...]
    needs: tuple[str, ...] = ("stop",)
    answers: tuple[Answer, ...] = ()
    moment: Ready = lambda told: True
    moment_s: float = MOMENT_S
    """Seconds after which a run counts as one that never comes to the moment."""
    spread_ms: float = 20.0
    late_s: float = LATE_S

    @property
    def wanted(self) -> tuple[str, ...]:
        """The names of all effects that the script has, if nobody interrupts it."""
        return tuple(c.name for a in self.answers for c in a.calls if c.tool != "look")


async def begin(scenario: Scenario, subject: Subject, run: str) -> Trial:
    """Start a run and wait for the moment; one that never comes to it is let go."""
    trial = Trial(run, subject.ledger.of(run), wanted=scenario.wanted)
    try:
        await subject.ask("start", run, subject.provider.script(run, *scenario.answers))
        trial.came = await subject.ledger.until(run, scenario.moment, scenario.moment_s)
    except SubjectFailed as failed:
        trial.came, trial.failed = False, str(failed)
    if not trial.came and "stop" in subject.offers:
        with suppress(SubjectFailed):
            await subject.ask("stop", run, within_s=END_S)
    return trial


async def begin_all(scenario: Scenario, subject: Subject, numbers: Sequence[int]) -> list[Trial]:
    """Start so many runs at once, and wait until all have come to the moment."""
    trials: list[Trial] = []

    async def one(run: str) -> None:
        trials.append(await begin(scenario, subject, run))

    async with anyio.create_task_group() as tasks:
        for number in numbers:
            tasks.start_soon(one, f"{scenario.name}-{number}")
    return trials


def spread(scenario: Scenario, run: str) -> float:
    """Return a short delay in seconds, which differs from run to run."""
    number = int("".join(filter(str.isdigit, run)) or 0)
    return ((number + 1) * 7919 % 1000) / 1000 * scenario.spread_ms / 1000


async def stop(subject: Subject, trial: Trial) -> None:
    """Press stop, and wait until the runtime says that it is over."""
    await over(subject, trial, "stop")


async def over(subject: Subject, trial: Trial, *before: str) -> None:
    """Wait until the runtime says that the run is over; carry out the verbs ``before`` that."""
    try:
        for verb in (*before, "ended"):
            await subject.ask(verb, trial.run, within_s=END_S)
    except SubjectFailed as failed:
        trial.failed = str(failed)


async def fetch_receipt(subject: Subject, trial: Trial) -> None:
    """Fetch the receipt of a run from the runtime, if it offers receipts."""
    if "receipt" in subject.offers:
        trial.receipt = await subject.ask("receipt", trial.run)


async def until_counted(n: int, play: Callable[[range], Awaitable[Sequence[Trial]]]) -> list[Trial]:
    """Play until so many trials count: one that was over before its interruption is played anew.

    One that never came to the moment is not played anew: it has failed.
    """
    trials: list[Trial] = []
    for _ in range(ROUNDS_MAX):
        missing = n - sum(interrupted(trial) or not trial.came for trial in trials)
        if missing > 0:
            trials += await play(range(len(trials), len(trials) + missing))
    return trials


async def in_lanes(
    scenario: Scenario,
    subject: Subject,
    n: int,
    interrupt: Callable[[Trial], Awaitable[None]],
    *,
    prepare: Callable[[str], None] = lambda run: None,
) -> list[Trial]:
    """Play so many trials, a few at once, and interrupt each a little after its moment."""

    async def one(run: str) -> Trial:
        prepare(run)
        trial = await begin(scenario, subject, run)
        if trial.came:
            await anyio.sleep(spread(scenario, run))
            try:
                await interrupt(trial)
            except SubjectFailed as failed:
                trial.failed = str(failed)
        return trial

    async def play(numbers: range) -> list[Trial]:
        trials: list[Trial] = []
        left = iter(numbers)

        async def lane() -> None:
            for number in left:
                trial = await one(f"{scenario.name}-{number}")
                trials.append(trial)

        async with anyio.create_task_group() as tasks:
            for _ in range(min(LANES, len(numbers))):
                tasks.start_soon(lane)
        return trials

    trials = await until_counted(n, play)
    await anyio.sleep(scenario.late_s)
    return trials


async def in_waves(
    scenario: Scenario, n: int, size: int, wave: Callable[[range], Awaitable[list[Trial]]]
) -> list[Trial]:
    """Play so many trials, ``size`` of them at once."""

    async def play(numbers: range) -> list[Trial]:
        return [
            trial
            for first in range(0, len(numbers), size)
            for trial in await wave(numbers[first : first + size])
        ]

    trials = await until_counted(n, play)
    await anyio.sleep(scenario.late_s)
    return trials


# ── the plays ────────────────────────────────────────────────────────────────────────────────


async def stopping(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Start, wait for the moment and a little more, stop."""

    async def interrupt(trial: Trial) -> None:
        await stop(subject, trial)
        if "orphans" in scenario.metrics:
            await anyio.sleep(0.1)
            trial.orphans = await anyio.to_thread.run_sync(
                end_processes_of, trial.run, subject.ledger.path
            )
        await fetch_receipt(subject, trial)

    return await in_lanes(scenario, subject, n, interrupt)


async def stopping_first(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Stop before anything is seen; one run is let through before, and shows that work is done.

    Without it, a runtime that never begins would look like one that was stopped.
    """
    whole = f"{scenario.name}-whole"
    with suppress(SubjectFailed):
        await subject.ask("start", whole, subject.provider.script(whole, *scenario.answers))
    all_of_it = happened("acted", len(scenario.wanted))
    works = await subject.ledger.until(whole, all_of_it, scenario.moment_s)
    trials = await stopping(scenario, subject, n)
    for trial in trials:
        trial.came = trial.came and works
    return trials


async def stopping_at_once(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Many runs live at the same time, and all are stopped at once."""

    async def wave(numbers: Sequence[int]) -> list[Trial]:
        trials = await begin_all(scenario, subject, numbers)
        async with anyio.create_task_group() as tasks:
            for trial in trials:
                if trial.came:
                    tasks.start_soon(stop, subject, trial)
        for trial in trials:
            with suppress(SubjectFailed):  # then it has no receipt, which is counted
                await fetch_receipt(subject, trial)
        return trials

    return await in_waves(scenario, n, SCALE, wave)


async def continuing(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Stop, then go on with the conversation, and see whether its provider takes it."""

    async def interrupt(trial: Trial) -> None:
        await stop(subject, trial)
        again = f"{trial.run}.again"
        brief = subject.provider.script(again)
        try:
            await subject.ask("again", trial.run, brief, within_s=END_S)
        except SubjectFailed as failed:
            trial.refused = str(failed)
        trial.refused = "; ".join(subject.provider.complaints[again]) or trial.refused
        if not await subject.ledger.until(again, happened("asked"), SEEN_S):
            trial.refused = trial.refused or "the model was never asked"
        trial.forgot = f"{trial.run}/a1" not in subject.provider.shown.get(again, "")

    return await in_lanes(scenario, subject, n, interrupt)


async def pausing(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Pause, wait, resume, and let it come to its end."""

    async def interrupt(trial: Trial) -> None:
        await subject.ask("pause", trial.run, within_s=END_S)
        await anyio.sleep(HELD_S)
        await subject.ask("resume", trial.run, within_s=END_S)
        await over(subject, trial)

    return await in_lanes(scenario, subject, n, interrupt)


async def crashing(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Kill the process with some runs in it, start another one, and let them come to their end."""

    async def take_up(trial: Trial) -> None:
        with suppress(SubjectFailed):  # then it will not end either
            await subject.ask("take_up", trial.run)
        await over(subject, trial)

    async def wave(numbers: Sequence[int]) -> list[Trial]:
        trials = await begin_all(scenario, subject, numbers)
        await anyio.sleep(spread(scenario, trials[0].run))
        for trial in trials:
            subject.ledger.note("killed", trial.run)
        await subject.kill()
        await subject.restart()
        async with anyio.create_task_group() as tasks:
            for trial in trials:
                if trial.came:
                    tasks.start_soon(take_up, trial)
        return trials

    return await in_waves(scenario, n, CRASHED_AT_ONCE, wave)


async def sending(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Say something while it works, once or many times at once: all must reach the model."""
    count = MESSAGES if scenario.name == "messages" else 1

    async def interrupt(trial: Trial) -> None:
        accepted: set[str] = set()

        async def send(note: str) -> None:
            try:
                await subject.ask("send", trial.run, f"Mind this too: {note} (please)")
                accepted.add(note)
            except SubjectFailed:
                trial.turned_away += 1  # the sender knows

        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(send, f"note-{trial.run}-{number}")
        await over(subject, trial)
        seen = subject.provider.notes[trial.run]
        with anyio.move_on_after(SEEN_S):
            while not accepted <= seen:  # noqa: ASYNC110 - a late one is answered by a further run
                await anyio.sleep(0.05)
        trial.lost = len(accepted - seen)

    return await in_lanes(scenario, subject, n, interrupt)


async def switching(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Ask for something urgent in between: it is done, and the first task comes back by itself."""

    async def interrupt(trial: Trial) -> None:
        other = f"{trial.run}.x"
        brief = subject.provider.script(other, Answer((Call("act", "x1"),)))
        await subject.ask("send", trial.run, f"{brief} This is urgent, drop the rest for now.")
        await subject.ledger.until(other, happened("acted"), BACK_S)
        await subject.ledger.until(trial.run, happened("acted", len(trial.wanted)), BACK_S)
        trial.between = [one.number for one in subject.ledger.of(other) if one.what == "acted"]

    return await in_lanes(scenario, subject, n, interrupt)


async def staling(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Pause, change what the work relies on, and resume, which must notice the change."""

    def relied(run: str, text: str) -> None:
        (subject.folder / f"{run}.txt").write_text(text, encoding="utf-8")

    async def interrupt(trial: Trial) -> None:
        await subject.ask("pause", trial.run, within_s=END_S)
        relied(trial.run, "as others have made it")
        await subject.ask("resume", trial.run, within_s=END_S)
        trial.asked = await _asks(subject, trial.run)
        await anyio.sleep(0.2)
        trial.told = list(trial.told)
        await stop(subject, trial)

    return await in_lanes(
        scenario, subject, n, interrupt, prepare=lambda run: relied(run, "as it was")
    )


async def _asks(subject: Subject, run: str) -> bool:
    with anyio.move_on_after(5):
        while not await subject.ask("asks", run):
            told = subject.ledger.of(run)
            resumed = next((one.number for one in told if one.what == "resumed"), 1 << 60)
            if any(one.what == "begin" and one.number > resumed for one in told):
                return False
            await anyio.sleep(0.02)
        return True
    return False


def end_processes_of(run: str, ledger: Path) -> int:
    """End the processes that a run has left, by their number, and return how many there were.

    Runs have the same names at every sitting, and others may use this machine for the kit too: only
    processes with the path of our ledger in their environment are ours.

    A process that is about to become another program has no environment for a moment, and a new one
    may begin meanwhile: so we look until nothing new was seen a few times.
    """
    marks = {f"{MARK}={run}".encode(), f"{LEDGER}={ledger}".encode()}
    ended: set[int] = set()
    looks = 0
    while looks < LOOKS:
        found = {process for process in _marked(marks) if process not in ended}
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        ended |= found
        looks = 0 if found else looks + 1
        time.sleep(LOOK_AGAIN_S)
    return len(ended)


def _marked(marks: set[bytes]) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if marks <= set((folder / "environ").read_bytes().split(b"\0")):
                yield int(folder.name)
