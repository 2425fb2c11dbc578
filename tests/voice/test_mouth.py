"""Speech is held, goes on at the same sample, is put aside, and is known to the sample."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from midflight.interfaces.voice.room import RoomSink
from midflight.interfaces.voice.speech.agenda import Clause, Question
from midflight.interfaces.voice.speech.fallback import AnySynthesiser
from midflight.interfaces.voice.speech.mouth import Mouth
from midflight.interfaces.voice.speech.playback import Making
from midflight.interfaces.voice.speech.speech_engines import SpeechFailed
from voice.studio import WORD, PlainSynthesiser

pytestmark = pytest.mark.anyio
TEXT = "one two three four five six seven eight nine ten"


class Stage:
    def __init__(self, mouth: Mouth, sink: RoomSink, shown: list[str]) -> None:
        self.mouth, self.sink, self.shown = mouth, sink, shown

    async def plays(self, words: float) -> None:
        """Let so many words' time pass, in small steps, while the mouth works."""
        for _ in range(int(words * 10)):
            with anyio.fail_after(20):
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
            self.mouth.stir()
            self.sink.pass_time(WORD // 10)
        self.mouth.stir()


@asynccontextmanager
async def stage(synthesiser: PlainSynthesiser | AnySynthesiser) -> AsyncIterator[Stage]:
    sink, shown = RoomSink(), list[str]()
    mouth = Mouth(sink, synthesiser, lambda text, _: shown.append(text))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(mouth.run)
        yield Stage(mouth, sink, shown)
        tasks.cancel_scope.cancel()


def without_silence(track: bytes | bytearray) -> bytes:
    return b"".join(
        bytes(track[n : n + 2]) for n in range(0, len(track), 2) if track[n : n + 2] != b"\0\0"
    )


async def test_what_is_said_while_nobody_interrupts_is_played_whole() -> None:
    async with stage(PlainSynthesiser()) as there:
        said = there.mouth.say(TEXT)
        await there.plays(12)

        assert said.heard == TEXT
        assert not there.mouth.is_busy


async def test_speech_goes_on_at_the_very_next_sample_after_a_hold() -> None:
    async with stage(PlainSynthesiser()) as there:
        there.mouth.say(TEXT)
        await there.plays(3.7)
        await there.mouth.hold()
        held_at = there.sink.played
        await there.plays(5)
        assert there.sink.played == held_at
        await there.mouth.go_on()
        await there.plays(12)

    async with stage(PlainSynthesiser()) as undisturbed:
        undisturbed.mouth.say(TEXT)
        await undisturbed.plays(12)

    assert without_silence(there.sink.track) == without_silence(undisturbed.sink.track)


async def test_speech_that_was_put_aside_for_a_question_goes_on_at_the_same_sample() -> None:
    async with stage(PlainSynthesiser()) as there:
        said = there.mouth.say(TEXT)
        await there.plays(3.7)
        await there.mouth.put_aside()
        aside_at = there.sink.played
        there.mouth.say("sorry what", fleeting=True)
        await there.plays(4)
        assert there.sink.played == aside_at + 2 * WORD
        await there.mouth.go_on()
        await there.plays(12)

        assert said.heard == TEXT
        assert there.sink.played == 12 * WORD


async def test_what_was_heard_is_known_when_it_is_dropped() -> None:
    async with stage(PlainSynthesiser()) as there:
        there.mouth.say(TEXT, run="r-1", of=4)
        there.mouth.say("never begun", run="r-1", of=5)
        await there.plays(3.7)
        await there.mouth.put_aside()

        dropped = there.mouth.give_up()

        assert [(said.heard, said.of) for said in dropped] == [("one two three four", 4), ("", 5)]


async def test_text_that_still_grows_is_spoken_by_the_sentence() -> None:
    async with stage(PlainSynthesiser()) as there:
        said = there.mouth.say("One two. Thr", ended=False)
        await there.plays(4)
        assert there.sink.played == 2 * WORD
        there.mouth.add(said, "ee four.", ended=True)
        await there.plays(4)

        assert said.heard == "One two. Three four."


async def test_a_voice_that_breaks_is_tried_again_and_then_the_text_is_shown() -> None:
    broken = PlainSynthesiser()
    broken.fails_after = 0
    async with stage(AnySynthesiser(broken)) as there:
        said = there.mouth.say("can you hear me")
        await there.plays(3)

        assert there.shown == ["can you hear me"]
        assert len(broken.asked) == 2
        assert said.is_heard


async def test_another_voice_speaks_where_the_first_cannot() -> None:
    broken, other = PlainSynthesiser(), PlainSynthesiser()
    broken.fails_after = 0
    async with stage(AnySynthesiser(broken, other)) as there:
        said = there.mouth.say("can you hear me")
        await there.plays(6)

        assert (said.heard, there.shown) == ("can you hear me", [])


async def test_a_voice_that_stalls_again_and_again_ends_in_text_and_the_next_one_is_spoken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.speech.fallback.NEXT_S", 0.05)
    stalling = PlainSynthesiser()
    stalling.stalls_after = 2
    async with stage(AnySynthesiser(stalling)) as there:
        there.mouth.say("one two three four.")
        with anyio.fail_after(20):
            while not there.shown:  # however late the machine sees that both tries are over
                await there.plays(1)
                await anyio.sleep(0.01)
        stalling.stalls_after = None
        later = there.mouth.say("still here")
        await there.plays(4)

        assert there.shown == ["one two three four."]
        asked = ["one two three four.", "two three four.", "still here"]
        assert stalling.asked == asked  # what was heard to its end is not heard twice
        assert later.heard == "still here"


async def test_an_engine_that_fails_says_which_and_why() -> None:
    broken = PlainSynthesiser()
    broken.fails_after = 0

    with pytest.raises(SpeechFailed, match="plain has broken"):
        async for _ in AnySynthesiser(broken).speak("hello"):
            pass


async def test_what_a_run_says_later_comes_after_what_is_put_aside_and_our_own_words_do_not() -> (
    None
):
    voice = PlainSynthesiser()
    async with stage(voice) as there:
        there.mouth.say(TEXT, run="r-1", of=4)
        await there.plays(3.7)
        await there.mouth.put_aside()
        there.mouth.say("later words", run="r-1", of=5)
        there.mouth.say("may I", about=Question("r-1", 6))
        there.mouth.say("sorry what", fleeting=True)
        await there.plays(6)
        assert voice.asked == [TEXT, "may I", "sorry what"]
        assert [said.about for said in there.mouth.agenda.asked] == [Question("r-1", 6)]
        await there.mouth.go_on()
        await there.plays(12)

        assert voice.asked == [TEXT, "may I", "sorry what", "later words"]
        assert there.sink.played == (10 + 2 + 2 + 2) * WORD


async def test_what_came_since_is_said_when_the_rest_is_given_up() -> None:
    async with stage(PlainSynthesiser()) as there:
        there.mouth.say(TEXT, run="r-1", of=4)
        await there.plays(3.7)
        await there.mouth.put_aside()
        later = there.mouth.say("later words", run="r-2", of=5)

        assert [said.of for said in there.mouth.give_up()] == [4]
        await there.plays(4)
        assert later.is_heard


async def test_what_came_late_was_interrupted_like_others_once_it_is_being_said() -> None:
    async with stage(PlainSynthesiser()) as there:
        there.mouth.say("one two", run="r-1", of=4)
        await there.plays(1)
        await there.mouth.put_aside()
        there.mouth.say(TEXT, run="r-1", of=5)
        await there.mouth.go_on()
        await there.plays(4)
        await there.mouth.put_aside()

        assert [said.of for said in there.mouth.give_up()] == [5]
        assert not there.mouth.is_busy


async def test_a_question_that_has_hardly_begun_is_not_asked_yet_and_begins_anew() -> None:
    async with stage(PlainSynthesiser()) as there:
        asked = there.mouth.say("may I wire the money to them", about=Question("r-1", 6))
        await there.plays(2)
        await there.mouth.put_aside()
        assert not there.mouth.agenda.asked
        assert there.mouth.give_up() == []
        await there.plays(10)

        assert [said.about for said in there.mouth.agenda.asked] == [Question("r-1", 6)]
        assert (asked.heard, there.sink.played) == (asked.text, 9 * WORD)


async def test_what_is_kept_is_not_brought_back_with_the_rest() -> None:
    async with stage(PlainSynthesiser()) as there:
        said = there.mouth.say(TEXT, run="r-1", of=4)
        await there.plays(3.7)
        await there.mouth.keep("r-1")
        await there.mouth.go_on()
        await there.plays(4)
        assert (said.heard, there.mouth.is_busy) == ("one two three four", False)
        there.mouth.release("r-1")
        await there.mouth.go_on()
        await there.plays(12)

        assert said.heard == TEXT


async def test_what_is_said_after_an_interruption_does_not_wait_for_speech_that_was_cut() -> None:
    voice = PlainSynthesiser()
    voice.stalls_after = 2
    async with stage(AnySynthesiser(voice)) as there:
        cut = there.mouth.say(TEXT, run="r-1")
        await there.plays(1)
        await there.mouth.put_aside()
        voice.stalls_after = None
        there.mouth.say("sorry what", fleeting=True)
        await there.plays(3)

        assert there.sink.played == 3 * WORD
        assert voice.asked == [TEXT, "sorry what"]
        assert (cut.heard, there.mouth.is_making) == ("one", True)


async def test_a_voice_that_stalls_is_not_asked_again_for_what_was_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.speech.fallback.NEXT_S", 0.2)
    voice = PlainSynthesiser()
    voice.stalls_after = 2
    async with stage(AnySynthesiser(voice)) as there:
        there.mouth.say(TEXT, run="r-1")
        await there.plays(1)
        await there.mouth.put_aside()
        there.mouth.give_up()
        await anyio.sleep(0.6)

        assert not there.mouth.is_making
        assert (voice.asked, there.shown) == ([TEXT], [])


async def test_what_could_not_be_spoken_while_it_was_put_aside_is_shown_when_it_is_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.speech.fallback.NEXT_S", 0.05)
    voice = PlainSynthesiser()
    voice.stalls_after = 2
    async with stage(AnySynthesiser(voice)) as there:
        said = there.mouth.say(TEXT, run="r-1")
        await there.plays(1)
        await there.mouth.put_aside()
        with anyio.fail_after(10):
            while there.mouth.is_making:  # noqa: ASYNC110 - it is made by others
                await anyio.sleep(0.02)
        assert there.shown == []
        await there.mouth.go_on()
        await there.plays(4)

        assert there.shown == [TEXT]
        assert said.is_heard


async def test_speech_that_was_dropped_half_made_is_made_anew_if_it_is_said_after_all() -> None:
    voice, clause = PlainSynthesiser(), Clause("one two three")
    making = Making(voice, lambda: None)
    voice.stalls_after = 2
    async with anyio.create_task_group() as tasks:
        making.begin(clause, tasks)
        while clause.samples < 2 * WORD:
            await anyio.lowlevel.checkpoint()
        making.drop_all_but(())
    assert (clause.made, len(clause.marks)) == (False, 2)  # the record may still ask for them
    voice.stalls_after = None
    async with anyio.create_task_group() as tasks:
        making.begin(clause, tasks)

    assert (clause.made, clause.samples, len(clause.marks)) == (True, 3 * WORD, 3)
