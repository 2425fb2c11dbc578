"""Questions of work that is not in front: read out with whose they are, and answered by voice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.interfaces.voice.lexicon import Act
from midflight.interfaces.voice.voice_wire import Did
from midflight.journal.phases import LIVE, Cause
from midflight.journal.record import Actor
from midflight.journal.state import RunState
from midflight.run import Run
from midflight.stores.protocol import Query
from voice.studio import THREAD, Scene, on_the_line, talking

pytestmark = pytest.mark.anyio
BOB = Actor("bob", channel="web")
BACKUP = "May I delete the backup?"
ABOUT_BACKUP = f"About Tidy the disks: {BACKUP}"
TOLD = "The report is ready and waits for you. Shall I read it?"


class Household:
    """An agent in front, with something to say, and a helper of its that asks for leave."""

    def __init__(self, question: str = BACKUP, schema: dict[str, str] | None = None) -> None:
        self.asks, self.tells, self.ends = anyio.Event(), anyio.Event(), anyio.Event()
        self.answers: list[object] = []

        @agent("helper")
        async def helper(run: Run) -> str:
            await run.step("Wait", self.asks.wait)
            if schema is None:
                self.answers.append((await run.approve(question)).decision)
            else:
                self.answers.append((await run.ask(question, schema=schema)).payload)
            return "tidied"

        @agent("clerk", converses=True)
        async def clerk(run: Run) -> str:
            await run.spawn(helper, "Tidy the disks")
            await run.step("Wait", self.tells.wait)
            await run.say(TOLD)
            await run.step("Wait on", self.ends.wait)
            return "over"

        self.agents: tuple[Agent, Agent] = (clerk, helper)

    @asynccontextmanager
    async def on_the_phone(self, folder: Path) -> AsyncIterator[Scene]:
        """Somebody has told the clerk to begin, and its helper has begun."""
        async with talking(*self.agents, folder=folder) as there:
            await there.say("Begin")
            await run_of(there.control, "helper")
            yield there

    async def ask(self, there: Scene, question: str = ABOUT_BACKUP) -> None:
        """The helper asks, and it is heard to its end."""
        self.asks.set()
        assert await there.room.until(lambda: question in there.spoken())
        await there.rests()

    async def tell(self, there: Scene) -> None:
        """The clerk says something, and it is heard to its end."""
        self.tells.set()
        assert await there.room.until(lambda: TOLD in there.spoken())
        await there.rests()


async def run_of(control: Control, name: str) -> RunState:
    """The run of this agent, once there is one."""
    with anyio.fail_after(20):
        while True:
            rows = await control.runs(Query(agent=name, phases=LIVE))
            if rows:
                return await control.state(rows[0].journal)
            await anyio.sleep(0.01)


async def messages(there: Scene) -> list[str]:
    lines = await there.control.transcript(THREAD)
    return [line.text for line in lines if line.kind == "message"]


async def test_a_question_of_a_background_run_is_read_out_with_whose_it_is_and_yes_answers_it(
    tmp_path: Path,
) -> None:
    household = Household()
    async with household.on_the_phone(tmp_path) as there:
        await household.ask(there)
        await there.say("Yes")
        await there.rests()

        assert household.answers == ["approve"]
        assert await messages(there) == ["Begin"]


async def test_no_rejects_it_and_it_is_said_that_it_was_passed_on(tmp_path: Path) -> None:
    household = Household()
    async with household.on_the_phone(tmp_path) as there:
        await household.ask(there)
        await there.say("No")
        await there.rests()

        assert household.answers == ["reject"]
        assert there.of(Did)[-1] == Did(Act.NO, "Passed on.")


async def test_what_the_run_in_front_was_saying_goes_on_after_the_answer(tmp_path: Path) -> None:
    household = Household()
    async with household.on_the_phone(tmp_path) as there:
        household.asks.set()
        assert await there.room.until(lambda: ABOUT_BACKUP in there.spoken())
        household.tells.set()
        await there.hears(5)  # of the question; what the clerk says waits behind it
        await there.say("Yes", 0.4)
        await there.rests()

        assert household.answers == ["approve"]
        assert TOLD in there.spoken()
        assert there.spoken().count(BACKUP) == 1


async def test_a_yes_after_other_words_of_the_front_is_asked_about(tmp_path: Path) -> None:
    household = Household()
    async with household.on_the_phone(tmp_path) as there:
        await household.ask(there)
        await household.tell(there)
        await there.say("Yes")
        await there.rests()
        assert household.answers == []
        assert there.of(Did)[-1] == Did(Act.SAY, f"Still open: {ABOUT_BACKUP}")
        await there.say("Yes")
        await there.rests()

        assert household.answers == ["approve"]
        assert await messages(there) == ["Begin"]


async def test_a_yes_in_a_conversation_with_the_front_is_not_the_helpers(tmp_path: Path) -> None:
    household = Household()
    async with household.on_the_phone(tmp_path) as there:
        await household.ask(there)
        await there.say("Let me think about that")
        await household.tell(there)
        await there.say("Yes")
        await there.rests()

        assert household.answers == []
        assert await messages(there) == ["Begin", "Let me think about that", "Yes"]


async def test_a_yes_after_a_while_is_about_what_was_heard_last(tmp_path: Path) -> None:
    household = Household()
    async with household.on_the_phone(tmp_path) as there:
        await household.ask(there)
        await there.say("Let me think about that")
        await there.rests()
        await there.say("Yes")
        await there.rests()

        assert household.answers == ["approve"]


async def test_other_words_are_an_answer_only_right_after_who_has_asked_for_words(
    tmp_path: Path,
) -> None:
    household = Household("Which disk first?", {"type": "string"})
    async with household.on_the_phone(tmp_path) as there:
        await household.ask(there, "About Tidy the disks: Which disk first?")
        await household.tell(there)
        await there.say("Read the second page only")
        await there.rests()
        assert household.answers == []
        assert await messages(there) == ["Begin", "Read the second page only"]


async def test_words_right_after_a_question_for_words_are_its_answer(tmp_path: Path) -> None:
    household = Household("Which disk first?", {"type": "string"})
    async with household.on_the_phone(tmp_path) as there:
        await household.ask(there, "About Tidy the disks: Which disk first?")
        await there.say("The one in the cellar")
        await there.rests()

        assert household.answers == ["The one in the cellar"]


async def test_no_and_other_words_are_an_answer_to_it_too(tmp_path: Path) -> None:
    household = Household("Which disk first?", {"type": "string"})
    async with household.on_the_phone(tmp_path) as there:
        await household.ask(there, "About Tidy the disks: Which disk first?")
        await there.say("No, leave the disks alone")
        await there.rests()

        assert household.answers == ["No, leave the disks alone"]


async def test_a_redirect_right_after_it_is_asked_about_once_and_then_is_the_fronts(
    tmp_path: Path,
) -> None:
    household = Household()
    async with household.on_the_phone(tmp_path) as there:
        await household.ask(there)
        await there.say("No, only the old one")
        await there.rests()
        asked = Did(Act.SAY, f"Say “yes” or “no”, please: {ABOUT_BACKUP}")
        assert there.of(Did)[-1] == asked
        front = await run_of(there.control, "clerk")
        assert (household.answers, front.brief) == ([], "Begin")
        await there.say("No, only the old one")
        await there.rests()

        assert there.of(Did)[-1] == Did(Act.REDIRECT)
        assert household.answers == []


async def test_nobody_but_who_has_taken_it_over_answers_for_it_by_voice(tmp_path: Path) -> None:
    household = Household()
    async with household.on_the_phone(tmp_path) as there:
        await household.ask(there)
        helper = await run_of(there.control, "helper")
        await there.control.take_over(helper.journal, who=BOB)
        await there.say("Yes")
        await there.rests()

        assert household.answers == []
        assert await messages(there) == ["Begin", "Yes"]


async def test_where_nothing_is_in_front_any_more_it_is_answered_all_the_same(
    tmp_path: Path,
) -> None:
    household = Household()
    household.tells.set()
    household.ends.set()
    async with household.on_the_phone(tmp_path) as there:
        await there.rests()
        await household.ask(there)
        await there.say("Go ahead")
        await there.rests()

        assert household.answers == ["approve"]
        assert await messages(there) == ["Begin"]


async def test_all_that_is_open_when_a_line_is_opened_is_counted_and_the_newest_read_out(
    tmp_path: Path,
) -> None:
    household = Household()
    _, helper = household.agents

    @agent("asker", converses=True)
    async def asker(run: Run) -> str:
        await run.spawn(helper, "Tidy the disks")
        return (await run.approve("May I send the memo?")).decision

    async with on_the_line(asker, tmp_path, helpers=[helper]) as (control, call):
        front = await control.start(asker, "x", thread=THREAD, who=BOB)
        await control.until(front, lambda run: bool(run.questions))
        household.asks.set()
        below = (await run_of(control, "helper")).journal
        await control.until(below, lambda run: bool(run.questions))
        async with call() as there:
            await there.rests()
            assert there.spoken() == f"2 questions are open. The newest: {ABOUT_BACKUP}"
            await there.say("Yes")
            await there.rests()
            assert household.answers == ["approve"]
            assert there.spoken().endswith("Still open: May I send the memo?")
            await there.say("No")
            await there.rests()

            assert (await control.state(front)).answered
            assert await messages(there) == []


async def test_a_question_of_work_that_was_parked_is_answered_where_it_is(tmp_path: Path) -> None:
    answers: list[str] = []

    @agent("careful", converses=True)
    async def careful(run: Run) -> str:
        if run.brief != "urgent":
            answers.append((await run.approve("May I send the memo?")).decision)
        else:
            await run.step("Work", anyio.sleep_forever)
        return "over"

    async with on_the_line(careful, tmp_path) as (control, call):
        first = await control.start(careful, "Write the memo", thread=THREAD, who=BOB)
        await control.until(first, lambda run: bool(run.questions))
        async with call() as there:
            await there.rests()
            sent = await control.send(THREAD, "urgent", who=BOB)
            await control.overrule(THREAD, sent.position, "switch", who=BOB)
            await control.until(first, lambda run: Cause.PARKED in run.holds)
            await there.room.wait(0.5)
            await there.say("Yes")
            await there.rests()

            state = await control.state(first)
            assert (list(state.questions), Cause.PARKED in state.holds) == ([], True)
            assert there.of(Did)[-1] == Did(
                Act.YES, "Passed on. It goes on with that when its turn comes."
            )


async def test_an_answer_that_comes_as_other_words_begin_is_no_remark(tmp_path: Path) -> None:
    household = Household("Which name shall it have?", {"type": "string"})
    async with household.on_the_phone(tmp_path) as there:
        household.asks.set()
        assert await there.room.until(lambda: "Which name" in there.spoken())
        household.tells.set()
        await there.hears(9)  # all of it, and with whose it is
        await there.say("Old invoices and receipts", 1.4)
        await there.rests()

        assert household.answers == ["Old invoices and receipts"]
