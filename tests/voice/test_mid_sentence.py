"""What happens in the midst of a sentence: a policy ends it, or somebody speaks during an order."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from midflight.assistant import Profile, Rules, assistant
from midflight.interfaces.voice.room import RoomSink
from midflight.interfaces.voice.voice_wire import Did, Outcome, Saying
from midflight.models.scripted import ScriptedModel, say
from voice.studio import THREAD, WORD, Scene, talking
from voice.talkers import TEXT, Shop, thinking

pytestmark = pytest.mark.anyio
CARD = "The card is one two three four five six seven eight. It ends with "
STOPPED = "[Stopped here: a rule is against these words.]"


class Clerk:
    """Reads out a card whose last word nobody may say; waits before that word."""

    def __init__(self) -> None:
        self.goes_on = anyio.Event()
        line = say(CARD + "swordfish.", piece=len(CARD), pieces=1, until=self.goes_on)
        rules = Rules(words=["swordfish"])
        self.model = ScriptedModel([line, say("Good bye.")])
        profile = Profile(self.model, actions=(), policy=rules)
        self.agent = assistant("clerk", profile, delegates=False)

    async def comes_to_it(self, sink: RoomSink) -> None:
        """The model says the word, and no sample is played before the policy is obeyed."""
        before = len(sink.cuts)
        self.goes_on.set()
        with anyio.fail_after(10):
            while len(sink.cuts) == before:  # noqa: ASYNC110 - a loudspeaker tells nobody
                await anyio.sleep(0.005)


async def lines_in(there: Scene) -> list[tuple[str, str]]:
    told = await there.control.transcript(THREAD)
    return [(line.text, line.status) for line in told if line.kind == "said: text"]


async def test_a_policy_ends_speech_in_the_midst_of_a_sentence_and_what_was_heard_is_kept(
    tmp_path: Path,
) -> None:
    clerk, sink = Clerk(), RoomSink()
    async with talking(clerk.agent, folder=tmp_path, sink=sink) as there:
        await there.say("Tell me the card")
        await there.hears(5)
        heard_to = sink.played
        await clerk.comes_to_it(sink)

        assert sink.cuts[-1] == heard_to < 11 * WORD
        await there.rests()
        assert there.spoken().endswith("Stopped here: a rule is against these words.")
        assert sink.played == heard_to + 8 * WORD
        assert await lines_in(there) == [(f"The card is one two {STOPPED}", "cut short")]
        assert Saying("The card is one two", cut=True) in there.shown


async def test_what_a_policy_has_ended_is_not_brought_back_by_go_on(tmp_path: Path) -> None:
    clerk, sink = Clerk(), RoomSink()
    async with talking(clerk.agent, folder=tmp_path, sink=sink) as there:
        await there.say("Tell me the card")
        await there.hears(5)
        await there.goes_by(there.words.said("mumbled", 1.2, confidence=0.3))
        clerk.goes_on.set()
        with anyio.fail_after(10):
            while not await lines_in(there):  # noqa: ASYNC110 - the record is all there is
                await anyio.sleep(0.005)
        await there.room.wait(6)
        await there.rests()

        outcomes = [one.outcome for one in there.shown if isinstance(one, Outcome)]
        assert outcomes[-2:] == ["asked again", "resumed"]
        assert "swordfish" not in there.spoken()
        [(text, status)] = await lines_in(there)
        assert text.startswith("The card is one two")
        assert text.endswith(STOPPED)
        assert "eight" not in text
        assert status == "cut short"


async def test_the_model_is_told_of_no_more_than_was_heard_before_the_policy(
    tmp_path: Path,
) -> None:
    clerk, sink = Clerk(), RoomSink()
    async with talking(clerk.agent, folder=tmp_path, sink=sink) as there:
        await there.say("Tell me the card")
        await there.hears(5)
        await clerk.comes_to_it(sink)
        await there.rests()
        await there.say("Thank you, that will do for today")
        await there.rests()

        told = " ".join(turn.text for turn in clerk.model.prompts[1].turns)
        assert f"The card is one two {STOPPED}" in told
        assert "three" not in told


async def test_plain_words_over_speech_leave_an_order_in_flight_and_its_result_is_known(
    tmp_path: Path,
) -> None:
    """Neither a control nor a redirect by its words: somebody just says something meanwhile."""
    shop = Shop("I order it now, and it takes a moment, so please stay on the line with me. ")
    async with talking(shop.clerk, folder=tmp_path) as there:
        await there.say("Order a chair")
        with anyio.fail_after(10):
            await shop.begun.wait()
        await there.hears(4)
        await there.say("The blue one would suit me best")
        assert Outcome("interrupted") in there.shown
        shop.goes_on.set()
        assert await there.room.until(lambda: len(shop.model.asked) >= 2)
        await there.rests()

        assert shop.placed == ["a chair"]
        assert shop.results() == ["order 7 placed: a chair"]
        turns = shop.model.prompts[1].turns
        assert any("The blue one would suit me best" in turn.text for turn in turns)


@pytest.mark.parametrize("words", ["No, that's fine", "Sorry, I was on mute"])
async def test_who_asks_for_nothing_in_the_midst_of_an_answer_hears_it_on_and_is_written_down(
    tmp_path: Path, words: str
) -> None:
    async with thinking(tmp_path, "thirteen") as (there, model, run):
        brief = (await there.control.state(run)).brief
        await there.say(words, 0.9)
        await there.hears(12)

        assert there.of(Did)[-1] == Did("say", "")
        assert (await there.control.state(run)).brief == brief
        assert len(model.asked) == 1
        assert there.spoken().split(".")[0] == TEXT  # and no word of it twice
        lines = await there.control.transcript(THREAD)
        assert words in [line.text for line in lines if line.kind == "message"]
        assert not [line for line in lines if line.status == "cut short"]


async def test_who_says_cool_it_in_the_midst_of_an_answer_is_obeyed(tmp_path: Path) -> None:
    async with thinking(tmp_path, "thirteen") as (there, _, run):
        await there.say("No, cool it", 0.9)
        await there.rests()

        assert there.of(Did)[-1] == Did("redirect", "")
        assert (await there.control.state(run)).brief.startswith("cool it")
        assert there.spoken().endswith("thirteen")
