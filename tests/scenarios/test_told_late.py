"""A worker that was taken for lost lives, and tells what it did while another drives its run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import cast

import anyio
import msgspec
import pytest
from typing_extensions import override

from midflight.control import Control
from midflight.engines.local import LocalEngine
from midflight.kernel import events as e
from midflight.kernel.phases import Outcome, Phase
from midflight.kernel.state import RunState
from midflight.run import Agent, Run, agent
from midflight.stores.base import Committed, Draft, Store, Submit, View
from midflight.tools.base import Tool
from scenarios.conftest import failed_drivers
from scenarios.cord import Cord
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(12)]

STORY_S = 8.0


class Mistaken(Cord):
    """Takes everybody else for lost, as is done where a lease runs out by time."""

    @override
    async def submit(self, request: Submit) -> Committed:
        def decide(view: View) -> Draft:
            return request.decide(msgspec.structs.replace(view, gone=frozenset(request.leases)))

        return await super().submit(msgspec.structs.replace(request, decide=decide))


class Succession:
    """A run in the middle of an effect of its first worker, and a second one that can take it."""

    def __init__(self, control: Control, run: str, cord: Cord, engine: LocalEngine) -> None:
        self.control = control
        self.run = run
        self.cord = cord
        self._engine = engine

    async def take_over(self) -> None:
        """The first worker is taken for lost. It goes on all the same."""
        await self._engine.ensure(self.run)
        await self.told(Outcome.UNKNOWN)

    async def until(self, ready: Callable[[RunState], bool]) -> RunState:
        return await self.control.until(self.run, ready)

    async def told(self, outcome: Outcome = Outcome.DONE) -> None:
        """The first worker has told how its effect ended."""
        await self.until(lambda state: next(iter(state.effects.values())).outcome is outcome)


Succeed = Callable[[Stage, Agent], AbstractAsyncContextManager[Succession]]


@pytest.fixture
def succession(store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Succeed:
    """Two workers at one store, the first of them in the middle of making ``a``."""

    @asynccontextmanager
    async def succeed(stage: Stage, clerk: Agent) -> AsyncIterator[Succession]:
        cord, gate = Mistaken(store), stage.gate("a")
        async with LocalEngine.open(store, [clerk], workdir=tmp_path, sweep_s=0.05) as first:
            control = Control(store, first)
            run = await control.start(clerk, "work")
            await stage.until_begun("a")
            mistaken = cast("Store", cord)
            async with LocalEngine.open(mistaken, [clerk], workdir=tmp_path) as second:
                try:
                    with anyio.fail_after(STORY_S):
                        yield Succession(control, run, cord, second)
                finally:
                    gate.set()
                    cord.let_go.set()
        assert failed_drivers(caplog) == []

    return succeed


def making(stage: Stage, make: Tool) -> Agent:
    @agent(f"{stage.name}-clerk")
    async def clerk(run: Run) -> object:
        return await run.step("Make a", make, "a")

    return clerk


async def test_what_was_told_before_the_successors_start_is_on_record_is_not_begun_again(
    succession: Succeed,
) -> None:
    """Both want to append; the start comes second, and so does not come at all."""
    stage = Stage("late-wins")
    async with succession(stage, making(stage, stage.writer(effect="write"))) as both:
        both.cord.linger_at(e.AttemptStarted)
        await both.take_over()
        await both.cord.reached.wait()
        stage.gate("a").set()
        await both.told()
        both.cord.let_go.set()

        assert await both.control.result(both.run) == "made a"
        state = await both.control.state(both.run)
        assert (state.epoch, len(state.effects), state.done) == (2, 1, 1)

    assert stage.begun == ["a"]


async def test_what_was_told_while_the_run_was_paused_is_not_begun_when_it_goes_on(
    succession: Succeed,
) -> None:
    """The successor has looked for a record long ago, and found none."""
    stage = Stage("late-paused")
    async with succession(stage, making(stage, stage.writer(effect="write"))) as both:
        both.cord.linger_at(e.AttemptStarted)
        await both.take_over()
        await both.cord.reached.wait()
        await both.control.pause(both.run)
        both.cord.let_go.set()
        await both.until(lambda state: state.phase is Phase.PAUSED)
        stage.gate("a").set()
        await both.told()
        await both.control.resume(both.run)

        assert await both.control.result(both.run) == "made a"

    assert stage.begun == ["a"]
