"""Questions by voice: only what was heard is answered, one at a time, and by the right words."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from midflight.agents import Agent, agent
from midflight.interfaces.voice.call_record import Moment
from midflight.interfaces.voice.lexicon import Act, meaning
from midflight.interfaces.voice.turn_actions import SORRY
from midflight.interfaces.voice.turn_table import Floor
from midflight.interfaces.voice.voice_wire import Did
from midflight.journal.phases import Phase
from midflight.journal.record import Actor
from midflight.journal.state import RunState
from midflight.run import Run
from voice.studio import (
    THREAD,
    WORD,
    PlainRecogniser,
    PlainSynthesiser,
    Scene,
    Words,
    on_the_line,
    talking,
)
from voice.talkers import TEXT, worker

pytestmark = pytest.mark.anyio
BOB = Actor("bob", channel="web")


async def front_of(there: Scene) -> RunState:
    return await there.control.state((await there.control.runs())[0].journal)


async def test_a_question_is_read_out_and_yes_approves(tmp_path: Path) -> None:
    @agent(converses=True)
    async def careful(run: Run) -> str:
        approval = await run.approve("May I send it?")
        await run.say(f"It was {approval.decision}d by {approval.by}.")
        return "sent"

    voice = PlainSynthesiser()
    async with talking(careful, folder=tmp_path, synthesiser=voice) as there:
        await there.say("Send the memo")
        await there.rests()
        assert any("May I send it?" in asked for asked in voice.asked)
        await there.say("Yes")
        await there.rests()

        assert await there.said_by_agent() == ["It was approved by ann."]


@pytest.mark.parametrize(
    ("details", "told"),
    [
        ({"to": "Ada", "amount": 700}, "amount 700, to Ada."),
        ({"text": "a long memo " * 40}, "The details are on the screen"),
    ],
)
async def test_the_values_of_a_question_are_said_before_it_or_it_is_said_where_they_are(
    tmp_path: Path, details: dict[str, object], told: str
) -> None:
    @agent(converses=True)
    async def cautious(run: Run) -> str:
        await run.approve("May I pay?", details=details)
        return "paid"

    voice = PlainSynthesiser()
    async with talking(cautious, folder=tmp_path, synthesiser=voice) as there:
        await there.say("Pay her")
        await there.rests()
        asked = " ".join(voice.asked)
        assert told in asked
        assert asked.index(told) < asked.index("May I pay?")


@pytest.mark.parametrize(
    "details",
    [
        {"text": "a long memo " * 40},
        {"to": "ada\u200b", "amount": 700},
        {"payments": [{"to": "ada"}, {"to": "eve"}]},
    ],
    ids=["too long", "hidden", "of several parts"],
)
async def test_a_yes_to_what_cannot_be_read_out_whole_is_not_taken_and_a_no_is(
    tmp_path: Path, details: dict[str, object]
) -> None:
    @agent(converses=True)
    async def cautious(run: Run) -> str:
        said = await run.approve("May I pay?", details=details)
        await run.say(f"It was {said.decision}ed.")
        return "over"

    voice = PlainSynthesiser()
    async with talking(cautious, folder=tmp_path, synthesiser=voice) as there:
        await there.say("Pay her")
        await there.rests()
        await there.say("Yes")
        await there.rests()

        assert len((await front_of(there)).questions) == 1
        assert any("Read it on a screen" in each for each in voice.asked)
        await there.say("No")
        await there.rests()
        assert await there.said_by_agent() == ["It was rejected."]


@agent(converses=True)
async def careful(run: Run) -> str:
    approval = await run.approve("Your memo goes to all of the board. May I send it?")
    await run.say(f"It was {approval.decision}d.")
    return "sent"


async def test_a_firm_yes_over_the_question_answers_it_and_a_polite_one_does_not(
    tmp_path: Path,
) -> None:
    async with talking(careful, folder=tmp_path) as there:
        await there.say("Send the memo")
        await there.hears(3)
        await there.say("right", 0.4)
        assert there.line.taking.floor is Floor.SPEAKING
        await there.say("Yes", 0.4)
        await there.rests()

        assert await there.said_by_agent() == ["It was approved."]


async def test_a_yes_before_all_values_were_heard_is_not_taken_and_they_are_read_again(
    tmp_path: Path,
) -> None:
    @agent(converses=True)
    async def cautious(run: Run) -> str:
        details = {"to": "Ada and Bob and Carl and Dora and Eve", "amount": 700}
        said = await run.approve("May I pay?", details=details)
        await run.say(f"It was {said.decision}d.")
        return "over"

    async with talking(cautious, folder=tmp_path) as there:
        await there.say("Pay them")
        await there.hears(8)
        await there.say("Yes", 0.4)
        await there.rests()
        assert (await front_of(there)).questions
        assert there.spoken().count("This is about: amount 700") == 2
        await there.say("Yes")
        await there.rests()

        assert await there.said_by_agent() == ["It was approved."]


async def test_of_who_does_not_say_how_sure_they_are_a_polite_yes_approves_when_it_is_said_again(
    tmp_path: Path,
) -> None:
    words = Words()
    unsure = PlainRecogniser(words)
    unsure.after = lambda heard, _: replace(heard, confidence=None)
    async with talking(careful, folder=tmp_path, recogniser=unsure, words=words) as there:
        await there.say("Send the memo right now", 1.3)
        await there.rests()
        await there.say("Okay", 0.4)
        await there.rests()
        assert (await front_of(there)).questions
        assert SORRY in there.spoken()
        await there.say("Okay", 0.4)
        await there.rests()

        assert await there.said_by_agent() == ["It was approved."]


async def test_go_ahead_approves_where_an_approval_is_asked(tmp_path: Path) -> None:
    async with talking(careful, folder=tmp_path) as there:
        await there.say("Send the memo")
        await there.rests()
        await there.say("Yes, go ahead")
        await there.rests()

        assert await there.said_by_agent() == ["It was approved."]


async def test_go_ahead_is_no_answer_where_words_are_asked_for(tmp_path: Path) -> None:
    @agent(converses=True)
    async def curious(run: Run) -> str:
        answer = await run.ask("Which name?", schema={"type": "string"})
        await run.say(str(answer.payload))
        return "made"

    async with talking(curious, folder=tmp_path) as there:
        await there.say("Make a folder")
        await there.rests()
        await there.say("Go ahead")
        await there.rests()
        front = (await there.control.runs())[0].journal
        assert (await there.control.state(front)).questions
        await there.say("Invoices")
        await there.rests()

        assert await there.said_by_agent() == ["Invoices"]


async def test_no_and_other_words_redirect_the_run_that_asks_for_words(tmp_path: Path) -> None:
    @agent(converses=True)
    async def curious(run: Run) -> str:
        await run.ask("Which name?", schema={"type": "string"})
        return "made"

    async with talking(curious, folder=tmp_path) as there:
        await there.say("Make a folder")
        await there.rests()
        await there.say("No, make a file")
        await there.rests()

        assert Did(Act.REDIRECT) in there.of(Did)


async def test_a_yes_that_was_begun_before_the_question_does_not_answer_it(tmp_path: Path) -> None:
    asking = anyio.Event()

    @agent(converses=True)
    async def late(run: Run) -> str:
        await run.step("Wait", asking.wait)
        await run.say((await run.approve("May I delete it all?")).decision)
        return "over"

    words = Words()
    recogniser = PlainRecogniser(words)
    async with talking(late, folder=tmp_path, recogniser=recogniser, words=words) as there:
        await there.say("Begin the work")
        front = (await there.control.runs())[0].journal
        told = anyio.Event()
        recogniser.thinks = told.wait
        await there.room.hear(words.said("Yes"))
        await there.passes(1)  # recognition still thinks about it, and the run asks
        asking.set()
        await there.control.until(front, lambda state: bool(state.questions))
        await there.passes(0.2)
        told.set()
        await there.room.wait(1)

        assert (await there.control.state(front)).questions
        await there.rests()
        await there.say("Yes")
        await there.rests()
        assert await there.said_by_agent() == ["approve"]


# ── what was heard, and what was not ─────────────────────────────────────────────────────────────


async def test_words_are_no_answer_to_an_approval_that_nobody_has_heard_and_it_is_asked_then(
    tmp_path: Path,
) -> None:
    @agent(converses=True)
    async def reader(run: Run) -> str:
        await run.say(f"{TEXT}. {TEXT}.")
        approval = await run.approve("May I wire the money?")
        await run.say(f"It was {approval.decision}d.")
        return "over"

    async with talking(reader, folder=tmp_path) as there:
        await there.say("Go through it")
        await there.hears(4)
        assert "wire" not in there.spoken()
        await there.say("Do it")
        await there.rests()
        assert (await front_of(there)).questions
        assert there.spoken().endswith("May I wire the money?")

        await there.say("Do it")
        await there.rests()
        assert "It was approved." in await there.said_by_agent()


async def test_words_are_no_text_for_a_question_that_nobody_has_heard(tmp_path: Path) -> None:
    @agent(converses=True)
    async def reader(run: Run) -> str:
        await run.say(f"{TEXT}. {TEXT}.")
        answer = await run.ask("Which name?", schema={"type": "string"})
        await run.say(f"It is {answer.payload}.")
        return "over"

    async with talking(reader, folder=tmp_path) as there:
        await there.say("Go through it")
        await there.hears(4)
        await there.say("You are reading too fast")
        await there.rests()
        assert (await front_of(there)).questions
        await there.say("Invoices")
        await there.rests()

        assert "It is Invoices." in await there.said_by_agent()


def asks_all(*questions: str) -> Agent:
    """Asks all of these at once, in this order, and says what came of them."""

    @agent(converses=True)
    async def careful(run: Run) -> str:
        found: dict[str, str] = {}

        async def ask(question: str) -> None:
            found[question] = (await run.approve(question)).decision
            await run.say(f"{question} {found[question]}")

        async with anyio.create_task_group() as tasks:
            for question in questions:
                tasks.start_soon(ask, question)
        return "over"

    return careful


BACKUP, MEMO = "May I delete the backup?", "May I send the memo?"


async def test_what_is_open_when_a_line_is_opened_is_read_out_before_it_is_answered(
    tmp_path: Path,
) -> None:
    careful = asks_all(MEMO)
    async with on_the_line(careful, tmp_path) as (control, call):
        run = await control.start(careful, "x", thread=THREAD, who=BOB)
        await control.until(run, lambda state: bool(state.questions))
        async with call() as there:
            assert await there.room.until(lambda: MEMO in there.spoken())
            await there.rests()
            await there.say("Okay")
            await there.rests()

            assert await there.said_by_agent() == [f"{MEMO} approve"]


async def test_of_several_that_are_open_the_newest_is_read_out_and_the_others_one_by_one(
    tmp_path: Path,
) -> None:
    careful = asks_all(BACKUP, MEMO)
    async with on_the_line(careful, tmp_path) as (control, call):
        run = await control.start(careful, "x", thread=THREAD, who=BOB)
        state = await control.until(run, lambda state: len(state.questions) == 2)
        older, newest = (question.message for question in state.questions.values())
        async with call() as there:
            await there.rests()
            assert there.spoken() == f"2 questions are open. The newest: {newest}"
            await there.say("Yes")
            await there.rests()
            assert await there.said_by_agent() == [f"{newest} approve"]
            assert f"Still open: {older}" in there.spoken()
            await there.say("No")
            await there.rests()

            assert await there.said_by_agent() == [f"{newest} approve", f"{older} reject"]


async def test_a_yes_to_two_questions_in_a_row_is_asked_about_and_they_are_taken_one_by_one(
    tmp_path: Path,
) -> None:
    async with talking(asks_all(BACKUP, MEMO), folder=tmp_path) as there:
        await there.say("Begin")
        assert await there.room.until(lambda: there.spoken().count("May I") == 2)
        await there.rests()
        older, newest = (asked.message for asked in (await front_of(there)).questions.values())
        await there.say("Yes")
        await there.rests()
        assert len((await front_of(there)).questions) == 2
        again = f"2 questions are open. The last one first: {newest}"
        assert there.of(Did)[-1] == Did(Act.SAY, again)

        await there.say("Yes")
        await there.rests()
        assert await there.said_by_agent() == [f"{newest} approve"]
        assert there.spoken().count(f"Still open: {older}") == 1
        await there.say("Yes")
        await there.rests()
        assert await there.said_by_agent() == [f"{newest} approve", f"{older} approve"]


async def test_a_yes_is_about_the_question_that_was_heard_last(tmp_path: Path) -> None:
    second = anyio.Event()

    @agent(converses=True)
    async def careful(run: Run) -> str:
        async def later() -> None:
            await second.wait()
            await run.say(f"{MEMO} {(await run.approve(MEMO)).decision}")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(later)
            await run.say(f"{BACKUP} {(await run.approve(BACKUP)).decision}")
        return "over"

    async with talking(careful, folder=tmp_path) as there:
        await there.say("Begin")
        assert await there.room.until(lambda: BACKUP in there.spoken())
        await there.rests()
        await there.say("Let me think about that")
        second.set()
        assert await there.room.until(lambda: MEMO in there.spoken())
        await there.rests()
        await there.say("Yes")
        await there.rests()

        assert await there.said_by_agent() == [f"{MEMO} approve"]


async def test_a_question_that_was_answered_elsewhere_is_not_asked_any_more(
    tmp_path: Path,
) -> None:
    asking = anyio.Event()

    @agent(converses=True)
    async def reader(run: Run) -> str:
        await run.say(f"{TEXT}.")
        await run.step("Wait", asking.wait)
        await run.approve(MEMO)
        await run.say("Thank you.")
        return "over"

    async with talking(reader, folder=tmp_path) as there:
        await there.say("Begin")
        await there.hears(4)
        run = (await front_of(there)).journal
        asking.set()
        state = await there.control.until(run, lambda state: bool(state.questions))
        await there.control.answer(run, next(iter(state.questions)), "approve", who=BOB)
        await there.control.ended(run)
        await there.rests()

        assert "Thank you." in there.spoken()
        assert there.room.sink.played == (12 + 2) * WORD  # and nothing of the question


@pytest.mark.parametrize("text", ["Yes, send it.", "Yes, please do.", "Yes, do it."])
async def test_a_yes_with_more_words_approves(tmp_path: Path, text: str) -> None:
    async with talking(asks_all(MEMO), folder=tmp_path) as there:
        await there.say("Begin")
        await there.rests()
        await there.say(text)
        await there.rests()

        assert await there.said_by_agent() == [f"{MEMO} approve"]


async def test_a_yes_to_something_else_than_was_asked_is_asked_about(tmp_path: Path) -> None:
    async with talking(asks_all(BACKUP), folder=tmp_path) as there:
        await there.say("Begin")
        await there.rests()
        await there.say("Yes, send it")
        await there.rests()
        assert (await front_of(there)).questions
        assert f"Say “yes” or “no”, please: {BACKUP}" in there.spoken()
        await there.say("Yes")
        await there.rests()

        assert await there.said_by_agent() == [f"{BACKUP} approve"]


async def test_a_yes_before_it_was_asked_whether_to_cancel_cancels_nothing(tmp_path: Path) -> None:
    async with talking(worker, folder=tmp_path) as there:
        await there.say("Begin the work")
        run = (await front_of(there)).journal
        await there.say("Stop")
        await there.room.wait(3)
        await there.line._acts.do(meaning("Yes"), Moment(run))  # as if said before they heard it
        assert (await there.control.state(run)).phase is Phase.PAUSING
