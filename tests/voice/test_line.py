"""A conversation by voice: the three controls, interruptions, questions, and hanging up."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from typing_extensions import override

from midflight.assistant import Profile, Rules, assistant
from midflight.interfaces.voice.call_record import Moment
from midflight.interfaces.voice.lexicon import Act, meaning
from midflight.interfaces.voice.room import RoomSink
from midflight.interfaces.voice.speech.speech_engines import Heard
from midflight.interfaces.voice.spoken_verbs import WITH_A_PERSON, YES_OR_NO
from midflight.interfaces.voice.turn_actions import SORRY
from midflight.interfaces.voice.turn_table import Floor
from midflight.interfaces.voice.voice_wire import Did, Handed, Outcome
from midflight.journal.phases import Cause, Phase
from midflight.journal.record import Actor
from midflight.models.scripted import ScriptedModel, say
from voice.studio import (
    THREAD,
    WORD,
    PlainRecogniser,
    PlainSynthesiser,
    Words,
    on_the_line,
    talking,
)
from voice.talkers import TEXT, Shop, counting, speaker, thinking, worker

pytestmark = pytest.mark.anyio


async def test_an_assent_does_not_derail_and_speech_goes_on_at_the_same_sample(
    tmp_path: Path,
) -> None:
    async with counting(tmp_path) as (there, model):
        await there.say("yeah", 0.4)
        assert there.line.taking.floor is Floor.SPEAKING
        await there.rests()

        assert there.room.sink.played == 12 * WORD
        assert await there.said_by_agent() == [TEXT]
        assert len(model.asked) == 1


async def test_an_interruption_leaves_what_was_heard_and_begins_the_next_run_with_it(
    tmp_path: Path,
) -> None:
    async with counting(tmp_path, "thirteen") as (there, model):
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
    async with thinking(tmp_path, "thirteen") as (there, model, _):
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
    async with counting(tmp_path) as (there, model):
        await there.say("Wait")
        held_at = there.room.sink.played
        await there.room.wait(3)
        assert there.room.sink.played == held_at
        await there.say("Go on")
        await there.rests()

        assert there.room.sink.played == 12 * WORD
        assert len(model.asked) == 1
        assert await there.said_by_agent() == [TEXT]


async def test_what_the_agent_has_to_say_waits_while_somebody_speaks(tmp_path: Path) -> None:
    clerk, _ = speaker(TEXT, TEXT)
    async with talking(clerk, folder=tmp_path) as there:
        spoken = there.words.said("And another thing that I wanted to say", 3.0)
        await there.room.hear(spoken[: len(spoken) // 2])
        await there.control.start(clerk, "Count", thread=THREAD, who=Actor("bob"))
        with anyio.fail_after(10):
            while not there.line.mouth.is_busy:  # noqa: ASYNC110 - it comes by the store
                await anyio.sleep(0.01)
        await there.room.hear(spoken[len(spoken) // 2 :])

        assert there.line.mouth.is_busy  # it had something to say all the time
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


@pytest.mark.parametrize("polite", ["Okay", "Right", "Sure", "Yeah"])
async def test_a_polite_word_after_stop_keeps_it_paused_and_is_asked_again(
    tmp_path: Path, polite: str
) -> None:
    async with talking(worker, folder=tmp_path) as there:
        await there.say("Begin the work")
        front = (await there.control.runs())[0].journal
        await there.say("Stop")
        await there.room.wait(3)

        await there.say(polite)
        await there.rests()
        assert Cause.USER in (await there.control.state(front)).holds
        assert there.of(Did)[-1] == Did(Act.SAY, YES_OR_NO)
        assert YES_OR_NO in there.spoken()
        assert (await there.control.state(front)).alive

        await there.say("Cancel it")
        assert (await there.control.ended(front)).phase is Phase.CANCELLED


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
    async with counting(tmp_path) as (there, model):
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
    shop = Shop()
    async with talking(shop.clerk, folder=tmp_path) as there:
        await there.say("Order a chair")
        with anyio.fail_after(10):
            await shop.begun.wait()
        await there.say("No, make it blue please")
        shop.goes_on.set()
        await there.room.until(lambda: len(shop.model.asked) == 2)
        await there.rests()

        assert shop.placed == ["a chair"]
        assert shop.results() == ["order 7 placed: a chair"]
        assert "make it blue please" in shop.model.prompts[1].turns[-1].text


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
        assert "a rule is against these words" in spoken


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
    voice, bob = PlainSynthesiser(), Actor("bob", channel="web")
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


async def test_who_may_only_look_is_told_so_and_nothing_is_changed(tmp_path: Path) -> None:
    from midflight.journal.phases import Role

    viewer = Actor("eve", Role.VIEWER, "voice")
    async with talking(worker, folder=tmp_path, who=viewer) as there:
        run = await there.control.start(worker, "Work", thread=THREAD)
        await there.room.wait(0.5)
        await there.say("Wait")

        assert not (await there.control.state(run)).holds
        assert "eve" in str(there.of(Did)[-1])


async def test_hanging_up_cancels_nothing(tmp_path: Path) -> None:
    async with on_the_line(worker, tmp_path) as (control, call):
        async with call() as there:
            await there.say("Begin the work")
            front = (await control.runs())[0].journal

        assert (await control.state(front)).alive
        assert not (await control.state(front)).holds


async def test_who_hangs_up_in_the_middle_of_a_reply_leaves_what_was_heard(tmp_path: Path) -> None:
    clerk, _ = speaker(TEXT)
    async with on_the_line(clerk, tmp_path) as (control, call):
        async with call() as there:
            await there.say("Count please")
            await there.hears(4)

        [said] = [line for line in await control.transcript(THREAD) if line.kind == "said: text"]
        assert (said.text, said.status) == ("one two three four", "cut short")


async def test_who_hangs_up_on_recognisers_that_are_dead_leaves_what_was_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.line.SETTLE_S", 0.3)
    clerk, _ = speaker(TEXT)
    words = Words()
    recogniser = PlainRecogniser(words)
    async with on_the_line(clerk, tmp_path, recogniser) as (control, call):
        async with call() as there:
            await there.room.hear(words.said("Count please"))
            await there.room.wait(0.9)
            await there.hears(4)
            recogniser.thinks = anyio.sleep_forever
            await there.goes_by(words.said("What about"))  # and it never knows what that was

        [said] = [line for line in await control.transcript(THREAD) if line.kind == "said: text"]
        assert said.status == "cut short"
        assert TEXT.startswith(said.text)
        assert 4 <= len(said.text.split()) <= 6


async def test_a_reply_that_was_heard_to_its_end_or_not_begun_is_left_as_it_is(
    tmp_path: Path,
) -> None:
    clerk, _ = speaker(TEXT, "never spoken")
    async with on_the_line(clerk, tmp_path) as (control, call):
        async with call() as there:
            await there.say("Count please")
            await there.rests()
            # somebody writes; the answer comes while the caller speaks, who hangs up then
            held = there.words.said("Hm", 3.0, confidence=0.3)
            await there.room.hear(held[:16_000])
            await control.send(THREAD, "And then?", who=Actor("bob"))
            with anyio.fail_after(10):
                while not there.line.mouth.is_busy:  # noqa: ASYNC110 - it comes by the store
                    await anyio.sleep(0.01)

        said = [line for line in await control.transcript(THREAD) if line.kind == "said: text"]
        assert [(line.text, line.status) for line in said] == [(TEXT, ""), ("never spoken", "")]


async def test_the_last_words_of_who_hangs_up_are_still_done(tmp_path: Path) -> None:
    async with on_the_line(worker, tmp_path) as (control, call):
        async with call() as there:
            await there.say("Begin the work")
            front = (await control.runs())[0].journal
            await there.room.hear(there.words.said("Wait"))  # and not a breath after it

        assert Cause.USER in (await control.state(front)).holds


async def test_speech_that_was_cut_for_words_nobody_understood_goes_on_where_it_was(
    tmp_path: Path,
) -> None:
    words = Words()
    recogniser = PlainRecogniser(words)
    recogniser.after = lambda heard, pcm: Heard("mumble", 0.2) if len(pcm) > 64_000 else heard
    clerk, model = speaker(TEXT)
    async with talking(clerk, folder=tmp_path, recogniser=recogniser, words=words) as there:
        await there.say("Count please")
        await there.hears(4)
        await there.say("well I want to know what", 2.5, confidence=0.95)
        outcomes = [shown.outcome for shown in there.of(Outcome)]  # type: ignore[union-attr]
        assert outcomes[-2:] == ["interrupted", "asked again"]
        await there.rests()
        await there.room.wait(5)
        await there.rests()

        assert there.room.sink.played == (12 + len(SORRY.split())) * WORD
        assert await there.said_by_agent() == [TEXT]
        assert len(model.asked) == 1


async def test_a_long_hum_that_cut_us_is_gone_on_after(tmp_path: Path) -> None:
    async with counting(tmp_path) as (there, _):
        await there.say("mm hmm", 3.5)
        assert there.line.taking.floor is Floor.SPEAKING
        await there.rests()

        assert there.room.sink.played == 12 * WORD
        assert await there.said_by_agent() == [TEXT]


async def test_go_on_drops_only_the_answer_that_its_model_begins_anew(tmp_path: Path) -> None:
    never = anyio.Event()
    lines = iter([say(f"{TEXT}. And then", pieces=9, until=never), say("All anew")])
    clerk = assistant("clerk", Profile(ScriptedModel(lambda _: next(lines)), actions=()))
    async with talking(clerk, folder=tmp_path) as there:
        await there.say("Count please")
        await there.hears(4)
        there.line.mouth.say("A note of somebody else")
        await there.say("Wait")
        await there.say("Go on")
        assert await there.room.until(
            lambda: not never.is_set() and not there.line.mouth.agenda.aside
        )
        await there.rests()

        spoken = there.spoken()
        assert "A note of somebody else" in spoken
        assert "All anew" in spoken


async def test_a_slow_recogniser_keeps_us_silent_until_it_has_told_what_was_said(
    tmp_path: Path,
) -> None:
    words, told = Words(), anyio.Event()
    recogniser = PlainRecogniser(words)
    clerk, _ = speaker(TEXT)
    async with talking(clerk, folder=tmp_path, recogniser=recogniser, words=words) as there:
        await there.say("Count please")
        await there.hears(3)
        recogniser.thinks = told.wait
        await there.room.hear(words.said("yeah", 0.4))
        held_at = there.room.sink.played
        await there.passes(3)
        assert there.line.taking.floor is Floor.JUDGING
        assert there.room.sink.played == held_at
        told.set()
        await there.rests()

        assert there.room.sink.played == 12 * WORD


async def test_who_speaks_on_while_a_page_is_slow_to_fall_silent_is_heard_from_the_first_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "midflight.interfaces.voice.speech.playback.ANSWER_S", 30.0
    )  # it is slow, and not dead
    silent = anyio.Event()

    class Slow(RoomSink):
        @override
        async def cut(self) -> int:
            await silent.wait()
            return await super().cut()

    clerk, _ = speaker(TEXT, "thirteen", "fourteen")
    async with talking(clerk, folder=tmp_path, sink=Slow()) as there:
        await there.say("Count please")
        await there.hears(4)
        await there.goes_by(there.words.said("What comes after twelve"))
        await there.passes(0.4)
        assert there.of(Outcome)[-1] == Outcome("interrupted")  # and it waits for the page
        async with anyio.create_task_group() as both:
            both.start_soon(there.goes_by, there.words.said("And what after that", 0.8))
            await anyio.sleep(0.1)  # they speak on, and we wait for the page
            silent.set()
        await there.room.wait(1)
        await there.rests()

        heard = [shown.heard for shown in there.of(Outcome) if shown.outcome == "heard"]  # type: ignore[union-attr]
        assert heard == ["Count please", "What comes after twelve", "And what after that"]


# ── what came since ─────────────────────────────────────────────────────────────────────────────


async def test_a_redirect_for_a_run_that_has_left_the_front_is_a_message(tmp_path: Path) -> None:
    words = Words()
    recogniser = PlainRecogniser(words)
    async with talking(worker, folder=tmp_path, recogniser=recogniser, words=words) as there:
        first = await there.control.start(worker, "One", thread=THREAD, who=Actor("bob"))
        await there.room.wait(0.2)
        told = anyio.Event()
        recogniser.thinks = told.wait
        await there.room.hear(words.said("No, only the second half"))
        await there.passes(1)
        await there.control.cancel(first, who=Actor("bob"))
        await there.control.ended(first)
        second = await there.control.start(worker, "Two", thread=THREAD, who=Actor("bob"))
        told.set()
        await there.room.wait(1)

        assert (await there.control.state(second)).brief == "Two"
        lines = await there.control.transcript(THREAD)
        assert "No, only the second half" in [line.text for line in lines]


async def test_while_a_person_has_it_words_are_theirs_and_go_on_says_who_has_it(
    tmp_path: Path,
) -> None:
    bob = Actor("bob", channel="web")
    async with talking(worker, folder=tmp_path) as there:
        await there.say("Begin the work")
        front = (await there.control.runs())[0].journal
        await there.control.take_over(front, who=bob)
        await there.rests()
        assert there.of(Handed) == [Handed("bob")]
        assert "bob has taken over" in there.spoken()
        brief = (await there.control.state(front)).brief
        await there.say("No, only the second half")
        await there.say("Go on")
        await there.rests()

        state = await there.control.state(front)
        assert (state.brief, Cause.HUMAN in state.holds) == (brief, True)
        assert WITH_A_PERSON in there.spoken()
        await there.control.hand_back(front, "", who=bob)
        await there.rests()
        assert there.of(Handed)[-1] == Handed("")


async def test_two_orders_at_once_are_done_in_the_order_in_which_they_were_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(worker, folder=tmp_path) as there:
        await there.say("Begin the work")
        front = (await there.control.runs())[0].journal
        await there.room.wait(0.3)
        acts, moment = there.line._acts, Moment(front)
        done: list[str] = []

        async def do(text: str) -> None:
            done.append((await acts.do(meaning(text), moment)).act)

        load, delays = there.control.store.load, iter([0.1, 0.0, 0.05])

        async def slowly(journal: str) -> object:  # the first takes the longest
            await anyio.sleep(next(delays, 0.0))
            return await load(journal)

        monkeypatch.setattr(there.control.store, "load", slowly)
        async with anyio.create_task_group() as tasks:
            for text in ("wait", "go on", "wait", "go on", "wait"):
                tasks.start_soon(do, text)

        assert done == ["pause", "go on", "pause", "go on", "pause"]
        assert Cause.USER in (await there.control.state(front)).holds


async def test_the_audit_has_every_act_and_how_long_was_talked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clerk, _ = speaker(TEXT)
    with caplog.at_level("INFO", "midflight.audit"):
        async with on_the_line(clerk, tmp_path) as (_, call), call() as there:
            await there.say("Count please", 0.8)
            await there.rests()
            links = await there.control.store.audit_page()

    found = [json.loads(link.record) for link in links]
    assert [(r["by"], r["door"], r["outcome"]) for r in found] == [("ann", "voice", "done")]
    act, over = (vars(record) for record in caplog.records if record.name == "midflight.audit")
    assert (act["by"], act["channel"], act["act"], act["refused"]) == ("ann", "voice", "say", False)
    assert act["target"] == {"thread": THREAD}
    assert abs(over["speech_s"] - 0.8) < 0.1
    assert over["spoken_s"] == 1.2
    assert over["line_s"] > 2
