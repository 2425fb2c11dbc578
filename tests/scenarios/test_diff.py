"""A resume shows in one line what the person has changed meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.record import Limits
from midflight.run import Run
from scenarios.company import child_of, events
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]


@asynccontextmanager
async def a_paused_run(driving: Open) -> AsyncIterator[tuple[Control, str]]:
    stage = Stage("diff")
    look = stage.reader()
    stage.gate("slow")

    @agent("diff")
    async def works(run: Run) -> object:
        return await run.step("Read", look, "slow")

    async with driving(works) as control:
        run = await control.start(works, "Invite all customers", limits=Limits(steps=5))
        await stage.until_begun("slow")
        await control.send(run, "before the pause")
        await control.applied(await control.pause(run))
        yield control, run
        stage.gate("slow").set()
        await control.ended(run)


async def nothing(control: Control, run: str) -> None:
    """Only time passes."""


async def redirect(control: Control, run: str) -> None:
    await control.redirect(run, "Invite EU customers")


async def raise_caps(control: Control, run: str) -> None:
    await control.raise_limits(run, Limits(steps=9, usd=2.5))


async def write(control: Control, run: str) -> None:
    await control.send(run, "and mind the umlauts")
    await control.send(run, "in the subject, too")


async def everything(control: Control, run: str) -> None:
    for change in (write, redirect, raise_caps):
        await change(control, run)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (nothing, "nothing changed"),
        (redirect, "Invite ~all~ =EU= customers"),
        (raise_caps, "steps cap 5 → 9; usd cap None → 2.5"),
        (write, "2 new messages"),
        (
            everything,
            "Invite ~all~ =EU= customers; steps cap 5 → 9; usd cap None → 2.5; 2 new messages",
        ),
    ],
)
async def test_the_line_names_what_was_changed(
    driving: Open, change: Callable[[Control, str], Awaitable[None]], line: str
) -> None:
    async with a_paused_run(driving) as (control, run):
        await change(control, run)
        accepted = await control.resume(run)
        (resumed,) = await events(control.store, run, e.ResumeRequested)

        assert resumed.diff == accepted.status == line


async def test_an_answer_given_meanwhile_is_named(driving: Open) -> None:
    @agent("diff-answer")
    async def asks(run: Run) -> object:
        return (await run.ask("Which?")).payload

    async with driving(asks) as control:
        run = await control.start(asks, "choose")
        state = await control.until(run, lambda state: state.phase is Phase.WAITING)
        await control.pause(run)
        await control.answer(run, next(iter(state.questions)), "the red one")
        await control.resume(run)
        assert await control.result(run) == "the red one"
        (resumed,) = await events(control.store, run, e.ResumeRequested)

        assert resumed.diff == "answered '\"the red one\"'"


async def test_the_next_pause_begins_anew(driving: Open) -> None:
    async with a_paused_run(driving) as (control, run):
        await raise_caps(control, run)
        await control.resume(run)
        await control.pause(run)
        await control.resume(run)

        lines = [resumed.diff for resumed in await events(control.store, run, e.ResumeRequested)]
        assert lines == ["steps cap 5 → 9; usd cap None → 2.5", "nothing changed"]


async def test_a_resume_repeated_under_its_key_is_the_same_though_more_has_come(
    driving: Open,
) -> None:
    async with a_paused_run(driving) as (control, run):
        first = await control.resume(run, key="k1")
        await control.send(run, "one more thing")
        assert (await control.resume(run, key="k1")).position == first.position


async def test_children_that_are_resumed_tell_of_their_own_changes(driving: Open) -> None:
    stage = Stage("diff-child")
    look = stage.reader()
    stage.gate("slow")

    @agent("diff-child-leaf")
    async def leaf(run: Run) -> object:
        return await run.step("Read", look, "slow")

    @agent("diff-child")
    async def parent(run: Run) -> object:
        return await (await run.spawn(leaf, "read")).result()

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("slow")
        born = await child_of(control, run)
        await control.pause(run)
        await control.until(born, lambda state: state.phase is Phase.PAUSED)
        await control.raise_limits(born, Limits(steps=3))
        await control.send(run, "hello")
        stage.gate("slow").set()
        await control.resume(run)
        await control.ended(run)

        (above,) = await events(control.store, run, e.ResumeRequested)
        (below,) = await events(control.store, born, e.ResumeRequested)
        assert (above.diff, below.diff) == ("1 new message", "steps cap None → 3")
