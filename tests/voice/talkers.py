"""Agents to talk with: they count, work, order chairs, or ask before they send something."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from midflight.agents import Agent, agent
from midflight.assistant import Profile, assistant
from midflight.models.model import Prompt
from midflight.models.scripted import Line, ScriptedModel, call_all, say
from midflight.run import Run
from midflight.tools.declaration import tool
from voice.studio import Scene, talking

TEXT = "one two three four five six seven eight nine ten eleven twelve"
ANSWER = f"{TEXT}. And then"


def clerk_of(*lines: Line) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(lines)
    return assistant("clerk", Profile(model, actions=()), delegates=False), model


def speaker(*texts: str) -> tuple[Agent, ScriptedModel]:
    return clerk_of(*map(say, texts))


def thinker(ends: anyio.Event, *later: str) -> tuple[Agent, ScriptedModel]:
    """Says all of its answer, which has no end before it may."""
    return clerk_of(say(ANSWER, pieces=9, until=ends), *map(say, later))


@asynccontextmanager
async def counting(folder: Path, *later: str) -> AsyncIterator[tuple[Scene, ScriptedModel]]:
    """A clerk who was asked to count to twelve, and has come to four."""
    clerk, model = speaker(TEXT, *later)
    async with talking(clerk, folder=folder) as there:
        await there.say("Count please")
        await there.hears(4)
        yield there, model


@asynccontextmanager
async def thinking(folder: Path, *later: str) -> AsyncIterator[tuple[Scene, ScriptedModel, str]]:
    """The same, but its model never comes to an end; with the run that it is."""
    clerk, model = thinker(anyio.Event(), *later)
    async with talking(clerk, folder=folder) as there:
        await there.say("Count please")
        await there.hears(4)
        yield there, model, (await there.control.runs())[0].journal


@agent(converses=True)
async def worker(run: Run) -> str:
    await run.step("Work", _work)
    return "worked"


async def _work() -> None:
    await anyio.sleep(30)


@agent(converses=True)
async def reader(run: Run) -> str:
    """Counts to twelve, and then works without an end."""
    await run.say(f"{TEXT}.")
    await run.step("Work", _work)
    return "read"


class Shop:
    """Orders a chair, which takes as long as it is wanted to; ``text`` is said before it."""

    def __init__(self, text: str = "") -> None:
        self.placed: list[str] = []
        self.begun, self.goes_on = anyio.Event(), anyio.Event()

        @tool(effect="once", name="place_order")
        async def place_order(item: str) -> str:
            self.placed.append(item)
            self.begun.set()
            await self.goes_on.wait()
            return f"order 7 placed: {item}"

        def answer(prompt: Prompt) -> Line:
            if any(turn.role == "tool" for turn in prompt.turns):
                return say("Order seven is placed.")
            return call_all(("place_order", {"item": "a chair"}), text=text)

        self.model = ScriptedModel(answer)
        profile = Profile(self.model, [place_order], actions=())
        self.clerk = assistant("clerk", profile, delegates=False)

    def results(self) -> list[str]:
        """What the model was told of its orders."""
        return [turn.text for turn in self.model.prompts[1].turns if turn.role == "tool"]
