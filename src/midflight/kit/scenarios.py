"""The scenarios: what the model does, when it is interrupted, and what is counted then.

A scenario knows nothing of any runtime. It presses the verb at a moment that is seen from outside,
and what follows is read from the ledger when all trials are over, so that what comes late counts.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct

from midflight.kit.adapters.stage import MARK
from midflight.kit.ledger import Told, happened
from midflight.kit.provider import Answer, Call
from midflight.kit.score import Trial
from midflight.kit.subject import Subject, SubjectFailed

END_S: Final = 45.0  # a machine that is busy with other things may stall for long
BACK_S: Final = 8.0
HELD_S: Final = 0.6
SEEN_S: Final = 5.0
LATE_S: Final = 1.5  # longer than what is in flight takes: what comes late has come by then
LANES: Final = 4
SCALE: Final = 200
CRASHED_AT_ONCE: Final = 10
MESSAGES: Final = 20

Ready = Callable[[Sequence[Told]], bool]
Play = Callable[["Scenario", Subject, int], Awaitable[list[Trial]]]


class Scenario(Struct, frozen=True):
    """What is played, what it needs of a runtime, and what is counted: first what it is about."""

    name: str
    title: str
    play: Play
    metrics: tuple[str, ...]
    needs: tuple[str, ...] = ("stop",)
    answers: tuple[Answer, ...] = ()
    moment: Ready = lambda told: True
    spread_ms: float = 20.0
    late_s: float = LATE_S

    @property
    def wanted(self) -> tuple[str, ...]:
        """All that the script does, if nobody interrupts it."""
        return tuple(c.name for a in self.answers for c in a.calls if c.tool != "look")


# ── playing one run ──────────────────────────────────────────────────────────────────────────────


async def begin(scenario: Scenario, subject: Subject, run: str) -> Trial:
    """Start a run and wait for the moment."""
    trial = Trial(run, subject.ledger.of(run), wanted=scenario.wanted)
    try:
        await subject.ask("start", run, subject.provider.script(run, *scenario.answers))
        await subject.ledger.until(run, scenario.moment)
    except SubjectFailed as failed:
        trial.failed = str(failed)
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
    """A little later, each time another: seconds."""
    number = int("".join(filter(str.isdigit, run)) or 0)
    return ((number + 1) * 7919 % 1000) / 1000 * scenario.spread_ms / 1000


async def stop(subject: Subject, trial: Trial) -> None:
    """Press stop, and wait until the runtime says that it is over."""
    try:
        await subject.ask("stop", trial.run, within_s=END_S)
        await subject.ask("ended", trial.run, within_s=END_S)
    except SubjectFailed as failed:
        trial.failed = str(failed)


async def over(subject: Subject, trial: Trial) -> None:
    """Wait until the runtime says that the run is over."""
    try:
        await subject.ask("ended", trial.run, within_s=END_S)
    except SubjectFailed as failed:
        trial.failed = str(failed)


async def in_lanes(
    scenario: Scenario, subject: Subject, n: int, one: Callable[[str], Awaitable[Trial]]
) -> list[Trial]:
    """So many trials, a few at once."""
    trials: list[Trial] = []
    left = iter(range(n))

    async def lane() -> None:
        for number in left:
            run = f"{scenario.name}-{number}"
            try:
                trials.append(await one(run))
            except SubjectFailed as failed:
                told = subject.ledger.of(run)
                trials.append(Trial(run, told, wanted=scenario.wanted, failed=str(failed)))

    async with anyio.create_task_group() as tasks:
        for _ in range(min(LANES, n)):
            tasks.start_soon(lane)
    await anyio.sleep(scenario.late_s)
    return trials


# ── the scenarios' plays ─────────────────────────────────────────────────────────────────────────


async def stopping(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Start, wait for the moment and a little more, stop."""

    async def one(run: str) -> Trial:
        trial = await begin(scenario, subject, run)
        await anyio.sleep(spread(scenario, run))
        await stop(subject, trial)
        if "orphans" in scenario.metrics:
            await anyio.sleep(0.1)
            trial.orphans = await anyio.to_thread.run_sync(end_processes_of, run)
        if "receipt" in subject.offers:
            trial.receipt = await subject.ask("receipt", run)
        return trial

    return await in_lanes(scenario, subject, n, one)


async def stopping_at_once(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Many runs live at the same time, and all are stopped at once."""
    trials: list[Trial] = []
    for wave in range(0, n, SCALE):
        these = await begin_all(scenario, subject, range(wave, min(wave + SCALE, n)))
        async with anyio.create_task_group() as tasks:
            for trial in these:
                tasks.start_soon(stop, subject, trial)
        trials += these
    await anyio.sleep(scenario.late_s)
    return trials


async def continuing(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Stop, then go on with the conversation: whether its provider takes it."""

    async def one(run: str) -> Trial:
        trial = await begin(scenario, subject, run)
        await anyio.sleep(spread(scenario, run))
        await stop(subject, trial)
        again = f"{run}.again"
        brief = subject.provider.script(again)
        try:
            await subject.ask("again", run, brief, within_s=END_S)
        except SubjectFailed as failed:
            trial.refused = str(failed)
        trial.refused = "; ".join(subject.provider.complaints[again]) or trial.refused
        if not await subject.ledger.until(again, happened("asked"), SEEN_S):
            trial.refused = trial.refused or "the model was never asked"
        trial.forgot = f"{run}/a1" not in subject.provider.shown[again]
        return trial

    return await in_lanes(scenario, subject, n, one)


async def pausing(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Pause, wait, resume, and let it come to its end."""

    async def one(run: str) -> Trial:
        trial = await begin(scenario, subject, run)
        await anyio.sleep(spread(scenario, run))
        await subject.ask("pause", run, within_s=END_S)
        await anyio.sleep(HELD_S)
        await subject.ask("resume", run, within_s=END_S)
        await over(subject, trial)
        return trial

    return await in_lanes(scenario, subject, n, one)


async def crashing(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Kill the process with some runs in it, start another one, and let them come to their end."""
    trials: list[Trial] = []
    for wave in range(0, n, CRASHED_AT_ONCE):
        these = await begin_all(scenario, subject, range(wave, min(wave + CRASHED_AT_ONCE, n)))
        await anyio.sleep(spread(scenario, these[0].run))
        for trial in these:
            subject.ledger.note("killed", trial.run)
        await subject.kill()
        await subject.restart()

        async def take_up(trial: Trial) -> None:
            with suppress(SubjectFailed):  # then it will not end either
                await subject.ask("take_up", trial.run)
            await over(subject, trial)

        async with anyio.create_task_group() as tasks:
            for trial in these:
                tasks.start_soon(take_up, trial)
        trials += these
    await anyio.sleep(scenario.late_s)
    return trials


async def sending(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Say something while it works, once or many times at once: all must reach the model."""
    count = MESSAGES if scenario.name == "messages" else 1

    async def one(run: str) -> Trial:
        trial = await begin(scenario, subject, run)
        await anyio.sleep(spread(scenario, run))
        accepted: set[str] = set()

        async def send(note: str) -> None:
            try:
                await subject.ask("send", run, f"Mind this too: {note} (please)")
                accepted.add(note)
            except SubjectFailed:
                trial.turned_away += 1  # the sender knows

        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(send, f"note-{run}-{number}")
        await over(subject, trial)
        seen = subject.provider.notes[run]
        with anyio.move_on_after(SEEN_S):
            while not accepted <= seen:  # noqa: ASYNC110 - a late one is answered by a further run
                await anyio.sleep(0.05)
        trial.lost = len(accepted - seen)
        return trial

    return await in_lanes(scenario, subject, n, one)


async def switching(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """Ask for something urgent in between: it is done, and the first task comes back by itself."""

    async def one(run: str) -> Trial:
        trial = await begin(scenario, subject, run)
        await anyio.sleep(spread(scenario, run))
        other = f"{run}.x"
        brief = subject.provider.script(other, Answer((Call("act", "x1"),)))
        await subject.ask("send", run, f"{brief} This is urgent, drop the rest for now.")
        await subject.ledger.until(other, happened("acted"), BACK_S)
        await subject.ledger.until(run, happened("acted", len(trial.wanted)), BACK_S)
        trial.between = [one.number for one in subject.ledger.of(other) if one.what == "acted"]
        return trial

    return await in_lanes(scenario, subject, n, one)


async def staling(scenario: Scenario, subject: Subject, n: int) -> list[Trial]:
    """What the work relies on is changed while it is paused: a resume must notice."""

    async def one(run: str) -> Trial:
        relied = subject.folder / f"{run}.txt"
        relied.write_text("as it was", encoding="utf-8")
        trial = await begin(scenario, subject, run)
        await subject.ask("pause", run, within_s=END_S)
        relied.write_text("as others have made it", encoding="utf-8")
        await subject.ask("resume", run, within_s=END_S)
        trial.asked = await _asks(subject, run)
        await anyio.sleep(0.2)
        trial.told = list(trial.told)
        await stop(subject, trial)
        return trial

    return await in_lanes(scenario, subject, n, one)


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


def end_processes_of(run: str) -> int:
    """How many processes of a run are left; they are ended here, by their number."""
    mark = f"{MARK}={run}\0".encode()
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes():
                os.kill(int(folder.name), signal.SIGKILL)
                found += 1
    return found
