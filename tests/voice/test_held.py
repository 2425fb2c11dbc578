"""Who says "wait" is waited for; and who pauses or ends it elsewhere silences the voice, too."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from midflight.agents import agent
from midflight.interfaces.voice.voice_wire import Did
from midflight.journal.phases import Cause, Phase, Role
from midflight.journal.record import Actor
from midflight.run import Run
from voice.studio import THREAD, WORD, Scene, talking
from voice.talkers import TEXT, counting, reader, thinking, worker

pytestmark = pytest.mark.anyio
ANN_ON_THE_PAGE = Actor("ann", channel="web")
BOB = Actor("bob", channel="web")
OPERATOR = Actor("olga", Role.OPERATOR)


async def told(there: Scene) -> list[tuple[str, str]]:
    """What the thread says that was said or saved, and how it ended."""
    lines = await there.control.transcript(THREAD)
    return [(line.text, line.status) for line in lines if line.kind.startswith("said: ")]


# ── words while it waits ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("hold", ["Wait", "Stop"])
async def test_words_after_a_hold_are_a_message_and_it_stays_held(
    tmp_path: Path, hold: str
) -> None:
    async with thinking(tmp_path, "All anew") as (there, model, run):
        await there.say(hold)
        await there.room.wait(3)
        played = there.room.sink.played
        await there.say("Let me find my glasses")
        await there.room.wait(3)

        assert Cause.USER in (await there.control.state(run)).holds
        assert (len(model.asked), there.room.sink.played) == (1, played)
        assert [said.heard for said in there.line.mouth.agenda.aside] == ["one two three four"]
        messages = [line.text for line in await there.control.transcript(THREAD)]
        assert "Let me find my glasses" in messages

        await there.say("Go on")
        await there.rests()
        assert "All anew" in there.spoken()


async def test_whether_to_cancel_stays_asked_while_other_words_are_said(tmp_path: Path) -> None:
    async with thinking(tmp_path) as (there, _, run):
        await there.say("Stop")
        await there.room.wait(3)
        await there.say("Let me think about it")
        await there.say("Yes")

        assert (await there.control.ended(run)).phase is Phase.CANCELLED


async def test_a_redirect_after_a_stop_goes_on_with_that_and_yes_cancels_nothing_any_more(
    tmp_path: Path,
) -> None:
    async with talking(worker, folder=tmp_path) as there:
        await there.say("Begin the work")
        run = (await there.control.runs())[0].journal
        await there.say("Stop")
        await there.room.wait(3)
        await there.say("No, only the second half")
        await there.say("Yes")
        await there.room.wait(1)

        state = await there.control.state(run)
        assert (state.alive, state.holds) == (True, set())


async def test_a_yes_cancels_nothing_that_somebody_else_has_let_go_on(tmp_path: Path) -> None:
    async with talking(worker, folder=tmp_path) as there:
        await there.say("Begin the work")
        run = (await there.control.runs())[0].journal
        await there.say("Stop")
        await there.room.wait(3)
        await there.control.resume(run, who=BOB)
        await there.say("Yes")
        await there.room.wait(1)

        assert (await there.control.state(run)).alive


async def test_an_assent_to_our_own_words_does_not_bring_back_what_is_to_wait(
    tmp_path: Path,
) -> None:
    async with thinking(tmp_path) as (there, _, _run):
        await there.say("Wait")
        await there.rests()
        there.line.mouth.say("A note of somebody else, and a long one.")
        there.line.begin()
        played = there.room.sink.played
        await there.hears(played // WORD + 3)
        await there.say("yeah", 0.4)
        await there.rests()

        assert there.room.sink.played == played + 9 * WORD
        assert [said.heard for said in there.line.mouth.agenda.aside] == ["one two three four"]


# ── the order of speech ──────────────────────────────────────────────────────────────────────────


async def test_new_words_of_runs_come_after_those_that_wait(tmp_path: Path) -> None:
    async with counting(tmp_path, "an answer to bob") as (there, _):
        await there.say("Wait")
        played = there.room.sink.played
        await there.control.send(THREAD, "And then?", who=BOB)
        with anyio.fail_after(10):
            while len(there.line.mouth.agenda.aside) < 2:  # noqa: ASYNC110 - it comes by the store
                await anyio.sleep(0.01)
        await there.room.wait(2)
        assert there.room.sink.played == played
        await there.say("Go on")
        await there.rests()

        assert there.room.sink.played == 16 * WORD
        assert await there.said_by_agent() == [TEXT, "an answer to bob"]


async def test_what_a_run_says_while_we_ask_what_was_meant_comes_after_what_it_said_before(
    tmp_path: Path,
) -> None:
    later = anyio.Event()

    @agent(converses=True)
    async def clerk(run: Run) -> str:
        await run.say(f"{TEXT}.")
        await run.step("Wait", later.wait)
        await run.say("And that is all.")
        return "over"

    async with talking(clerk, folder=tmp_path) as there:
        await there.say("Count please")
        await there.hears(4)
        await there.say("mumble", 0.5, confidence=0.2)
        later.set()
        with anyio.fail_after(10):
            while len(there.line.mouth.agenda.aside) < 2:  # noqa: ASYNC110 - it comes by the store
                await anyio.sleep(0.01)
        await there.rests()
        assert there.spoken().endswith("Sorry, I did not catch that.")
        await there.room.wait(5)
        await there.rests()

        assert there.spoken().endswith("And that is all.")
        assert there.room.sink.played == (12 + 6 + 4) * WORD


# ── other doors ──────────────────────────────────────────────────────────────────────────────────


async def until_silent(there: Scene) -> int:
    """How much was played when nothing more is to be; no sound passes before."""
    with anyio.fail_after(10):
        while there.line.mouth.is_busy:  # noqa: ASYNC110 - it comes by the store
            await anyio.sleep(0.005)
    return there.room.sink.played


async def test_a_pause_from_another_door_silences_and_resume_brings_it_back(
    tmp_path: Path,
) -> None:
    async with talking(reader, folder=tmp_path) as there:
        await there.say("Count please")
        await there.hears(4)
        run = (await there.control.runs())[0].journal
        await there.control.pause(run, who=ANN_ON_THE_PAGE)
        played = await until_silent(there)
        await there.room.wait(3)
        assert there.room.sink.played == played < 6 * WORD

        await there.control.resume(run, who=ANN_ON_THE_PAGE)
        assert await there.room.until(lambda: there.room.sink.played == 12 * WORD)
        assert await there.said_by_agent() == [f"{TEXT}."]


async def test_resume_from_another_door_begins_the_answer_of_a_model_anew(tmp_path: Path) -> None:
    async with thinking(tmp_path, "All anew") as (there, _, run):
        await there.control.pause(run, who=ANN_ON_THE_PAGE)
        played = await until_silent(there)
        await there.control.resume(run, who=ANN_ON_THE_PAGE)
        assert await there.room.until(lambda: "All anew" in there.spoken())
        await there.rests()

        assert there.room.sink.played == played + 2 * WORD
        assert await there.said_by_agent() == ["one two three four", "All anew"]


@pytest.mark.parametrize("pauses", [False, True])
async def test_a_redirect_from_another_door_ends_the_answer_that_it_ends_and_the_next_is_spoken(
    tmp_path: Path, pauses: bool
) -> None:
    async with thinking(tmp_path, "Only the even ones") as (there, _, run):
        if pauses:
            await there.control.pause(run, who=ANN_ON_THE_PAGE)
            await until_silent(there)
        played = there.room.sink.played
        await there.control.redirect(run, "Even ones", resume=pauses, who=ANN_ON_THE_PAGE)
        assert await there.room.until(lambda: "Only the even ones" in there.spoken())
        await there.rests()

        assert there.room.sink.played <= played + 5 * WORD
        assert (await there.said_by_agent())[-1] == "Only the even ones"


@pytest.mark.parametrize(
    ("who", "said"),
    [(ANN_ON_THE_PAGE, "It was cancelled."), (BOB, "bob has cancelled it.")],
)
async def test_a_cancel_from_another_door_ends_speech_and_is_told(
    tmp_path: Path, who: Actor, said: str
) -> None:
    async with thinking(tmp_path) as (there, _, run):
        played = there.room.sink.played
        await there.control.cancel(run, who=who)
        await there.control.ended(run)
        assert await there.room.until(lambda: there.spoken().endswith(said))
        await there.rests()

        assert there.room.sink.played <= played + (len(said.split()) + 1) * WORD
        assert (await there.said_by_agent())[0].startswith("one two three four")
        assert "nine" not in (await there.said_by_agent())[0]


async def test_who_may_only_look_is_silenced_too_and_the_line_lives_on(tmp_path: Path) -> None:
    viewer = Actor("eve", Role.VIEWER, "voice")
    async with talking(reader, folder=tmp_path, who=viewer) as there:
        run = await there.control.start(reader, "Count", thread=THREAD, who=BOB)
        await there.hears(4)
        await there.control.cancel(run, who=BOB)
        assert await there.room.until(lambda: "bob has cancelled it." in there.spoken())
        await there.rests()
        assert there.room.sink.played < 12 * WORD
        await there.control.start(reader, "Count", thread=THREAD, who=BOB)
        await there.hears(12)  # and they hang up in the middle of it


async def test_a_kill_ends_speech_and_is_told(tmp_path: Path) -> None:
    async with thinking(tmp_path) as (there, _, run):
        played = there.room.sink.played
        await there.control.kill("all", who=OPERATOR)
        assert await there.room.until(lambda: there.spoken().endswith("olga has stopped it."))
        await there.rests()

        assert there.room.sink.played <= played + 5 * WORD
        assert (await there.control.state(run)).phase is Phase.KILLED


async def test_a_run_that_is_paused_elsewhere_does_not_keep_another_silent(tmp_path: Path) -> None:
    async with counting(tmp_path) as (there, _):
        await there.line.mouth.keep((await there.control.runs())[0].journal)
        there.line.mouth.say("words of another run", run="r-another")
        there.line.begin()
        await there.rests()

        assert "words of another run" in there.spoken()


# ── what is on record ────────────────────────────────────────────────────────────────────────────


async def test_work_that_a_cancel_has_saved_is_not_said_to_have_been_heard(tmp_path: Path) -> None:
    async with thinking(tmp_path, "thirteen") as (there, model, run):
        await there.say("Stop")
        await there.room.wait(3)
        await there.say("Yes")
        await there.control.ended(run)
        await there.rests()
        assert there.of(Did)[-1] == Did("yes", "Cancelling.")

        lines = dict(await told(there))
        assert lines["one two three four"] == "cut short"
        [(saved, status)] = [line for line in lines.items() if "nine" in line[0]]
        assert (saved.startswith("Cancelled. Kept: text so far"), status) == (True, "not heard")

        await there.say("And now something else")
        await there.rests()
        context = "\n".join(turn.text for turn in model.prompts[-1].turns)
        assert "nine ten eleven twelve. And then\n\n[This was saved when it was" in context
        assert "and not said: you were cut short" in context
