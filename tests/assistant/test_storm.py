"""Five hundred interruptions of one agent: the next request is always one a provider takes.

The real SDKs ask a stand-in over HTTP that refuses a conversation in which a call has not its one
result, as the providers do.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from assistant.desk import Office
from midflight.assistant import Profile, assistant
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.errors import Refused
from midflight.journal.phases import ENDS, Phase
from midflight.journal.record import Actor, Limits
from midflight.journal.threads.thread import ThreadState
from midflight.stores.memory import MemoryStore
from models.standin import Request, StandIn, calls, says
from models.standin_wire import Answer

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(240)]

ANN = Actor("ann")
INTERRUPTIONS = 250  # by each SDK
VERBS = ("pause", "pause", "redirect", "message", "both", "cancel")
NO_LIMITS = Limits()


class Storm:
    """A model that never ends, and somebody who never lets it work in peace."""

    def __init__(self, name: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.office = Office(name)
        self.number = 0
        self.paused = False
        self.asked_while_paused = 0

    def answer(self, request: Request) -> Answer:
        self.number += 1
        if self.paused:
            self.asked_while_paused += 1
        if any(tool["name"] == "triage" for tool in _tools(request)):
            return says("no choice")
        wanted = [
            self.chance.choice(
                [
                    (f"{self.office.name}_look", {"what": f"{self.number}"}),
                    (f"{self.office.name}_note", {"text": f"{self.number}"}),
                    (f"{self.office.name}_look", "{broken"),
                    ("nothing", {}),
                ]
            )
            for _ in range(self.chance.randint(0, 3))
        ]
        slow = {"between_s": self.chance.choice([0.0, 0.005])}
        if not wanted:
            return says("I ", "think ", "on.", **slow)
        return calls(*wanted, text="Well. ", prefix=f"c{self.number}", **slow)


def _tools(request: Request) -> list[dict[str, str]]:
    return [tool.get("function", tool) for tool in request.body.get("tools", [])]


@asynccontextmanager
async def storming(storm: Storm, provider: str, folder: Path) -> AsyncIterator[tuple[Control, str]]:
    async with StandIn() as standin:
        standin.answer_by(storm.answer)
        model = getattr(standin, provider)()
        profile = Profile(model, storm.office.tools(), context_tokens=3_000)
        works = assistant(storm.office.name, profile, limits=NO_LIMITS, delegates=False)
        store = MemoryStore()
        async with LocalEngine.open(store, [works], workdir=folder, sweep_s=0.05) as engine:
            control = Control(store, engine)
            yield control, await control.start(works, "Work for ever")
            for row in await control.runs():
                if row.phase not in ENDS:
                    await control.cancel(row.journal, who=ANN)
        refused = [asked.complaint for asked in standin.requests if asked.complaint]
        assert refused == [], refused


async def interrupt(control: Control, run: str, storm: Storm) -> str:
    """One interruption; gives the run that is in front afterwards."""
    verb = storm.chance.choice(VERBS)
    await anyio.sleep(storm.chance.random() * 0.03)
    try:
        if verb == "message":
            await control.send(run, f"thought {storm.number}", who=ANN)
            return run
        if verb == "cancel":
            await control.cancel(run, who=ANN)
            await control.ended(run)
        if verb in {"pause", "both"}:
            await control.pause(run, who=ANN)
            state = await control.until(run, lambda s: s.phase is Phase.PAUSED or not s.alive)
            storm.paused = state.alive
            await anyio.sleep(0.002)
        if verb in {"redirect", "both"}:
            await control.redirect(run, f"Other things, {storm.number}", who=ANN)
        storm.paused = False
        if verb in {"pause", "both"}:
            await control.resume(run, who=ANN)
    except Refused:  # it has just said its last word: somebody starts it again
        storm.paused = False
    return await in_front(control, run)


async def in_front(control: Control, run: str) -> str:
    """The run that works now."""
    state = await control.state(run)
    talk = await control.store.load(state.thread)
    assert isinstance(talk, ThreadState)
    if (await control.state(talk.front)).alive:
        return talk.front  # it has said its last word, and a message has begun the next one
    return await control.start(state.agent, "Again", thread=state.thread)


async def until_asked(control: Control, run: str, storm: Storm, before: int) -> str:
    """Wait for the next request; if the model has just said its last word, start it again."""
    with anyio.fail_after(30):
        while storm.number <= before:
            run = await in_front(control, run)
            await anyio.sleep(0.005)
    return run


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_after_any_interruption_the_next_request_is_one_the_provider_takes(
    provider: str, tmp_path: Path
) -> None:
    storm = Storm(f"storm{provider}", seed=7)

    async with storming(storm, provider, tmp_path) as (control, run):
        for _ in range(INTERRUPTIONS):
            before = storm.number
            run = await interrupt(control, run, storm)
            run = await until_asked(control, run, storm, before)

    assert storm.number >= INTERRUPTIONS
    assert storm.asked_while_paused == 0


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_an_aborted_call_is_seen_closed_at_once(provider: str, tmp_path: Path) -> None:
    """Fifty times; the bound is wide here, the figure is measured by ``make bench-assistant``."""
    waits: list[float] = []
    async with StandIn() as standin:
        standin.answer_by(lambda _: says(*["word "] * 2_000, between_s=0.005))
        works = assistant(f"closes-{provider}", Profile(getattr(standin, provider)()))
        store = MemoryStore()
        async with LocalEngine.open(store, [works], workdir=tmp_path, sweep_s=0.05) as engine:
            control = Control(store, engine)
            run = await control.start(works, "Talk")
            for number in range(50):
                with anyio.fail_after(10):
                    while len(standin.requests) <= number:  # noqa: ASYNC110
                        await anyio.sleep(0.002)
                await anyio.sleep(0.01)
                pressed = anyio.current_time()
                await control.pause(run, who=ANN)
                waits.append(await standin.requests[number].closed() - pressed)
                await control.until(run, lambda s: s.phase is Phase.PAUSED)
                await control.resume(run, who=ANN)
            await control.cancel(run, who=ANN)
            await control.ended(run)

    assert sorted(waits)[len(waits) // 2] < 0.5
