"""Who hangs up ends nothing but the call: what the record says of who had heard what."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.interfaces.voice.spoken_verbs import BROKEN_OFF
from midflight.journal.phases import Cause
from midflight.journal.record import Actor
from midflight.run import Run
from voice.studio import THREAD, PlainRecogniser, Words, on_the_line, told
from voice.talkers import ANSWER, thinker, worker

pytestmark = pytest.mark.anyio
BOB = Actor("bob", channel="web")
HEARD = ("one two three four", "cut short")


async def test_an_answer_that_ends_after_its_listener_has_hung_up_is_there_to_be_read_as_not_heard(
    tmp_path: Path,
) -> None:
    ends = anyio.Event()
    clerk, model = thinker(ends, "thirteen")
    async with on_the_line(clerk, tmp_path) as (control, call):
        async with call() as there:
            await there.say("Count please")
            await there.hears(4)
        ends.set()
        await control.ended((await control.runs())[0].journal)

        assert await told(control) == [HEARD, (ANSWER, "not heard")]

        async with call() as there:
            await there.say("And what now")
            await there.rests()
        said = [turn.text for turn in model.prompts[-1].turns if turn.role == "assistant"]
        assert " ".join(said).count(ANSWER) == 1
        assert any(text.startswith("one two three four [The person has cut you") for text in said)
        assert any(f"{ANSWER}\n\n[The person has hung up while you said this" in t for t in said)
        assert await told(control) == [HEARD, (ANSWER, "not heard"), ("thirteen", "")]


# ── the last words, which may be half of them ────────────────────────────────────────────────────


@agent(converses=True)
async def asker(run: Run) -> str:
    said = await run.ask("May I send the mail?", schema={"type": "boolean"})
    return "sent" if said.payload else "kept"


async def messages(control: Control) -> list[str]:
    return [line.text for line in await control.transcript(THREAD) if line.kind == "message"]


@pytest.mark.parametrize("half", ["Yes", "No"])
async def test_half_an_utterance_answers_nothing_and_is_a_message_that_says_so(
    tmp_path: Path, half: str
) -> None:
    async with on_the_line(asker, tmp_path) as (control, call):
        run = await control.start(asker, "Mail", thread=THREAD, who=BOB)
        await control.until(run, lambda state: bool(state.questions))
        async with call() as there:
            await there.room.until(lambda: bool(there.line.mouth.agenda.asked))
            await there.rests()
            await there.room.hear(there.words.said(half, 0.4))  # of "yes, but only to Bob"

        assert len((await control.state(run)).questions) == 1
        assert await messages(control) == [BROKEN_OFF + half]


async def test_half_a_yes_cancels_nothing_either(tmp_path: Path) -> None:
    async with on_the_line(worker, tmp_path) as (control, call):
        async with call() as there:
            await there.say("Begin the work")
            run = (await control.runs())[0].journal
            await there.say("Stop")
            await there.room.wait(3)
            await there.room.hear(there.words.said("Yes", 0.4))

        state = await control.state(run)
        assert (state.alive, Cause.USER in state.holds) == (True, True)


@pytest.mark.parametrize(
    "half", ["No, only the second half", "Never mind, instead: the second half", "Be brief"]
)
async def test_half_a_redirect_or_go_on_changes_nothing_that_is_at_work(
    tmp_path: Path, half: str
) -> None:
    async with on_the_line(worker, tmp_path) as (control, call):
        async with call() as there:
            await there.say("Begin the work")
            run = (await control.runs())[0].journal
            await there.say("Wait")
            await there.room.hear(there.words.said(half))
        async with call() as there:
            await there.room.hear(there.words.said("Go on"))

        state = await control.state(run)
        assert (state.brief, Cause.USER in state.holds) == ("Begin the work", True)
        assert (await messages(control))[-2:] == [BROKEN_OFF + half, BROKEN_OFF + "Go on"]


@pytest.mark.parametrize("last", ["Wait", "Stop"])
async def test_what_holds_the_work_is_done_also_where_the_line_ends_in_the_midst_of_it(
    tmp_path: Path, last: str
) -> None:
    async with on_the_line(worker, tmp_path) as (control, call):
        async with call() as there:
            await there.say("Begin the work")
            run = (await control.runs())[0].journal
            await there.room.hear(there.words.said(last, 0.4))

        assert Cause.USER in (await control.state(run)).holds


async def test_what_was_said_to_its_end_before_the_line_ended_is_done_as_ever(
    tmp_path: Path,
) -> None:
    words, told_now = Words(), anyio.Event()
    recogniser = PlainRecogniser(words)
    async with on_the_line(asker, tmp_path, recogniser) as (control, call):
        run = await control.start(asker, "Mail", thread=THREAD, who=BOB)
        await control.until(run, lambda state: bool(state.questions))
        async with call() as there:
            await there.room.until(lambda: bool(there.line.mouth.agenda.asked))
            await there.rests()
            recogniser.thinks = told_now.wait
            await there.goes_by(words.said("Yes", 0.4))
            await there.passes(0.7)  # they have ended, and it is not known yet what they said
            told_now.set()

        assert await control.result(run) == "sent"
