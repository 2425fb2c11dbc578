"""What a triage or a question aside is told of words that were spoken aloud."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control, local
from midflight.journal.record import Actor
from midflight.journal.threads.thread import HUNG_UP, WHOLE
from midflight.run import Run
from midflight.runtime.threads.recollection import CUT, NOT_HEARD, spoken

pytestmark = pytest.mark.anyio
ANN, CARL = Actor("ann", channel="voice"), Actor("carl", channel="voice")
THREAD = "t-phone"


@agent(converses=True)
async def clerk(run: Run) -> str:
    await run.say("one two three four")
    return "counted"


async def told(control: Control) -> list[str]:
    head = (await control.store.row(THREAD)).head
    lines = await spoken(control.store, THREAD, head, 20)
    return [line.text for line in lines if line.role == "agent"]


async def counted(control: Control) -> tuple[str, int]:
    """A run that has counted, and where it has."""
    run = await control.start(clerk, "Count", thread=THREAD, who=ANN)
    await control.ended(run)
    [said] = [line for line in await control.transcript(THREAD) if line.kind == "said: text"]
    return run, said.position


async def test_of_several_listeners_the_one_counts_who_has_heard_the_most(tmp_path: Path) -> None:
    async with local("memory:", clerk, workdir=tmp_path) as control:
        run, at = await counted(control)
        await control.heard(THREAD, "one two three", run=run, of=at, who=CARL)
        await control.heard(THREAD, "one two", run=run, of=at, who=ANN)
        assert await told(control) == [f"one two three {CUT}"]

        await control.heard(THREAD, "one two three four", run=run, of=at, how=WHOLE, who=CARL)
        await control.heard(THREAD, "one", run=run, of=at, who=ANN)
        assert await told(control) == ["one two three four"]


async def test_words_that_went_on_after_somebody_hung_up_are_told_as_not_heard(
    tmp_path: Path,
) -> None:
    goes_on = anyio.Event()

    @agent(converses=True)
    async def slow(run: Run) -> str:
        await run.step("Wait", goes_on.wait)
        await run.say("one two three four")
        await run.say("five")
        return "counted"

    async with local("memory:", slow, workdir=tmp_path) as control:
        run = await control.start(slow, "Count", thread=THREAD, who=ANN)
        await control.heard(THREAD, "one two", run=run, how=HUNG_UP, who=ANN)
        goes_on.set()
        await control.ended(run)

        cut, went_on = f"one two {CUT}", f"one two three four\n\n{NOT_HEARD}"
        assert await told(control) == [cut, went_on, "five"]


async def test_who_hung_up_on_one_answer_has_hung_up_on_none_after_it(tmp_path: Path) -> None:
    """They may be back by then, and answers often begin with the same words."""
    goes_on = anyio.Event()

    @agent(converses=True)
    async def slow(run: Run) -> str:
        await run.step("Wait", goes_on.wait)
        await run.say("The report is done.")
        await run.say("The churn of June is four percent.")
        return "told"

    async with local("memory:", slow, workdir=tmp_path) as control:
        run = await control.start(slow, "Report", thread=THREAD, who=ANN)
        await control.heard(THREAD, "The", run=run, how=HUNG_UP, who=ANN)
        goes_on.set()
        await control.ended(run)

        went_on = f"The report is done.\n\n{NOT_HEARD}"
        assert await told(control) == [f"The {CUT}", went_on, "The churn of June is four percent."]
        lines = [line for line in await control.transcript(THREAD) if line.kind == "said: text"]
        assert [line.status for line in lines] == ["cut short", "not heard", ""]


@pytest.mark.parametrize(("text", "of_it"), [("", False), ("one two", True)])
async def test_who_heard_nothing_or_hung_up_on_what_is_on_record_leaves_later_words_alone(
    tmp_path: Path, text: str, of_it: bool
) -> None:
    goes_on = anyio.Event()

    @agent(converses=True)
    async def slow(run: Run) -> str:
        await run.say("one two three")
        await run.step("Wait", goes_on.wait)
        await run.say("one two three four")
        return "counted"

    async with local("memory:", slow, workdir=tmp_path) as control:
        run = await control.start(slow, "Count", thread=THREAD, who=ANN)
        await control.until(run, lambda state: bool(state.open))
        [said] = [line for line in await control.transcript(THREAD) if line.kind == "said: text"]
        of = said.position if of_it else 0
        await control.heard(THREAD, text, run=run, of=of, how=HUNG_UP, who=ANN)
        goes_on.set()
        await control.ended(run)

        assert (await told(control))[-1] == "one two three four"
        assert (await control.transcript(THREAD))[-1].status == ""
