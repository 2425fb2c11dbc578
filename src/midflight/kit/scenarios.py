"""Scenarios, and the playing of their trials up to the moment at which they are interrupted.

A scenario knows nothing of any runtime. It presses the verb at a moment that is seen from outside.
The rest is read from the ledger when all trials are over, so that late effects count.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import anyio
from msgspec import Struct

from midflight.kit.ledger import Told
from midflight.kit.provider import Answer
from midflight.kit.score import Trial, interrupted
from midflight.kit.subject import Subject, SubjectFailed

END_S: Final = 45.0  # a machine that is busy with other things may stall for long
MOMENT_S: Final = 60.0
LATE_S: Final = 1.5  # longer than what is in flight takes: what comes late has come by then
LANES: Final = 4
ROUNDS_MAX: Final = 10

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
