"""Every seam fails in every way: dead, slow, garbage, stalled in the middle. The line lives on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from math import ceil
from pathlib import Path
from time import sleep
from typing import Any

import anyio
import pytest
from typing_extensions import override

from midflight.agents import Agent
from midflight.assistant import Profile, assistant
from midflight.interfaces.voice.ear import FRAME_BYTES, KEPT_MAX, REST_MS, Ear
from midflight.interfaces.voice.line import CANNOT_SPEAK
from midflight.interfaces.voice.room import RoomSink
from midflight.interfaces.voice.speech.fallback import AnyRecogniser, AnySynthesiser
from midflight.interfaces.voice.speech.speech_engines import (
    FRAME_MS,
    RATE,
    Chunk,
    Heard,
    Mark,
    SpeechFailed,
    Word,
)
from midflight.interfaces.voice.turn_actions import CANNOT_HEAR, SORRY
from midflight.interfaces.voice.voice_wire import Outcome, Trouble
from midflight.models.scripted import ScriptedModel, say
from voice.studio import WORD, PlainRecogniser, PlainSynthesiser, PlainVad, Scene, Words, talking

pytestmark = pytest.mark.anyio
TEXT = "one two three four five six seven eight nine ten eleven twelve"
AGAIN = "here I am again"


def clerk(*texts: str) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel([say(text) for text in texts])
    return assistant("clerk", Profile(model, actions=()), delegates=False), model


def outcomes(there: Scene) -> list[str]:
    return [shown.outcome for shown in there.of(Outcome)]  # type: ignore[union-attr]


def troubles(there: Scene) -> list[tuple[str, str]]:
    return [(shown.text, shown.instead) for shown in there.of(Trouble)]  # type: ignore[union-attr]


# ── the ear ──────────────────────────────────────────────────────────────────────────────────────


class FaultyVad:
    """Hears well for a second, and then no more."""

    def __init__(self, fault: Callable[[bytes], Any]) -> None:
        self._fault, self._heard = fault, 0

    def hear(self, frame: bytes) -> float:
        self._heard += 1
        return float(any(frame)) if self._heard < 31 else self._fault(frame)

    def forget(self) -> None:
        pass


def dies(_: object) -> float:
    raise RuntimeError("the model is gone")


def dawdles(_: object) -> float:
    sleep(0.12)
    return 0.0


VAD_FAULTS: dict[str, tuple[Callable[[bytes], Any], str]] = {
    "dead": (dies, "has broken: RuntimeError"),
    "slow": (dawdles, "takes more than 0.1 s"),
    "garbage, no number": (lambda _: float("nan"), "is not between 0 and 1"),
    "garbage, no likelihood": (lambda _: 7.0, "is not between 0 and 1"),
    "stalled in the middle of speech": (lambda _: 1.0, "hears speech where there is no sound"),
}


@pytest.mark.parametrize("fault", VAD_FAULTS)
async def test_an_ear_that_fails_goes_by_loudness_says_so_and_words_are_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(
        "midflight.interfaces.voice.ear.STUCK_S", 60.0
    )  # a busy machine's are not meant
    how, told = VAD_FAULTS[fault]
    agent, model = clerk(TEXT)
    async with talking(agent, folder=tmp_path, vad=lambda: FaultyVad(how)) as there:
        await there.room.wait(3)
        await there.rests()
        assert [told in text for text, _ in troubles(there)] == [True]
        await there.say("Count please")
        await there.rests()

        assert [turn.text for turn in model.prompts[-1].turns][-1:] == ["Count please"]


async def test_an_ear_that_cannot_begin_anew_goes_by_loudness_and_the_line_lives(
    tmp_path: Path,
) -> None:
    class Stubborn(PlainVad):
        @override
        def forget(self) -> None:
            raise RuntimeError("no")

    agent, model = clerk(TEXT)
    async with talking(agent, folder=tmp_path, vad=Stubborn) as there:
        await there.room.wait(3)
        assert ["has broken" in text for text, _ in troubles(there)] == [True]
        await there.say("Count please")

        assert [turn.text for turn in model.prompts[-1].turns][-1:] == ["Count please"]


class CountingVad(PlainVad):
    """Notes when it is asked, and when it begins anew."""

    def __init__(self) -> None:
        self.asked = self.begun_anew = 0

    @override
    def hear(self, frame: bytes) -> float:
        self.asked += 1
        return super().hear(frame)

    @override
    def forget(self) -> None:
        self.begun_anew += 1


FAINT = b"\1" * FRAME_BYTES  # heard by a good ear; too soft for who goes by loudness


def test_a_machine_that_stops_once_for_a_second_does_not_cost_the_ear() -> None:
    times = iter([0.0, 0.9, 1.0, 2.1, *(3.0, 3.0) * 2])
    vad = CountingVad()
    ear = Ear(vad, lambda: next(times))
    assert ear.hear(FAINT) == 1.0
    assert not ear.trouble

    assert ear.hear(FAINT) == 0.0
    assert f"took 1.1 s for {FRAME_MS} ms; for 5 s I go by loudness" in ear.trouble
    rest = [ear.hear(b"\x20" * FRAME_BYTES) for _ in range(ceil(REST_MS / FRAME_MS))]
    assert (set(rest), vad.asked) == ({1.0}, 2)

    assert ear.hear(FAINT) == 1.0
    assert ear.hear(FAINT) == 1.0
    assert vad.begun_anew == 1  # what it remembered was seconds old


def test_an_ear_that_takes_a_second_for_one_frame_again_is_not_asked_any_more() -> None:
    times = iter([0.0, 1.1, 2.0, 3.2])
    vad = CountingVad()
    ear = Ear(vad, lambda: next(times))

    for _ in range(3 * REST_MS // FRAME_MS):
        assert ear.hear(FAINT) == 0.0

    assert vad.asked == 2
    assert f"took 1.2 s for {FRAME_MS} ms, and not for the first time" in ear.trouble


async def test_what_an_ear_that_stops_again_costs_is_told_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "midflight.interfaces.voice.ear.STUCK_S", -1.0
    )  # as if each frame took that long
    agent, _ = clerk(TEXT)
    async with talking(agent, folder=tmp_path) as there:
        await there.room.wait(2 * REST_MS / 1000)

        first, then = (text for text, _ in troubles(there))
        assert "; for 5 s I go by loudness. " in first
        assert "and not for the first time; from now on I go by loudness. " in then


def test_what_came_after_a_sound_has_ended_is_the_beginning_of_the_next() -> None:
    ear = Ear(PlainVad())
    ear.hear(b"\1" * FRAME_BYTES)
    assert ear.keep()
    for _ in range(3):
        ear.hear(bytes(FRAME_BYTES))
    ear.end()
    more = b"\2" * FRAME_BYTES
    ear.hear(more)
    ear.forget()
    assert ear.keep()

    assert ear.sound == bytes(3 * FRAME_BYTES) + more


def test_an_ear_keeps_no_more_of_a_sound_than_a_recogniser_takes() -> None:
    ear = Ear(PlainVad())
    assert ear.keep()
    for _ in range(45 * RATE * 2 // FRAME_BYTES):
        ear.hear(b"\1" * FRAME_BYTES)

    assert len(ear.sound) <= KEPT_MAX + FRAME_BYTES


# ── recognition ──────────────────────────────────────────────────────────────────────────────────


class FaultyRecogniser:
    """Does as it is told, until it is mended."""

    name = "faulty"

    def __init__(self, words: Words, fault: Callable[[], Awaitable[Any]]) -> None:
        self._mended = PlainRecogniser(words)
        self.fault: Callable[[], Awaitable[Any]] | None = fault
        self.asked = 0

    async def recognise(self, pcm: bytes) -> Heard:
        self.asked += 1
        return await self.fault() if self.fault else await self._mended.recognise(pcm)


async def raises() -> None:
    raise ValueError("no such layer")


async def fails() -> None:
    raise SpeechFailed("plain", "is dead")


async def hangs() -> None:
    await anyio.sleep(60)


def gives(what: object) -> Callable[[], Awaitable[object]]:
    async def give() -> object:
        await anyio.lowlevel.checkpoint()
        return what

    return give


class Cursed(str):
    """What passes for a text until somebody looks at it."""

    @override
    def casefold(self) -> str:
        raise ZeroDivisionError


RECOGNISER_FAULTS: dict[str, Callable[[], Awaitable[Any]]] = {
    "dead, and says so": fails,
    "dead": raises,
    "stalled": hangs,
    "garbage, nothing": gives(None),
    "garbage, no likelihood": gives(Heard("Cancel everything", float("nan"))),
    "garbage, more than sure": gives(Heard("Cancel everything", 3.0)),
    "garbage, without end": gives(Heard("go " * 100_000, 0.9)),
    "garbage, signs": gives(Heard("\x00\x01 ¿¿ zzzz", 0.02)),
    "garbage, no words": gives(Heard("", 0.0)),
    "garbage, bytes": gives(Heard(b"yeah", 0.9)),  # type: ignore[arg-type]
    "garbage, words of bytes": gives(Heard("yeah", 0.9, (Word(b"yeah", 0.9),))),  # type: ignore[arg-type]
    "garbage, words that are texts": gives(Heard("yeah", 0.9, ("yeah",))),  # type: ignore[arg-type]
    "garbage, no words but nothing": gives(Heard("yeah", 0.9, None)),  # type: ignore[arg-type]
    "garbage, a word more than sure": gives(Heard("yeah", 0.9, (Word("yeah", 7.0),))),
    "garbage, it leans to a text": gives(Heard("yeah", 0.9, lean="x")),  # type: ignore[arg-type]
    "garbage, it leans to nowhere": gives(Heard("yeah", 0.9, lean=float("nan"))),
    "garbage, a text that breaks": gives(Heard(Cursed("yeah"), 0.9)),
    "garbage, sure in words": gives(Heard("yeah", "very")),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("fault", RECOGNISER_FAULTS)
async def test_recognition_that_fails_is_asked_about_acts_on_nothing_and_hears_when_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.speech.fallback.RECOGNISE_S", 0.1)
    words = Words()
    recogniser = FaultyRecogniser(words, RECOGNISER_FAULTS[fault])
    agent, model = clerk(TEXT)
    async with talking(agent, folder=tmp_path, recogniser=recogniser, words=words) as there:
        await there.say("Count please")
        await there.rests()
        assert outcomes(there) == ["asked again"]
        assert SORRY in there.spoken()
        assert model.asked == []
        monkeypatch.setattr("midflight.interfaces.voice.speech.fallback.RECOGNISE_S", 60.0)
        recogniser.fault = None
        await there.say("Count please")
        await there.rests()

        assert [turn.text for turn in model.prompts[0].turns] == ["Count please"]


async def test_recognition_that_stays_dead_says_what_to_do(tmp_path: Path) -> None:
    words = Words()
    recogniser = FaultyRecogniser(words, raises)
    agent, _ = clerk(TEXT)
    async with talking(agent, folder=tmp_path, recogniser=recogniser, words=words) as there:
        for _ in range(2):
            await there.say("Count please")
            await there.rests()

        assert troubles(there) == [(CANNOT_HEAR, "")]
        assert there.spoken().endswith("Please write instead.")


async def test_recognition_that_fails_once_is_tried_again_and_nobody_notices(
    tmp_path: Path,
) -> None:
    words = Words()
    recogniser = FaultyRecogniser(words, raises)

    async def once() -> Heard:
        recogniser.fault = None
        raise SpeechFailed("plain", "has hiccups")

    recogniser.fault = once
    agent, model = clerk(TEXT)
    async with talking(agent, folder=tmp_path, recogniser=recogniser, words=words) as there:
        await there.say("Count please")
        await there.rests()

        assert [turn.text for turn in model.prompts[0].turns] == ["Count please"]
        assert outcomes(there) == ["heard"]


@pytest.mark.parametrize("fault", [raises, fails, hangs, gives(None)])
async def test_another_recogniser_hears_where_the_first_cannot(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[], Awaitable[Any]]
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.speech.fallback.RECOGNISE_S", 0.1)
    words = Words()
    first, second = FaultyRecogniser(words, fault), PlainRecogniser(words)

    heard = await AnyRecogniser(first, second).recognise(words.said("Count please"))

    assert (heard.text, first.asked) == ("Count please", 2)


async def test_recognition_takes_no_longer_than_a_person_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.speech.fallback.RECOGNISE_S", 0.1)
    with anyio.fail_after(20), pytest.raises(SpeechFailed, match=r"took more than 0.05 s"):
        await AnyRecogniser(FaultyRecogniser(Words(), hangs)).recognise(b"")


# ── the voice ────────────────────────────────────────────────────────────────────────────────────


class FaultyVoice:
    """Speaks by the fault, until it is mended."""

    name = "faulty"

    def __init__(self, fault: Callable[[str], AsyncGenerator[Chunk, None]]) -> None:
        self.fault: Callable[[str], AsyncGenerator[Chunk, None]] | None = fault
        self.asked: list[str] = []

    def speak(self, text: str) -> AsyncGenerator[Chunk, None]:
        self.asked.append(text)
        return self.fault(text) if self.fault else PlainSynthesiser().speak(text)


LOUD = b"\7\7" * WORD


async def breaks(text: str) -> AsyncGenerator[Chunk, None]:
    if text:
        raise OSError("no such device")
    yield Chunk(b"")


async def says_nothing(_: str) -> AsyncGenerator[Chunk, None]:
    yield Chunk(b"")


async def is_silent(_: str) -> AsyncGenerator[Chunk, None]:
    yield Chunk(bytes(WORD * 2))


async def never_begins(_: str) -> AsyncGenerator[Chunk, None]:
    await anyio.sleep(60)
    yield Chunk(LOUD)


async def drips_nothing(_: str) -> AsyncGenerator[Chunk, None]:
    while True:
        await anyio.sleep(0.01)
        yield Chunk(b"")


async def gives_half_samples(_: str) -> AsyncGenerator[Chunk, None]:
    yield Chunk(b"123")


async def marks_elsewhere(_: str) -> AsyncGenerator[Chunk, None]:
    yield Chunk(LOUD, (Mark(-7, 5_000),))


async def never_ends(_: str) -> AsyncGenerator[Chunk, None]:
    while True:
        yield Chunk(LOUD * 50)
        await anyio.lowlevel.checkpoint()


async def breaks_off(_: str) -> AsyncGenerator[Chunk, None]:
    yield Chunk(LOUD)
    raise OSError("the device is gone")


async def stalls(_: str) -> AsyncGenerator[Chunk, None]:
    yield Chunk(LOUD)
    await anyio.sleep(60)


VOICE_FAULTS = (
    breaks, says_nothing, is_silent, never_begins, drips_nothing, gives_half_samples,
    marks_elsewhere, never_ends, breaks_off, stalls,
)  # fmt: skip


@pytest.mark.parametrize("fault", VOICE_FAULTS)
async def test_a_voice_that_fails_is_shown_in_writing_and_speaks_when_mended(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[str], AsyncGenerator[Chunk, None]],
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.speech.fallback.FIRST_S", 0.1)
    monkeypatch.setattr("midflight.interfaces.voice.speech.fallback.NEXT_S", 0.1)
    voice = FaultyVoice(fault)
    agent, _ = clerk(TEXT, AGAIN)
    async with talking(agent, folder=tmp_path, synthesiser=voice) as there:
        await there.say("Count please")
        await there.rests()
        assert troubles(there) == [(CANNOT_SPEAK, TEXT)]
        assert await there.said_by_agent() == [TEXT]
        monkeypatch.setattr("midflight.interfaces.voice.speech.fallback.FIRST_S", 30.0)
        monkeypatch.setattr("midflight.interfaces.voice.speech.fallback.NEXT_S", 30.0)
        voice.fault = None
        played = there.room.sink.played
        await there.say("Are you there")
        await there.rests()

        assert there.room.sink.played == played + len(AGAIN.split()) * WORD
        assert len(troubles(there)) == 1


@pytest.mark.parametrize("fault", [breaks, says_nothing, never_begins, gives_half_samples])
async def test_another_voice_speaks_all_of_it_where_the_first_cannot_begin(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[str], AsyncGenerator[Chunk, None]]
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.speech.fallback.FIRST_S", 0.1)
    voices = AnySynthesiser(FaultyVoice(fault), PlainSynthesiser())

    made = [chunk async for chunk in voices.speak("one two")]

    assert [mark.at for chunk in made for mark in chunk.marks] == [0, 4]


async def test_another_voice_goes_on_at_the_word_at_which_the_first_broke_off() -> None:
    async def breaks_off_marked(text: str) -> AsyncGenerator[Chunk, None]:
        yield Chunk(LOUD, (Mark(0, 0),))
        yield Chunk(LOUD, (Mark(WORD, 4),))
        raise OSError("the device is gone")

    first, second = FaultyVoice(breaks_off_marked), PlainSynthesiser()
    made = [chunk async for chunk in AnySynthesiser(first, second).speak("one two three")]

    marks = [(mark.sample // WORD, mark.at) for chunk in made for mark in chunk.marks]
    assert first.asked == ["one two three", "two three"]
    assert marks[:3] == [(0, 0), (1, 4), (2, 4)]
    assert marks[-1][1] == len("one two ")


# ── the loudspeaker ──────────────────────────────────────────────────────────────────────────────


class FaultySink:
    """A loudspeaker that is broken, until it is mended; ``counts`` what it likes."""

    def __init__(self, fault: str = "") -> None:
        self._room = RoomSink()
        self.fault = fault
        self.counts: Any = ...

    @property
    def played(self) -> int:
        return self._room.played if self.counts is ... else self.counts

    async def play(self, pcm: bytes) -> None:
        await self._is_well()
        await self._room.play(pcm)

    async def hold(self) -> None:
        await self._is_well()
        await self._room.hold()

    async def go_on(self) -> None:
        await self._is_well()
        await self._room.go_on()

    async def cut(self) -> int:
        await self._is_well()
        return await self._room.cut()

    async def _is_well(self) -> None:
        if self.fault == "dead":
            raise OSError("no such device")
        if self.fault == "slow":
            await anyio.sleep(60)

    def pass_time(self, samples: int) -> None:
        if self.fault != "stalled in the middle" or self.played < 3 * WORD:
            self._room.pass_time(samples)


@pytest.mark.parametrize("fault", ["dead", "slow", "stalled in the middle"])
async def test_a_loudspeaker_that_fails_is_shown_in_writing_and_plays_when_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.speech.playback.ANSWER_S", 0.1)
    sink = FaultySink(fault)
    agent, _ = clerk(TEXT, AGAIN)
    async with talking(agent, folder=tmp_path, sink=sink) as there:
        await there.say("Count please")
        assert await there.room.until(lambda: bool(troubles(there)), 20)
        await there.rests()
        assert troubles(there) == [(CANNOT_SPEAK, TEXT)]
        monkeypatch.setattr("midflight.interfaces.voice.speech.playback.ANSWER_S", 30.0)
        sink.fault = ""
        played = sink.played
        await there.say("Are you there")
        await there.rests()

        assert sink.played == played + len(AGAIN.split()) * WORD
        assert await there.said_by_agent() == [TEXT, AGAIN]


@pytest.mark.parametrize("told", [-5, 10**12, None, "many"])
async def test_a_loudspeaker_that_counts_nonsense_is_not_believed(
    tmp_path: Path, told: Any
) -> None:
    sink = FaultySink()
    agent, _ = clerk(TEXT)
    async with talking(agent, folder=tmp_path, sink=sink) as there:
        await there.say("Count please")
        await there.hears(3)
        known = there.line.mouth.played
        sink.counts = told
        await there.line.tick()
        assert there.line.mouth.played == known
        sink.counts = ...
        await there.rests()

        assert sink.played == 12 * WORD
        assert await there.said_by_agent() == [TEXT]


async def test_words_whose_deed_breaks_are_told_of_and_the_next_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, model = clerk(TEXT)
    async with talking(agent, folder=tmp_path) as there:
        with monkeypatch.context() as broken:

            async def gone(*_: object, **__: object) -> None:
                raise ConnectionError("the store is gone")

            broken.setattr(there.control.store, "load", gone)
            await there.say("Count please")
        assert "the store is gone" in troubles(there)[0][0]
        await there.say("Count please")
        await there.rests()

        assert len(model.asked) == 1
