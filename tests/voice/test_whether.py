"""Somebody remarks on what they hear: it is asked whether that is for the agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from midflight.run import Run, agent
from midflight.voice.obeying import FOR_ME
from midflight.voice.shown import Outcome
from voice.studio import THREAD, WORD, Scene, on_the_line, talking
from voice.talkers import TEXT, counting, speaker

pytestmark = pytest.mark.anyio

REMARK = "just as I expected"


async def messages(there: Scene) -> list[str]:
    lines = await there.control.transcript(THREAD)
    return [line.text for line in lines if line.kind == "message"][1:]  # the first began it


def outcomes(there: Scene) -> list[str]:
    return [one.outcome for one in there.shown if isinstance(one, Outcome)]


async def test_who_says_nothing_to_that_hears_it_on_from_the_same_sample(tmp_path: Path) -> None:
    async with counting(tmp_path) as (there, model):
        await there.say(REMARK, 1.2)
        assert there.of(Outcome)[-1] == Outcome("asked if meant", REMARK, 0.9)
        await there.rests()
        await there.room.wait(5)
        await there.rests()

        assert there.room.sink.played == (12 + len(FOR_ME.split())) * WORD
        assert await there.said_by_agent() == [TEXT]
        assert await messages(there) == []
        assert len(model.asked) == 1


@pytest.mark.parametrize("answer", ["yes", "yeah it was", "yes please"])
async def test_a_yes_takes_the_remark_as_it_was_said(tmp_path: Path, answer: str) -> None:
    async with counting(tmp_path, "thirteen") as (there, _):
        await there.say(REMARK, 1.2)
        await there.rests()
        await there.say(answer)
        await there.rests()

        assert await messages(there) == [REMARK]
        assert Outcome("heard", REMARK, 0.9) in there.shown
        assert "thirteen" in there.spoken()


@pytest.mark.parametrize("answer", ["no", "no it wasn't", "no, I was just talking to the dog"])
async def test_a_no_goes_on_at_once_and_takes_nothing(tmp_path: Path, answer: str) -> None:
    async with counting(tmp_path) as (there, model):
        await there.say(REMARK, 1.2)
        await there.rests()
        await there.say(answer)
        assert outcomes(there)[-1] == "resumed"
        await there.rests()

        assert there.spoken().endswith(FOR_ME)  # no word of the answer is made anew
        assert there.room.sink.played == (12 + len(FOR_ME.split())) * WORD
        assert await messages(there) == []
        assert len(model.asked) == 1


async def test_other_words_are_taken_instead_of_the_remark(tmp_path: Path) -> None:
    async with counting(tmp_path, "thirteen") as (there, _):
        await there.say(REMARK, 1.2)
        await there.rests()
        await there.say("what comes after twelve?", 1.2)
        await there.rests()
        await there.say("yes")  # nothing is open any more that this could take
        await there.rests()

        assert await messages(there) == ["what comes after twelve?", "yes"]


async def test_no_and_what_is_wanted_instead_is_no_answer_to_it(tmp_path: Path) -> None:
    async with counting(tmp_path, "thirteen") as (there, _):
        await there.say(REMARK, 1.2)
        await there.rests()
        await there.say("no, just the headlines", 1.2)
        await there.rests()

        assert any("just the headlines" in text for text in await messages(there))


async def test_who_says_it_again_is_heard(tmp_path: Path) -> None:
    async with counting(tmp_path, "thirteen") as (there, _):
        await there.say(REMARK, 1.2)
        await there.rests()
        await there.say(REMARK, 1.2)
        await there.rests()

        assert await messages(there) == [REMARK]


async def test_a_yes_long_after_it_takes_nothing_that_nobody_answered(tmp_path: Path) -> None:
    async with counting(tmp_path, "thirteen") as (there, _):
        await there.say(REMARK, 1.2)
        await there.rests()
        await there.room.wait(5)
        await there.rests()
        await there.say("yes")
        await there.rests()

        assert await messages(there) == ["yes"]


async def test_what_is_said_over_a_question_is_an_answer_to_it(tmp_path: Path) -> None:
    @agent(converses=True)
    async def curious(run: Run) -> str:
        question = "Which name shall the folder have that I am about to make for you now?"
        answer = await run.ask(question, schema={"type": "string"})
        await run.say(str(answer.payload))
        return "made"

    async with talking(curious, folder=tmp_path) as there:
        await there.say("Make a folder")
        await there.hears(6)
        await there.say("Old invoices and receipts", 1.4)
        await there.rests()

        assert await there.said_by_agent() == ["Old invoices and receipts"]


async def test_of_who_hangs_up_in_the_midst_of_it_nothing_can_be_asked_and_it_is_a_message(
    tmp_path: Path,
) -> None:
    clerk, _ = speaker(TEXT)
    async with on_the_line(clerk, tmp_path) as (control, line):
        async with line() as there:
            await there.say("Count please")
            await there.hears(4)
            await there.room.hear(there.words.said("dinner's on the table", 1.2))

        texts = [one.text for one in await control.transcript(THREAD) if one.kind == "message"]
        assert len(texts) == 2
        assert texts[1].endswith("dinner's on the table")
