"""Nothing that somebody says is lost between two sounds, however long or soon they are."""

from __future__ import annotations

from pathlib import Path

import anyio
import numpy as np
import pytest
from typing_extensions import override

from midflight.agents import Agent
from midflight.assistant import Profile, assistant
from midflight.interfaces.voice.speech.speech_engines import FRAME, RATE, Heard, samples
from midflight.interfaces.voice.voice_wire import Trouble
from midflight.models.scripted import ScriptedModel, say
from voice.studio import PlainRecogniser, PlainVad, Words, talking

pytestmark = pytest.mark.anyio


def clerk() -> Agent:
    model = ScriptedModel([say("thirteen"), say("fourteen")])
    return assistant("clerk", Profile(model, actions=()), delegates=False)


class Late(PlainRecogniser):
    """Says nothing until it may, and notes how many seconds of speech it was given."""

    def __init__(self, words: Words) -> None:
        super().__init__(words)
        self.may, self.got = anyio.Event(), list[tuple[str, float]]()
        self.thinks, self.after = self.may.wait, self._note

    def _note(self, heard: Heard, pcm: bytes) -> Heard:
        self.got.append((heard.text, np.count_nonzero(samples(pcm)) / RATE))
        return heard


class LateVad(PlainVad):
    """Knows of speech when it has gone on for a while, as real ones do."""

    def __init__(self) -> None:
        self._loud = 0

    @override
    def hear(self, frame: bytes) -> float:
        self._loud = self._loud + 1 if any(frame) else 0
        return float(self._loud > 4)


async def test_words_that_begin_as_the_last_are_understood_are_heard_from_their_beginning(
    tmp_path: Path,
) -> None:
    words = Words()
    late = Late(words)
    async with talking(
        clerk(), folder=tmp_path, vad=LateVad, recogniser=late, words=words
    ) as there:
        await there.goes_by(words.said("First words here", 0.6))
        await there.passes(0.7)
        second, begun = words.said("stop", 0.4), 4 * FRAME * 2
        await there.goes_by(second[:begun])
        late.may.set()
        await anyio.sleep(0.05)
        await there.goes_by(second[begun:])
        await there.room.wait(1)

        assert late.got == [("First words here", 0.6), ("stop", 0.4)]


async def test_who_speaks_longer_than_is_taken_at_once_is_heard_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.turn_table.LONGEST_MS", 1_600)
    words = Words()
    late = Late(words)
    async with talking(clerk(), folder=tmp_path, recogniser=late, words=words) as there:
        said = words.said("And another thing that I wanted to say", 2.88)
        half = 2 * RATE * 2  # of which a while is said after what is taken at once
        await there.goes_by(said[:half])
        late.may.set()
        await anyio.sleep(0.05)
        await there.goes_by(said[half:])
        await there.room.wait(1)

        assert [round(seconds, 2) for _, seconds in late.got] == [1.6, 1.28]


async def test_a_key_that_was_down_for_too_long_is_told_of(tmp_path: Path) -> None:
    async with talking(clerk(), folder=tmp_path) as there:
        await there.line.press(down=True)
        await there.room.wait(29)

        assert ["Press the key again" in str(shown) for shown in there.of(Trouble)] == [True]
