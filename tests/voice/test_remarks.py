"""Somebody remarks on what they hear: they are asked to say it again if it is for the agent."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import pytest

from midflight.agents import agent
from midflight.interfaces.voice.speech.speech_engines import RATE
from midflight.interfaces.voice.turn_actions import FOR_ME
from midflight.interfaces.voice.turn_table import Floor
from midflight.interfaces.voice.voice_wire import Outcome
from midflight.run import Run
from voice.studio import THREAD, WORD, PlainRecogniser, Scene, Words, on_the_line, talking
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


@pytest.mark.parametrize(
    "words", ["what comes after twelve?", "no, just the headlines", REMARK, "a bit odd, that"]
)
async def test_whatever_else_is_said_next_is_taken_also_if_it_is_the_remark_again(
    tmp_path: Path, words: str
) -> None:
    async with counting(tmp_path, "thirteen") as (there, _):
        await there.say(REMARK, 1.2)
        await there.rests()
        await there.say(words, 1.2)
        await there.rests()

        [text] = await messages(there)
        assert text in words


async def test_who_says_it_again_over_that_very_sentence_is_heard(tmp_path: Path) -> None:
    async with counting(tmp_path, "thirteen") as (there, _):
        await there.say(REMARK, 1.6)
        await there.say(REMARK, 1.6)
        await there.rests()

        assert await messages(there) == [REMARK]


@pytest.mark.parametrize(
    "words", ["no", "no thanks", "no, it wasn't", "not for you", "yes", "mm-hmm"]
)
async def test_who_says_no_to_that_or_only_assents_hears_it_on_and_has_said_nothing_else(
    tmp_path: Path, words: str
) -> None:
    async with counting(tmp_path) as (there, model):
        await there.say(REMARK, 1.2)
        await there.rests()
        await there.say(words, 0.6)
        assert outcomes(there)[-1] == "resumed"
        await there.rests()

        assert await there.said_by_agent() == [TEXT]
        assert await messages(there) == []
        assert len(model.asked) == 1


async def test_the_audit_counts_how_often_it_had_to_ask(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clerk, _ = speaker(TEXT)
    with caplog.at_level("INFO", "midflight.audit"):
        async with on_the_line(clerk, tmp_path) as (_, call), call() as there:
            await there.say("Count please", 0.8)
            await there.hears(4)
            await there.say(REMARK, 1.2)
            await there.rests()

    assert [vars(one).get("asked_again") for one in caplog.records][-1] == 1


async def test_who_holds_a_key_down_to_talk_says_it_to_the_agent(tmp_path: Path) -> None:
    async with counting(tmp_path, "thirteen") as (there, _):
        await there.line.press(down=True)
        await there.room.hear(there.words.said(REMARK, 1.2))
        await there.line.press(down=False)
        await there.rests()

        assert await messages(there) == [REMARK]


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


async def test_of_who_hangs_up_while_it_is_made_out_what_was_said_is_a_message(
    tmp_path: Path,
) -> None:
    clerk, _ = speaker(TEXT)
    words = Words()
    recogniser = PlainRecogniser(words)
    async with on_the_line(clerk, tmp_path, recogniser) as (control, line):
        async with line() as there:
            there.words = words
            await there.say("Count please")
            await there.hears(4)
            recogniser.thinks = partial(anyio.sleep, 0.3)
            await there.goes_by(words.said("dinner's on the table", 1.2) + bytes(32_000))
            assert there.line.taking.floor is Floor.JUDGING

        texts = [one.text for one in await control.transcript(THREAD) if one.kind == "message"]
        assert texts[1:] == ["dinner's on the table"]


async def test_of_a_line_that_stands_still_in_the_midst_of_it_nobody_is_asked(
    tmp_path: Path,
) -> None:
    async with counting(tmp_path, "thirteen") as (there, _):
        await there.room.hear(there.words.said("dinner's on the table", 1.2))
        await there.line.hear(bytes(RATE), fed=True)
        await there.rests()

        [text] = await messages(there)
        assert text.endswith("dinner's on the table")
