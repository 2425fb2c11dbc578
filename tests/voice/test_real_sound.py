"""Real speech, by several engines and by people, with noise: through the engines that we ship."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from midflight.agents import agent
from midflight.control import local
from midflight.interfaces.voice.judgement import SURE, judge
from midflight.interfaces.voice.line import line_to
from midflight.interfaces.voice.room import Room, RoomSink
from midflight.interfaces.voice.speech.espeak import Espeak
from midflight.interfaces.voice.speech.offline_engines import Moonshine, Silero, offline_engines
from midflight.interfaces.voice.speech.speech_engines import (
    FRAME,
    RATE,
    WIDTH,
    Engines,
    SpeechFailed,
    samples,
    silence,
)
from midflight.interfaces.voice.turn_table import Verdict
from midflight.interfaces.voice.voice_wire import FloorShown, Outcome, Shown
from midflight.run import Run
from voice import speakers
from voice.clerks import SUMMARY
from voice.counting import words_begun
from voice.noises import mixed, noise
from voice.speakers import said
from voice.studio import ANN, THREAD

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.flite,
    pytest.mark.recordings,
    pytest.mark.timeout(120),
]
LIBRIVOX = "human:librivox/sense_and_sensibility_01_austen_64kb-0870"


@cache
def engines() -> Engines:
    return offline_engines()


@agent("teller", converses=True)
async def teller(run: Run) -> str:
    await run.say(SUMMARY)
    return "told"


class Talk:
    def __init__(self, room: Room, sink: RoomSink, shown: list[Shown]) -> None:
        self.room, self.sink, self._shown = room, sink, shown

    @property
    def outcomes(self) -> list[str]:
        return [one.outcome for one in self._shown if isinstance(one, Outcome)]

    @property
    def was_held(self) -> bool:
        return any(isinstance(one, FloorShown) and one.floor == "held" for one in self._shown)


@asynccontextmanager
async def telling(folder: Path) -> AsyncIterator[tuple[Talk, list[str]]]:
    """Two seconds into a long answer; at the end, what stands in the transcript."""
    sink, shown = RoomSink(), []  # type: ignore[var-annotated]
    transcript: list[str] = []
    async with (
        local("memory:", teller, workdir=folder, drain_s=0.2) as control,
        line_to(
            control, teller, THREAD, who=ANN, engines=engines(), sink=sink, show=shown.append
        ) as line,
    ):
        room = Room(line, sink)
        await room.wait(0.1)
        await control.start(teller, "Tell me", thread=THREAD)
        assert await room.until(lambda: sink.played > 32_000)
        yield Talk(room, sink, shown), transcript
        lines = await control.transcript(THREAD)
        transcript += [line.text for line in lines if line.kind == "said: text"]


@pytest.mark.parametrize(
    ("text", "voice", "recipe"),
    [
        ("No, only the European customers.", "flite:slt", "clean"),
        ("What about Germany in the second quarter?", "flite:slt", "pink20"),
        ("Tell me about the costs first.", "espeak:en-us", "clean"),
        ("(a recording)", LIBRIVOX, "pink15"),
    ],
)
async def test_words_stop_us_and_the_transcript_is_what_was_heard_within_a_word(
    tmp_path: Path, text: str, voice: str, recipe: str
) -> None:
    async with telling(tmp_path) as (talk, transcript):
        began = talk.sink.played
        await talk.room.hear(mixed(said(text, voice), recipe))
        await talk.room.wait(1.2)

    stopped = talk.sink.cuts[0]
    assert talk.was_held
    assert "interrupted" in talk.outcomes
    assert abs(len(transcript[0].split()) - words_begun(SUMMARY, stopped)) <= 1
    assert stopped - began <= 16_000 * 0.45


@pytest.mark.parametrize(
    ("text", "voice", "recipe"),
    [
        ("yeah", "flite:slt", "clean"),
        ("okay", "flite:slt", "pink20"),
        ("right", "espeak:en-us", "clean"),
        ("I see", "flite:slt", "white20"),
    ],
)
async def test_assents_let_us_go_on(tmp_path: Path, text: str, voice: str, recipe: str) -> None:
    async with telling(tmp_path) as (talk, transcript):
        await talk.room.hear(mixed(said(text, voice), recipe))
        await talk.room.wait(1.0)
        assert talk.outcomes == ["resumed"]
        assert await talk.room.until_silent(1.0)

    assert transcript == [SUMMARY]


@pytest.mark.parametrize("recipe", ["cough:1", "clicks:2", "thump:3", "hiss:1", "beep:2"])
async def test_noises_do_not_stop_us(tmp_path: Path, recipe: str) -> None:
    async with telling(tmp_path) as (talk, _):
        await talk.room.hear(noise(recipe))
        await talk.room.wait(1.0)

    assert not {"interrupted", "asked again"} & set(talk.outcomes)


@pytest.mark.parametrize("recipe", ["cough:6", "hum:2"])
async def test_noises_that_sound_like_speech_hold_us_and_we_go_on(
    tmp_path: Path, recipe: str
) -> None:
    async with telling(tmp_path) as (talk, transcript):
        await talk.room.hear(noise(recipe))
        await talk.room.wait(1.0)
        assert talk.was_held
        assert talk.outcomes == ["resumed"]
        assert await talk.room.until_silent(1.0)

    assert transcript == [SUMMARY]


async def test_garbled_words_are_asked_about(tmp_path: Path) -> None:
    async with telling(tmp_path) as (talk, _):
        await talk.room.hear(mixed(said("Compare it with last year.", "flite:slt"), "white0"))
        await talk.room.wait(1.2)

    assert "asked again" in talk.outcomes
    assert "heard" not in talk.outcomes


def test_recordings_of_people_are_understood() -> None:
    heard = Moonshine().hear(silence(0.2) + said("", "human:cards/001") + silence(0.2))

    assert heard.text == "Ten of clubs."
    assert (heard.confidence or 0) > 0.7


@pytest.mark.parametrize("seconds", [0.3, 1.0, 2.0])
def test_silence_is_never_taken_for_words(seconds: float) -> None:
    heard = Moonshine().hear(silence(seconds))

    assert heard.confidence is not None
    assert heard.confidence < SURE
    assert judge(heard, int(seconds * 1000)) is Verdict.UNCLEAR


def test_a_frame_of_another_size_is_refused_in_words() -> None:
    with pytest.raises(SpeechFailed, match="and got 10"):
        Silero().hear(bytes(10))
    assert 0.0 <= Silero().hear(bytes(FRAME * 2)) <= 1.0


def test_a_voice_that_is_not_there_is_refused_in_words() -> None:
    with pytest.raises(SpeechFailed, match="has no voice 'nosuchvoice'"):
        Espeak("nosuchvoice").made("hello")


def test_words_begin_where_espeak_says_and_in_the_order_of_the_text() -> None:
    text = "It has been $3.50, 42 times."
    _, marks = Espeak().made(text)

    assert [mark.at for mark in marks] == sorted(mark.at for mark in marks)
    assert marks[0].at == 0
    assert all(0 <= mark.at < len(text) for mark in marks)


def test_words_are_to_be_heard_where_their_marks_say() -> None:
    """Against the sound itself: words with a pause before each begin where it becomes loud."""
    pcm, marks = Espeak().made("Cats, dogs, birds, fish, goats, parrots.")
    length = len(pcm) // WIDTH

    places = [mark.sample for mark in marks]
    assert len(places) == 6
    assert places == sorted(set(places))
    assert 0 <= places[0] < places[-1] < length
    onsets = onsets_of(pcm)
    late = [min((onset - place for onset in onsets), key=abs) / RATE for place in places]
    assert all(abs(seconds) <= 0.12 for seconds in late), late


def onsets_of(pcm: bytes) -> list[int]:
    """Where it becomes loud after a pause of 60 ms or more, in samples."""
    step, pause = RATE // 100, 6
    sound = np.abs(samples(pcm).astype(np.float64))
    levels = [float(sound[at : at + step].mean()) for at in range(0, len(sound) - step, step)]
    loud = [level > max(levels) / 12 for level in levels]
    begins = [n for n, now in enumerate(loud) if now and not any(loud[max(0, n - pause) : n])]
    return [number * step for number in begins]


def test_who_speaks_for_us_sounds_the_same_each_time() -> None:
    first = said("Compare it with last year.", "espeak:en-us")
    said("Something else.", "espeak:en-us")
    speakers._made.cache_clear()

    assert said("Compare it with last year.", "espeak:en-us") == first


def test_who_speaks_for_longer_than_nine_seconds_is_understood_to_the_end() -> None:
    tale = "the meeting begins on monday and ends on friday and everybody brings the new report"
    pcm = said(f"{tale}, {tale}, {tale}", "flite:slt")

    heard = Moonshine().hear(pcm)

    assert len(pcm) > 10 * RATE * WIDTH
    assert heard.text.casefold().count("friday") == 3
