"""An agent that talks for a minute, lines to it, and the lists of what is said over it."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from figures import ROOT

from midflight.agents import Agent, agent
from midflight.control import Control, local
from midflight.interfaces.voice.line import Line, line_to
from midflight.interfaces.voice.speech.speech_engines import Engines, Sink
from midflight.interfaces.voice.turn_table import Floor
from midflight.interfaces.voice.voice_wire import Shown
from midflight.journal.record import Actor
from midflight.run import Run
from voice.noises import mixed, noise
from voice.speakers import said

LISTS, MEASURED = ROOT / "bench/voice", "held-out"
BEFORE = "held-out-before"  # the list before, which nothing was chosen with either
SEEDS = 80_000  # of the noise beside what is measured: others than those of the lists before
PEOPLE = ("human:", "phone:")  # whose recordings say what they say
ANN = Actor("ann", channel="voice")
TALE = (
    "Here is the summary you asked for. Revenue has grown in every region this year. The largest "
    "share came from the enterprise plan. Churn was highest among trials in the second quarter, "
    "and we should look at that more closely. Support tickets have fallen by a third since March. "
    "The team in Hamburg closed the largest contract of the year. "
) * 3


@agent("teller", converses=True)
async def teller(run: Run) -> str:
    """Says the same whatever it is asked: who is measured is the line."""
    await run.say(TALE)
    return "told"


@asynccontextmanager
async def lines_to(*agents: Agent) -> AsyncIterator[Control]:
    with tempfile.TemporaryDirectory() as folder:
        async with local("memory:", *agents, workdir=folder, drain_s=0.5) as control:
            yield control


@asynccontextmanager
async def telling(
    control: Control, engines: Engines, sink: Sink, shown: list[Shown], thread: str
) -> AsyncIterator[Line]:
    """A line on which the teller has begun to speak."""
    async with line_to(
        control, teller, thread, who=ANN, engines=engines, sink=sink, show=shown.append
    ) as line:
        await anyio.sleep(0.02)
        await control.start(teller, "Tell me", thread=thread, who=Actor("bob"))
        with anyio.fail_after(20):
            while line.taking.floor is not Floor.SPEAKING:  # noqa: ASYNC110 - nobody tells us
                await anyio.sleep(0.01)
        yield line


def rows(name: str) -> list[dict[str, str]]:
    """Those that are measured, each with its number: the newest list first."""
    with (LISTS / f"{name}.tsv").open(encoding="utf-8") as file:
        read = list(csv.DictReader(file, delimiter="\t"))
    found = [row for split in (MEASURED, BEFORE) for row in read if row["split"] == split]
    return [{**row, "number": str(number)} for number, row in enumerate(found, SEEDS)]


def sound_of(row: dict[str, str]) -> bytes:
    if row["voice"].startswith("noise:"):
        return noise(row["voice"].removeprefix("noise:"))
    return mixed(said(row["text"], row["voice"]), row["noise"], seed=int(row["number"]))
