"""An undo that was asked for comes to an end, also where a look shows that nothing is to undo."""

from __future__ import annotations

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.errors import StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.tools.declaration import NotDone, tool
from midflight.tools.options import EffectRecord
from scenarios.conftest import Open

pytestmark = pytest.mark.anyio


def failing(name: str) -> tuple[Agent, list[str]]:
    """An agent whose only effect fails on its way; its check finds that nothing was done."""
    undone: list[str] = []

    async def unmake(_: EffectRecord) -> None:
        undone.append("undone")

    async def not_there(_: EffectRecord) -> object:
        return NotDone()

    @tool(
        effect="write", name=f"{name}.make", label="row", undo=unmake, check=not_there,
        settles_within=0,
    )  # fmt: skip
    async def make() -> None:
        raise ConnectionError("reset by peer")

    @agent(f"{name}-clerk")
    async def clerk(run: Run) -> str:
        try:
            await run.step("Make", make)
        except StepFailed as failed:
            return failed.error
        return "made"

    return clerk, undone


async def test_an_undo_is_over_when_a_check_says_that_nothing_was_done(driving: Open) -> None:
    clerk, undone = failing("undo-over")
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.ended(run)
        await control.undo(run)
        with anyio.fail_after(5):
            state = await control.until(run, lambda s: not s.driver and not s.wants_driver)

        receipt = await control.receipt(run)
        assert [line.text for line in receipt.lines] == ["row: aborted (proven)"]
        assert (state.still_to_undo, undone) == (set(), [])
        await anyio.sleep(0.2)  # several sweeps
        claims = [r for r in await control.store.read(run) if isinstance(r.event, e.DriverClaimed)]
        assert len(claims) == 2, "one to drive it and one to undo it; nobody comes back"
        assert not (await control.store.row(run)).wants_driver


async def test_a_parents_cancel_ends_where_a_childs_effect_was_never_done(driving: Open) -> None:
    clerk, undone = failing("undo-over-child")

    @agent("undo-over-parent")
    async def parent(run: Run) -> None:
        child = await run.spawn(clerk, "work")
        await child.result()
        await run.ask("Go on?")

    async with driving(clerk, parent) as control:
        run = await control.start(parent, "work")
        await control.until(run, lambda s: s.phase is Phase.WAITING)
        await control.cancel(run)
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.CANCELLED

        receipt = await control.receipt(run)
        assert [line.word for line in receipt.lines] == ["undone"]
        assert undone == []
