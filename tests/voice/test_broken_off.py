"""An answer that its model does not end: what was heard of it is on record all the same."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from midflight.assistant import Profile, assistant
from midflight.journal.phases import Cause
from midflight.journal.record import Actor
from midflight.models.model import Prompt
from midflight.models.scripted import Line, ScriptedModel, say
from voice.studio import THREAD, WORD, Scene, talking
from voice.talkers import TEXT, thinking

pytestmark = pytest.mark.anyio
BOB = Actor("bob", channel="web")
HEARD = ("one two three four", "cut short")


async def told(there: Scene) -> list[tuple[str, str]]:
    lines = await there.control.transcript(THREAD)
    return [(line.text, line.status) for line in lines if line.kind.startswith("said: ")]


async def on_record(there: Scene) -> None:
    """Until the thread has something that was said; no sound passes before."""
    with anyio.fail_after(5):
        while not await told(there):  # noqa: ASYNC110 - the record is all there is
            await anyio.sleep(0.005)


async def test_who_takes_over_in_mid_sentence_ends_it_and_the_record_has_what_was_heard(
    tmp_path: Path,
) -> None:
    async with thinking(tmp_path, "thirteen") as (there, model, run):
        await there.control.take_over(run, who=BOB)
        await on_record(there)
        await there.rests()
        assert there.spoken().endswith("bob has taken over.")
        assert there.room.sink.played < (4 + 1 + 4) * WORD
        assert await told(there) == [HEARD]

        await there.control.hand_back(run, "", who=BOB)
        assert await there.room.until(lambda: "thirteen" in there.spoken())
        await there.rests()
        assert await told(there) == [HEARD, ("thirteen", "")]
        assert [asked.ended for asked in model.asked] == ["closed", "whole"]


async def test_work_that_is_parked_in_mid_sentence_falls_silent_and_the_record_has_what_was_heard(
    tmp_path: Path,
) -> None:
    never = anyio.Event()
    first = [say(f"{TEXT}. And then", pieces=9, until=never)]

    def answer(prompt: Prompt) -> Line:
        if "door" in prompt.turns[-1].text:
            return say("door checked")
        return first.pop() if first else say("thirteen")

    clerk = assistant("clerk", Profile(ScriptedModel(answer), actions=()), delegates=False)
    async with talking(clerk, folder=tmp_path) as there:
        await there.say("Count please")
        await there.hears(4)
        run = (await there.control.runs())[0].journal
        sent = await there.control.send(THREAD, "check the door", who=BOB)
        await there.control.overrule(THREAD, sent.position, "switch", who=BOB)
        await there.control.until(run, lambda state: Cause.PARKED in state.holds)
        await on_record(there)
        assert await there.room.until(lambda: "thirteen" in there.spoken())
        await there.rests()

        assert set(await told(there)) == {HEARD, ("door checked", ""), ("thirteen", "")}


async def test_an_answer_that_breaks_off_and_is_given_anew_is_on_record_as_often_as_it_was_heard(
    tmp_path: Path,
) -> None:
    whole, breaks = "one two three four. five six seven eight.", anyio.Event()
    broken = say(whole, piece=20, pieces=1, until=breaks, error=ConnectionError("gone"))
    lines = iter([broken, say(whole)])
    model = ScriptedModel(lambda _: next(lines))
    clerk = assistant("clerk", Profile(model, actions=()), delegates=False)
    async with talking(clerk, folder=tmp_path) as there:
        await there.say("Count please")
        await there.hears(3)
        breaks.set()
        with anyio.fail_after(20):  # it is asked again after a while
            while "eight" not in there.spoken():
                await there.passes(0.1)
                await anyio.sleep(0.05)
        await there.rests()

        [(heard, cut), again] = await told(there)
        assert heard.startswith("one two three")
        assert (cut, again) == ("cut short", (whole, ""))
