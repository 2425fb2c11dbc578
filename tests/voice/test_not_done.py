"""Words that are refused, or come to nothing: it is said why, and what was being said goes on."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from midflight.errors import StoreFull, StoreUnavailable
from midflight.interfaces.voice.call_record import NOT_NOTED
from midflight.interfaces.voice.room import RoomSink
from midflight.interfaces.voice.speech.speech_engines import samples
from midflight.interfaces.voice.spoken_verbs import WITH_A_PERSON
from midflight.interfaces.voice.voice_wire import Did, Trouble
from midflight.journal.phases import Cause, Role
from midflight.journal.record import Actor
from voice.studio import THREAD, WORD, talking
from voice.talkers import TEXT, counting, reader, speaker, thinking

pytestmark = pytest.mark.anyio
BOB = Actor("bob", channel="web")
OLGA = Actor("olga", Role.OPERATOR)
EVE = Actor("eve", Role.VIEWER, "voice")


async def test_after_words_that_are_refused_it_is_said_why_and_speech_goes_on_where_it_was(
    tmp_path: Path,
) -> None:
    sink = RoomSink()
    async with talking(reader, folder=tmp_path, who=EVE, sink=sink) as there:
        await there.control.start(reader, "Count", thread=THREAD, who=BOB)
        await there.hears(4)
        await there.say("No, only the second half")
        await there.rests()

        [did] = there.of(Did)
        assert isinstance(did, Did)
        assert "eve" in did.text
        assert not there.line.mouth.agenda.aside
        assert there.room.sink.played == (12 + len(did.text.split())) * WORD
        played = samples(bytes(sink.track))
        assert played[played > 0][-1] == 7_000 + 11  # its twelfth word: behind the answer


async def test_a_wait_that_is_refused_still_holds_our_tongue(tmp_path: Path) -> None:
    async with talking(reader, folder=tmp_path, who=EVE) as there:
        run = await there.control.start(reader, "Count", thread=THREAD, who=BOB)
        await there.hears(4)
        await there.say("Wait")
        await there.rests()
        assert [said.heard for said in there.line.mouth.agenda.aside] == ["one two three four"]

        await there.say("Go on")
        await there.rests()
        assert not there.line.mouth.agenda.aside
        assert not (await there.control.state(run)).holds


async def out_of_reach(*_: object, **__: object) -> NoReturn:
    raise StoreUnavailable("the database does not answer; nothing was changed")


@pytest.mark.parametrize(
    ("words", "lost"), [("Stop", "send"), ("Stop", "state"), ("Wait", "pause"), ("Wait", "state")]
)
async def test_a_stop_or_a_wait_that_cannot_be_carried_out_still_holds_our_tongue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, lost: str
) -> None:
    async with talking(reader, folder=tmp_path) as there:
        await there.say("Count please")
        await there.hears(4)
        with monkeypatch.context() as now:
            now.setattr(there.control, lost, out_of_reach)
            await there.say(words)
            await there.rests()
        heard = [said.heard for said in there.line.mouth.agenda.aside]
        assert len(heard) == 1
        assert heard[0] in {"one two three four", "one two three four five"}

        await there.say("Go on")
        await there.rests()
        assert await there.said_by_agent() == [f"{TEXT}."]
        assert not there.line.mouth.agenda.aside


@pytest.mark.parametrize("at_work", [True, False])
async def test_after_a_message_that_cannot_be_written_speech_goes_on_and_is_on_record_as_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_work: bool
) -> None:
    clerk, _ = speaker(f"{TEXT}.")
    async with talking(reader if at_work else clerk, folder=tmp_path) as there:
        await there.say("Count please")
        await there.hears(4)
        for verb in ("send", "converse"):
            monkeypatch.setattr(there.control, verb, out_of_reach)
        await there.say("And what about the chairs over there", 1.2)
        await there.rests()

        did = there.of(Did)[-1]
        assert isinstance(did, Did)
        assert "does not answer" in did.text
        assert there.room.sink.played == (12 + len(did.text.split())) * WORD
        assert not there.line.mouth.agenda.aside
        [said] = [x for x in await there.control.transcript(THREAD) if x.kind == "said: text"]
        assert (said.text, said.status) == (f"{TEXT}.", "")


async def test_what_is_held_elsewhere_is_not_brought_back_by_words_that_are_refused(
    tmp_path: Path,
) -> None:
    async with talking(reader, folder=tmp_path, who=EVE) as there:
        run = await there.control.start(reader, "Count", thread=THREAD, who=BOB)
        await there.hears(4)
        await there.control.pause(run, who=BOB)
        await there.control.until(run, lambda state: Cause.USER in state.holds)
        await there.rests()
        await there.say("No, only the second half")
        await there.rests()

        assert [said.run for said in there.line.mouth.agenda.aside] == [run]


async def test_after_words_that_could_not_be_dealt_with_speech_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counting(tmp_path) as (there, _):
        load = there.control.store.load

        async def broken(journal: str) -> object:
            monkeypatch.setattr(there.control.store, "load", load)  # once
            raise OSError(f"the disk is gone under {journal}")

        monkeypatch.setattr(there.control.store, "load", broken)
        await there.say("What comes after twelve")
        await there.rests()

        [trouble] = there.of(Trouble)
        assert isinstance(trouble, Trouble)
        assert "the disk is gone" in trouble.text
        assert there.room.sink.played == 12 * WORD
        assert await there.said_by_agent() == [TEXT]


async def test_who_asks_for_a_person_while_one_has_it_is_told_so_and_speech_goes_on(
    tmp_path: Path,
) -> None:
    async with talking(reader, folder=tmp_path) as there:
        run = await there.control.start(reader, "Count", thread=THREAD, who=BOB)
        await there.hears(4)
        await there.control.take_over(run, who=BOB)
        await there.control.until(run, lambda state: Cause.HUMAN in state.holds)
        await there.say("Operator")
        await there.rests()

        assert there.of(Did)[-1] == Did("human", WITH_A_PERSON)
        assert not there.line.mouth.agenda.aside
        spoken = f"{TEXT}. bob has taken over. {WITH_A_PERSON}"
        assert there.room.sink.played == len(spoken.split()) * WORD


# ── words that begin nothing ─────────────────────────────────────────────────────────────────────


async def test_words_while_an_operator_has_stopped_everything_are_kept_and_that_is_said(
    tmp_path: Path,
) -> None:
    async with counting(tmp_path, "thirteen") as (there, model):
        await there.rests()
        await there.control.kill("all", who=OLGA, reason="a drill")
        await there.say("What comes after twelve")
        await there.rests()

        kept = "Stopped by operator olga, your message is kept."
        assert there.of(Did)[-1] == Did("say", kept)
        assert there.spoken().endswith(kept)
        assert len(model.asked) == 1
        lines = await there.control.transcript(THREAD)
        assert (lines[-1].kind, lines[-1].text) == ("message", "What comes after twelve")


async def test_words_of_who_may_only_look_on_are_kept_and_that_is_said(tmp_path: Path) -> None:
    clerk, model = speaker(TEXT)
    async with talking(clerk, folder=tmp_path, who=EVE) as there:
        await there.control.converse(clerk, THREAD, [("k", "Count please")], key="k", who=BOB)
        await there.hears(12)
        await there.rests()
        await there.say("What comes after twelve")
        await there.rests()

        assert there.spoken().endswith("Your message is kept.")
        assert len(model.asked) == 1


@pytest.mark.parametrize("words", ["Stop", "Cancel that"])
async def test_a_stop_where_nothing_was_ever_said_is_answered_in_plain_words(
    tmp_path: Path, words: str
) -> None:
    async with talking(reader, folder=tmp_path) as there:
        await there.say(words)
        await there.rests()

        assert there.of(Did) == [Did("stop", "Nothing is at work here yet.")]
        assert there.spoken() == "Nothing is at work here yet."
        assert not await there.control.runs()


# ── what was heard cannot be written down ────────────────────────────────────────────────────────


async def no_record(*_: object, **__: object) -> NoReturn:
    raise StoreFull("the disk is full")


async def test_a_call_lives_on_if_what_was_heard_cannot_be_written_down_and_that_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with thinking(tmp_path, "thirteen") as (there, _, run):
        monkeypatch.setattr(there.control, "heard", no_record)
        await there.control.cancel(run, who=BOB)
        assert await there.room.until(lambda: "bob has cancelled it." in there.spoken())
        await there.rests()
        [trouble] = there.of(Trouble)
        assert isinstance(trouble, Trouble)
        assert trouble.text.startswith(NOT_NOTED)
        assert trouble.instead.startswith("one two three four")

        await there.say("What comes after twelve")
        await there.rests()
        assert there.spoken().endswith("thirteen")


async def test_what_is_done_is_not_told_as_refused_if_what_was_heard_cannot_be_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with thinking(tmp_path, "thirteen") as (there, _, __):
        monkeypatch.setattr(there.control, "heard", no_record)
        await there.say("No, only what comes after twelve")
        await there.rests()

        assert there.of(Did)[-1] == Did("redirect", "")
        assert there.spoken().endswith("thirteen")
