"""Ways in which a run rests and comes back, and what it asks then."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import StepFailed
from midflight.guards import Guard
from midflight.journal import events as e
from midflight.journal.state import Question, RunState
from midflight.run import Run
from midflight.tools.declaration import Tool
from scenarios.conftest import Open
from scenarios.stage import Stage

WAYS = ("live", "evicted", "drained", "crashed")


def impatient(clerk: Agent) -> Agent:
    """Lets its function go as soon as it rests."""
    return msgspec.structs.replace(clerk, evict_after=0.01)


async def let_go(control: Control, run: str) -> RunState:
    """Wait until nobody drives it."""
    return await control.until(run, lambda state: not state.driver)


async def held_back(control: Control, run: str, *, after: float = 0.0) -> float:
    """When the window ends in which an effect is held back, once one is open that ends later."""
    state = await control.until(
        run, lambda state: any(until > after for _, until in state.windows.values())
    )
    await anyio.sleep(0.05)  # its driver hears of it at the same time, and counts from then
    return max(until for _, until in state.windows.values())


async def asked(control: Control, run: str, *, after: int = 0) -> Question:
    """The newest question that is open, once there is one."""
    with anyio.fail_after(10):
        state = await control.until(run, lambda state: max(state.questions, default=0) > after)
    return state.questions[max(state.questions)]


async def events_of(control: Control, run: str, kind: type[Any]) -> list[Any]:
    """All events of a kind, in order."""
    return [r.event for r in await control.store.read(run) if isinstance(r.event, kind)]


async def times_asked(control: Control, run: str, kind: str = "stale") -> int:
    """How often a question of this kind was opened."""
    opened = (r.event for r in await control.store.read(run))
    return sum(isinstance(event, e.QuestionOpened) and event.kind == kind for event in opened)


async def never_asked(control: Control, run: str, kind: str = "stale") -> bool:
    """Whether no question of this kind was opened."""
    return not await times_asked(control, run, kind)


def sender(stage: Stage, send: Tool | dict[str, Tool], *args: object, **keyed: Any) -> Agent:
    """An agent that sends something and tells how that went."""

    @agent(name=stage.name)
    async def clerk(run: Run) -> str:
        declared = send["now"] if isinstance(send, dict) else send
        try:
            return str(await run.step("Send", declared, *(args or ("letter",)), **keyed))
        except StepFailed as failed:
            return failed.error

    return clerk


def relying_on(stage: Stage, make_guard: Callable[[], Guard], **declared: Any) -> Agent:
    """An agent that guards something, rests while it reads, and then acts."""
    make, look = stage.writer(**declared), stage.reader()

    @agent(name=stage.name)
    async def clerk(run: Run) -> object:
        await run.guard(make_guard())
        await run.step("Read", look, "slow")
        return await run.step("Make", make, "offer")

    return clerk


@asynccontextmanager
async def rested(
    way: str, clerk: Agent, stage: Stage, opens: tuple[Open, Open], meanwhile: Callable[[], object]
) -> AsyncIterator[tuple[Control, str]]:
    """A run that rests while it reads ``slow``; meanwhile something happens; it comes back."""
    driving, crashing = opens
    stage.gate("slow")
    if way in {"crashed", "drained"}:
        async with (crashing if way == "crashed" else driving)(clerk) as control:
            run = await control.start(clerk, "work")
            await stage.until_begun("slow")
        meanwhile()
        stage.gate("slow").set()
        async with driving(clerk) as control:
            yield control, run
        return
    resting = impatient(clerk) if way == "evicted" else clerk
    async with driving(resting) as control:
        run = await control.start(resting, "work")
        await stage.until_begun("slow")
        await control.applied(await control.pause(run))
        if way == "evicted":
            await let_go(control, run)
        meanwhile()
        stage.gate("slow").set()
        await control.resume(run)
        yield control, run
