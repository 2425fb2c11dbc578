"""Words at odd moments: as a question ends, after it was asked to say it again, as others begin."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from midflight.agents import agent
from midflight.interfaces.voice.spoken_verbs import BROKEN_OFF
from midflight.interfaces.voice.turn_actions import SORRY
from midflight.interfaces.voice.turn_table import Floor
from midflight.run import Run
from voice.studio import THREAD, WORD, on_the_line, talking
from voice.talkers import TEXT, Shop, counting, speaker

pytestmark = pytest.mark.anyio
MAY_I = "May I send the memo to all of the board?"


@agent(converses=True)
async def careful(run: Run) -> str:
    approval = await run.approve(MAY_I)
    await run.say(f"It was {approval.decision}d.")
    return "sent"


# ── as a question ends ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["Yes", "Okay", "Sure"])
async def test_an_answer_that_begins_with_the_questions_last_sample_is_one(
    tmp_path: Path, text: str
) -> None:
    async with talking(careful, folder=tmp_path) as there:
        await there.say("Send the memo")
        await there.hears(len(MAY_I.split()))
        await there.say(text)
        await there.rests()

        assert await there.said_by_agent() == ["It was approved."]


async def test_an_assent_with_the_last_sample_of_a_report_is_nothing_to_go_on_with(
    tmp_path: Path,
) -> None:
    async with counting(tmp_path) as (there, _):
        await there.hears(12)
        await there.say("Okay", 0.4)
        await there.rests()

        assert there.line.taking.floor is Floor.QUIET
        assert "cut short" not in [x.status for x in await there.control.transcript(THREAD)]


# ── when they were asked to say it again ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("after_s", [0.2, 1.5], ids=["over it", "after it"])
async def test_a_yes_that_is_said_again_as_was_asked_for_answers_the_question(
    tmp_path: Path, after_s: float
) -> None:
    async with talking(careful, folder=tmp_path) as there:
        await there.say("Send the memo")
        await there.hears(6)
        await there.room.hear(there.words.said("yesh", 0.4, confidence=0.5))
        assert await there.room.until(lambda: SORRY in there.spoken())
        await there.room.wait(after_s)
        await there.say("Yes", 0.4)
        await there.rests()

        assert await there.said_by_agent() == ["It was approved."]


# ── when the line ends in the middle of something ────────────────────────────────────────────────


async def test_who_hangs_up_in_mid_word_while_an_order_is_in_flight_has_placed_it_once(
    tmp_path: Path,
) -> None:
    shop = Shop()
    async with on_the_line(shop.clerk, tmp_path) as (control, call):
        async with call() as there:
            await there.say("Order a chair")
            with anyio.fail_after(20):
                await shop.begun.wait()
            await there.room.hear(there.words.said("And tell me about", 0.3))
        shop.goes_on.set()
        first = (await control.runs())[-1].journal
        await control.ended(first)

        assert shop.placed == ["a chair"]
        assert shop.results() == ["order 7 placed: a chair"]
        lines = [(line.kind, line.text) for line in await control.transcript(THREAD)]
        assert ("message", BROKEN_OFF + "And tell me about") in lines


async def test_who_calls_again_is_not_told_again_what_was_said_before(tmp_path: Path) -> None:
    clerk, _ = speaker(TEXT, "thirteen")
    async with on_the_line(clerk, tmp_path) as (_, call):
        async with call() as there:
            await there.say("Count please")
            await there.hears(4)
        async with call() as there:
            before = there.spoken()
            await there.rests()
            assert there.spoken() == before
            await there.say("And what comes then")
            await there.rests()

            assert there.spoken() == f"{before} thirteen"


async def test_a_key_that_is_pressed_while_it_speaks_holds_it_and_let_go_unused_goes_on(
    tmp_path: Path,
) -> None:
    async with counting(tmp_path) as (there, _):
        await there.line.press(down=True)
        held = there.room.sink.played
        await there.room.wait(0.1)
        assert (there.line.taking.floor, there.room.sink.played) == (Floor.HELD, held)
        await there.line.press(down=False)
        await there.rests()

        assert there.room.sink.played == 12 * WORD
