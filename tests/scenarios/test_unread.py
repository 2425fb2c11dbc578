"""Nobody is left to believe that a message was read when it was not."""

from __future__ import annotations

import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.journal import events as e
from midflight.journal.status import MAY_BE_DEAF
from midflight.run import Run
from scenarios.chat import ANN, SOON_S, VIC, Model, replies, runs_of, talk_of, until_chosen
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


def deaf(stage: Stage, *, converses: bool) -> Agent:
    """Reads one thing for its brief, and never looks at a message."""
    look = stage.reader()
    triage = Model().__call__ if converses else None

    @agent(stage.name, converses=converses, triage=triage, triage_after=SOON_S)
    async def works(run: Run) -> None:
        await run.step("Look", look, run.brief)

    return works


async def told(control: Control, run: str) -> list[str]:
    """What the thread was told about messages, without what the agent says itself."""
    return await replies(control, (await control.state(run)).thread, "triage")


async def test_what_was_to_be_taken_into_account_and_was_not_is_owned_up_to(driving: Open) -> None:
    stage = Stage("unread-promised")
    works = deaf(stage, converses=True)
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(run, "the EU only", who=ANN)
        await until_chosen(control, sent)
        stage.gate("one").set()
        await control.ended(run)
        await stage.until_begun("the EU only")

        assert await told(control, run) == [
            "Noted. I take it into account in: one",
            "'one' ended before it read 'the EU only'. It is done now in a run of its own.",
        ]
        assert len(await runs_of(control, sent.run)) == 2


async def test_where_no_run_begins_for_it_the_line_says_that_it_is_kept(driving: Open) -> None:
    stage = Stage("unread-viewer")
    works = deaf(stage, converses=True)
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        await until_chosen(control, await control.send(run, "may I?", who=VIC))
        stage.gate("one").set()
        await control.ended(run)

        assert (await told(control, run))[-1] == (
            "'one' ended before it read 'may I?'. It is kept, and still open."
        )


async def test_an_agent_that_may_never_look_is_not_said_to_work_on_a_message(driving: Open) -> None:
    stage = Stage("unread-plain")
    works = deaf(stage, converses=False)
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        first = await control.send(run, "the EU only")
        assert first.status.startswith("working: ")
        assert first.status.endswith(f"; stored{MAY_BE_DEAF}")
        for text in ("and May", "and June", "and July"):
            await control.send(run, text)
        stage.gate("one").set()
        await control.ended(run)

        assert await told(control, run) == [
            "'one' ended without reading 'the EU only', 'and May', 'and June' and 1 more. "
            "Nothing was done about it."
        ]
        assert len((await talk_of(control, run)).unread) == 4


async def test_one_that_has_looked_once_is_known_to_look(driving: Open) -> None:
    stage = Stage("unread-looks")
    look = stage.reader()
    stage.gate("one")
    stage.gate("two")

    @agent("unread-looks")
    async def works(run: Run) -> int:
        heard = 0
        for what in ("one", "two"):
            await run.step("Look", look, what)
            heard += len(await run.inbox())
        return heard

    async with driving(works) as control:
        run = await control.start(works, "work")
        await stage.until_begun("one")
        assert (await control.send(run, "a")).status.endswith(MAY_BE_DEAF)
        stage.gate("one").set()
        await stage.until_begun("two")
        assert MAY_BE_DEAF not in (await control.send(run, "b")).status
        stage.gate("two").set()

        assert await control.result(run) == 2
        assert await told(control, run) == []


async def test_one_that_has_looked_and_found_nothing_is_known_to_look_too(driving: Open) -> None:
    stage = Stage("unread-found-nothing")
    look = stage.reader()
    for what in ("one", "two"):
        stage.gate(what)

    @agent("unread-found-nothing")
    async def works(run: Run) -> int:
        heard = 0
        for what in ("one", "two"):
            heard += len(await run.inbox())
            await run.step("Look", look, what)
        return heard + len(await run.inbox())

    async with driving(works) as control:
        run = await control.start(works, "work")
        await stage.until_begun("one")
        assert (await control.state(run)).has_read
        assert (await control.send(run, "a")).status == "working: step 1, 0:00"
        stage.gate("one").set()
        await stage.until_begun("two")
        stage.gate("two").set()

        assert await control.result(run) == 1
        looked = [r for r in await control.store.read(run) if isinstance(r.event, e.InboxOpened)]
        assert len(looked) == 1


async def test_the_next_run_is_not_blamed_for_what_came_before_it(driving: Open) -> None:
    stage = Stage("unread-before")
    works = deaf(stage, converses=False)

    async with driving(works) as control:
        first = await control.start(works, "one")
        await control.ended(first)
        thread = (await control.state(first)).thread
        await control.send(thread, "too late")
        second = await control.start(works, "two", thread=thread)
        await control.ended(second)

        assert await told(control, second) == []
