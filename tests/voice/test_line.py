"""A conversation by voice: the three controls, interruptions, and faults on every seam."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from midflight.assistant import Profile, Rules, assistant
from midflight.kernel.phases import Cause, Phase
from midflight.kernel.record import Who
from midflight.models.base import Prompt
from midflight.models.scripted import Line as Scripted
from midflight.models.scripted import ScriptedModel, call, say
from midflight.run import Agent, Run, agent
from midflight.tools.base import tool
from midflight.voice.line import CANNOT_HEAR, SORRY
from midflight.voice.seams import Heard, SpeechFailed
from midflight.voice.shown import Did, Outcome, Trouble
from midflight.voice.taking import Floor
from voice.studio import THREAD, WORD, PlainRecogniser, PlainSynthesiser, Words, talking

pytestmark = pytest.mark.anyio
TEXT = "one two three four five six seven eight nine ten eleven twelve"


def speaker(*texts: str) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel([say(text) for text in texts])
    return assistant("clerk", Profile(model, actions=()), delegates=False), model


async def test_an_assent_does_not_derail_and_speech_goes_on_at_the_same_sample(
    tmp_path: Path,
) -> None:
    clerk, model = speaker(TEXT)
    async with talking(clerk, folder=tmp_path) as there:
        await there.say("Count please")
        await there.hears(4)
        await there.say("yeah", 0.4)
        assert there.line.taking.floor is Floor.SPEAKING
        await there.rests()

        assert there.room.sink.played == 12 * WORD
        assert await there.said_by_agent() == [TEXT]
        assert len(model.asked) == 1


async def test_an_interruption_leaves_what_was_heard_and_begins_the_next_run_with_it(
    tmp_path: Path,
) -> None:
    clerk, model = speaker(TEXT, "thirteen")
    async with talking(clerk, folder=tmp_path) as there:
        await there.say("Count please")
        await there.hears(4)
        await there.say("What comes after twelve")
        await there.rests()

        heard = (await there.said_by_agent())[0]
        assert heard == "one two three four"
        told = [turn.text for turn in model.prompts[1].turns]
        assert told[1].startswith("one two three four [The person has cut you short here")
        assert told[2] == "What comes after twelve"


async def test_while_the_model_still_speaks_its_stream_is_aborted_and_it_learns_what_was_heard(
    tmp_path: Path,
) -> None:
    never = anyio.Event()
    lines = iter([say(f"{TEXT}. And then", pieces=9, until=never), say("thirteen")])
    model = ScriptedModel(lambda _: next(lines))
    clerk = assistant("clerk", Profile(model, actions=()), delegates=False)
    async with talking(clerk, folder=tmp_path) as there:
        await there.say("Count please")
        await there.hears(4)
        await there.say("No, only what comes after twelve")
        await there.rests()

        assert [asked.ended for asked in model.asked] == ["closed", "whole"]
        last = model.prompts[1].turns[-1].text
        assert "only what comes after twelve" in last
        assert "they had heard: “one two three four”" in last
        assert await there.said_by_agent() == ["one two three four", "thirteen"]


async def test_wait_pauses_before_any_model_is_asked_and_go_on_brings_both_back(
    tmp_path: Path,
) -> None:
    clerk, model = speaker(TEXT)
    async with talking(clerk, folder=tmp_path) as there:
        await there.say("Count please")
        await there.hears(4)
        await there.say("Wait")
        held_at = there.room.sink.played
        await there.room.wait(3)
        assert there.room.sink.played == held_at
        await there.say("Go on")
        await there.rests()

        assert there.room.sink.played == 12 * WORD
        assert len(model.asked) == 1
        assert await there.said_by_agent() == [TEXT]


@agent(converses=True)
async def worker(run: Run) -> str:
    await run.step("Work", _work)
    return "worked"


async def _work() -> None:
    await anyio.sleep(30)


async def test_what_the_agent_has_to_say_waits_while_somebody_speaks(tmp_path: Path) -> None:
    clerk, _ = speaker(TEXT, TEXT)
    async with talking(clerk, folder=tmp_path) as there:
        spoken = there.words.said("And another thing that I wanted to say", 3.0)
        await there.room.hear(spoken[: len(spoken) // 2])
        await there.control.start(clerk, "Count", thread=THREAD, who=Who("bob"))
        await there.room.hear(spoken[len(spoken) // 2 :])

        assert there.room.sink.played == 0
        assert await there.room.until(lambda: there.room.sink.played > WORD)


async def test_stop_pauses_and_asks_and_only_yes_cancels(tmp_path: Path) -> None:
    async with talking(worker, folder=tmp_path) as there:
        await there.say("Begin the work")
        front = (await there.control.runs())[0].journal
        await there.control.until(front, lambda state: bool(state.open) or state.head > 3)

        await there.say("Stop")
        await there.room.wait(3)
        assert Cause.USER in (await there.control.state(front)).holds
        assert (await there.control.state(front)).alive
        await there.say("Yes")
        state = await there.control.ended(front)

        assert state.phase is Phase.CANCELLED


async def test_no_after_stop_lets_it_go_on(tmp_path: Path) -> None:
    async with talking(worker, folder=tmp_path) as there:
        await there.say("Begin the work")
        front = (await there.control.runs())[0].journal
        await there.say("Stop it")
        await there.room.wait(3)
        await there.say("No")
        state = await there.control.until(front, lambda state: not state.holds)

        assert state.phase in {Phase.RUNNING, Phase.QUEUED}


async def test_low_confidence_asks_again_instead_of_acting_and_silence_goes_on(
    tmp_path: Path,
) -> None:
    clerk, model = speaker(TEXT)
    async with talking(clerk, folder=tmp_path) as there:
        await there.say("Count please")
        await there.hears(4)
        await there.say("Water pout sherman hey", confidence=0.4)
        assert there.of(Outcome)[-1] == Outcome("asked again", "Water pout sherman hey", 0.4)
        await there.rests()
        await there.room.wait(5)
        await there.rests()

        assert there.room.sink.played == (12 + len(SORRY.split())) * WORD
        assert len(model.asked) == 1
        assert await there.said_by_agent() == [TEXT]


async def test_an_order_in_flight_is_placed_once_and_its_result_is_known_afterwards(
    tmp_path: Path,
) -> None:
    """livekit/agents#3702: an interruption lost a tool's result, and the order was placed twice."""
    placed: list[str] = []
    begun, goes_on = anyio.Event(), anyio.Event()

    @tool(effect="once", name="place_order")
    async def place_order(item: str) -> str:
        placed.append(item)
        begun.set()
        await goes_on.wait()
        return f"order 7 placed: {item}"

    def answer(prompt: Prompt) -> Scripted:
        if any(turn.role == "tool" for turn in prompt.turns):
            return say("Order seven is placed, and in blue.")
        return call("place_order", item="a chair")

    model = ScriptedModel(answer)
    clerk = assistant("clerk", Profile(model, [place_order], actions=()), delegates=False)
    async with talking(clerk, folder=tmp_path) as there:
        await there.say("Order a chair")
        with anyio.fail_after(10):
            await begun.wait()
        await there.say("No, make it blue please")
        goes_on.set()
        await there.room.until(lambda: len(model.asked) == 2)
        await there.rests()

        assert placed == ["a chair"]
        results = [turn.text for turn in model.prompts[1].turns if turn.role == "tool"]
        assert results == ["order 7 placed: a chair"]
        assert "make it blue please" in model.prompts[1].turns[-1].text


async def test_what_a_policy_forbids_is_never_spoken(tmp_path: Path) -> None:
    model = ScriptedModel([say("Her number is one two. The secret word is swordfish. Good bye.")])
    rules = Rules(words=["swordfish"])
    clerk = assistant("clerk", Profile(model, actions=(), policy=rules), delegates=False)
    voice = PlainSynthesiser()
    async with talking(clerk, folder=tmp_path, synthesiser=voice) as there:
        await there.say("Tell me")
        await there.rests()

        spoken = " ".join(voice.asked)
        assert "Her number" in spoken
        assert "swordfish" not in spoken
        assert "Good bye" not in spoken
        assert "that is not said here" in spoken


async def test_another_strategy_is_a_word_away(tmp_path: Path) -> None:
    long, short = ScriptedModel([say(TEXT)]), ScriptedModel([say("twelve")])
    profiles = Profile(long, actions=()), Profile(short, actions=(), name="brief")
    clerk = assistant("clerk", *profiles, delegates=False)
    async with talking(clerk, folder=tmp_path) as there:
        await there.say("Count please")
        await there.hears(3)
        await there.say("Be brief")
        await there.rests()

        assert len(short.asked) == 1
        assert (await there.said_by_agent())[-1] == "twelve"


async def test_a_person_takes_over_speaks_to_the_caller_and_hands_back(tmp_path: Path) -> None:
    voice, bob = PlainSynthesiser(), Who("bob", channel="web")
    async with talking(worker, folder=tmp_path, synthesiser=voice) as there:
        await there.say("Begin the work")
        front = (await there.control.runs())[0].journal
        await there.say("I want to talk to a human")
        assert Cause.HUMAN in (await there.control.state(front)).holds
        await there.control.send(THREAD, "Hello, this is Bob", who=bob)
        await there.rests()
        await there.control.hand_back(front, "They want it in blue", who=bob)
        await there.rests()

        spoken = "".join(voice.asked)
        assert "I am getting a person." in spoken
        assert "bob says: Hello, this is Bob" in spoken
        assert "bob has handed back: They want it in blue" in spoken
        assert Cause.HUMAN not in (await there.control.state(front)).holds


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


# ── faults, on every seam ────────────────────────────────────────────────────────────────────────


async def test_recognition_that_fails_once_is_tried_again_and_nobody_notices(
    tmp_path: Path,
) -> None:
    words, failures = Words(), iter([SpeechFailed("plain", "has hiccups")])
    recogniser = PlainRecogniser(words)

    def hiccup() -> None:
        for failure in failures:
            raise failure

    recogniser.before = hiccup
    clerk, model = speaker(TEXT)
    async with talking(clerk, folder=tmp_path, recogniser=recogniser, words=words) as there:
        await there.say("Count please")
        await there.rests()

        assert [turn.text for turn in model.prompts[0].turns] == ["Count please"]


async def test_dead_recognition_apologises_says_what_to_do_and_the_line_lives_on(
    tmp_path: Path,
) -> None:
    words = Words()
    recogniser = PlainRecogniser(words)

    def dead() -> None:
        raise SpeechFailed("plain", "is dead")

    recogniser.before = dead
    clerk, model = speaker(TEXT)
    voice = PlainSynthesiser()
    async with talking(
        clerk, folder=tmp_path, recogniser=recogniser, synthesiser=voice, words=words
    ) as there:
        await there.say("Count please")
        await there.rests()
        await there.say("Count please")
        await there.rests()
        assert there.of(Trouble) == [Trouble(CANNOT_HEAR)]
        assert " ".join(voice.asked).endswith("Please write instead.")
        recogniser.before = lambda: None
        await there.room.wait(5)
        await there.say("Count please")
        await there.rests()

        assert len(model.asked) == 1


async def test_a_recogniser_that_gives_garbage_is_asked_about_and_acts_on_nothing(
    tmp_path: Path,
) -> None:
    clerk, model = speaker(TEXT)
    async with talking(clerk, folder=tmp_path) as there:
        await there.say("\x00\x01 ¿¿ zzzz", confidence=0.02)
        await there.say("", 1.5, confidence=0.99 * 0)
        await there.rests()

        assert {shown.outcome for shown in there.of(Outcome)} == {"asked again"}  # type: ignore[union-attr]
        assert model.asked == []


async def test_a_slow_recogniser_keeps_us_silent_and_then_does_as_told(tmp_path: Path) -> None:
    words = Words()
    recogniser = PlainRecogniser(words)
    recogniser.slow_s = 0.3
    clerk, _ = speaker(TEXT)
    async with talking(clerk, folder=tmp_path, recogniser=recogniser, words=words) as there:
        await there.say("Count please")
        await there.hears(3)
        await there.say("yeah", 0.4)
        await there.rests()

        assert there.room.sink.played == 12 * WORD


async def test_a_broken_ear_listens_to_loudness_instead_and_says_so(tmp_path: Path) -> None:
    class Broken:
        def hear(self, frame: bytes) -> float:
            return float("nan")

        def forget(self) -> None:
            pass

    clerk, model = speaker(TEXT)
    async with talking(clerk, folder=tmp_path, vad=Broken) as there:
        await there.say("Count please")
        await there.rests()

        assert len(model.asked) == 1
        assert "no likelihood" in str(there.of(Trouble)[0])


async def test_a_dead_voice_shows_its_words_and_the_transcript_has_them(tmp_path: Path) -> None:
    voice = PlainSynthesiser()
    voice.fails_after = 0
    clerk, _ = speaker(TEXT)
    async with talking(clerk, folder=tmp_path, synthesiser=voice) as there:
        await there.say("Count please")
        await there.rests()

        assert [shown.instead for shown in there.of(Trouble)] == [TEXT]  # type: ignore[union-attr]
        assert await there.said_by_agent() == [TEXT]


async def test_who_may_only_look_is_told_so_and_nothing_is_changed(tmp_path: Path) -> None:
    from midflight.kernel.phases import Role

    viewer = Who("eve", Role.VIEWER, "voice")
    async with talking(worker, folder=tmp_path, who=viewer) as there:
        run = await there.control.start(worker, "Work", thread=THREAD)
        await there.room.wait(0.5)
        await there.say("Wait")

        assert not (await there.control.state(run)).holds
        assert "eve" in str(there.of(Did)[-1])


async def test_hanging_up_cancels_nothing(tmp_path: Path) -> None:
    async with talking(worker, folder=tmp_path) as there:
        await there.say("Begin the work")
        control = there.control
        front = (await control.runs())[0].journal
        there.line._tasks.cancel_scope.cancel()
        await anyio.sleep(0.05)

        assert (await control.state(front)).alive


def test_nothing_heard_is_never_sure() -> None:
    assert Heard("", 0.0).confidence == 0.0
