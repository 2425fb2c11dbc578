"""A studio: people whose words are plain to hear, engines that do as they are told, and a room.

Somebody's words are a sound of one level, and the recogniser knows which words have which level.
Each spoken word takes a tenth of a second. So what was heard can be told to the sample.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import numpy as np

from midflight.agents import Agent
from midflight.control import Control, local
from midflight.interfaces.voice.line import Line, line_to
from midflight.interfaces.voice.room import Room, RoomSink, Timed
from midflight.interfaces.voice.speech.speech_engines import (
    FRAME,
    RATE,
    Chunk,
    Engines,
    Heard,
    Mark,
    Recogniser,
    SpeechFailed,
    Synthesiser,
    Vad,
    samples,
)
from midflight.interfaces.voice.voice_wire import Shown
from midflight.journal.record import Actor

WORD = RATE // 10
ANN = Actor("ann", channel="voice")
THREAD = "t-phone"


class Words:
    """Everything that is said in a test: a level for each, and back."""

    def __init__(self) -> None:
        self._said: list[Heard] = []

    def said(
        self, text: str, seconds: float = 0.6, *, confidence: float = 0.9, lean: float = 0.0
    ) -> bytes:
        self._said.append(Heard(text, confidence, lean=lean))
        return np.full(int(seconds * RATE), 1_000 + 10 * len(self._said), "<i2").tobytes()

    def of(self, pcm: bytes) -> Heard:
        loud = samples(pcm)
        levels = loud[loud > 0]
        return self._said[(int(levels[0]) - 1_000) // 10 - 1] if len(levels) else Heard("", 0.0)


class PlainVad:
    def hear(self, frame: bytes) -> float:
        return 1.0 if any(frame) else 0.0

    def forget(self) -> None:
        pass


class PlainRecogniser:
    """Knows all words; ``before`` may fail, ``thinks`` take its time, ``after`` tell others."""

    name = "plain"

    def __init__(self, words: Words) -> None:
        self._words = words
        self.before: Callable[[], object] = lambda: None
        self.thinks: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint
        self.after: Callable[[Heard, bytes], Heard] = lambda heard, _: heard

    async def recognise(self, pcm: bytes) -> Heard:
        self.before()
        await self.thinks()
        return self.after(self._words.of(pcm), pcm)


class PlainSynthesiser:
    name = "plain"

    def __init__(self) -> None:
        self.fails_after: int | None = None  # chunks
        self.stalls_after: int | None = None
        self.asked: list[str] = []

    async def speak(self, text: str) -> AsyncGenerator[Chunk, None]:
        self.asked.append(text)
        for number, word in enumerate(re.finditer(r"\S+", text)):
            if number == self.fails_after:
                raise SpeechFailed(self.name, "has broken")
            if number == self.stalls_after:
                await anyio.sleep(60)
            tone = np.full(WORD, 7_000 + number, "<i2").tobytes()
            yield Chunk(tone, (Mark(number * WORD, word.start()),))


class Scene:
    """A line and its room, and all that was shown."""

    def __init__(
        self,
        control: Control,
        line: Line,
        room: Room,
        words: Words,
        engines: Engines,
        shown: list[Shown],
    ) -> None:
        self.control, self.line, self.room, self.words = control, line, room, words
        self._engines, self.shown = engines, shown

    def spoken(self) -> str:
        """All that the voice was asked to say."""
        [voice] = self._engines.synthesisers
        assert isinstance(voice, PlainSynthesiser)
        return " ".join(" ".join(voice.asked).split())

    async def say(self, text: str, seconds: float = 0.6, **how: float) -> None:
        """Say it, and wait in silence until it was understood and done."""
        await self.room.hear(self.words.said(text, seconds, **how))
        await self.room.wait(0.9)

    async def passes(self, seconds: float) -> None:
        """So much time, in which those who work at something are not waited for."""
        await self.goes_by(bytes(int(seconds * RATE) * 2))

    async def goes_by(self, pcm: bytes) -> None:
        """The same, and somebody speaks in it."""
        for start in range(0, len(pcm), FRAME * 2):
            await self.line.hear(pcm[start : start + FRAME * 2])
            await anyio.lowlevel.checkpoint()
            self.room.sink.pass_time(FRAME)

    async def hears(self, words: int) -> None:
        """Listen until so many words were played in all."""
        assert await self.room.until(lambda: self.room.sink.played >= words * WORD, 30)

    async def rests(self) -> None:
        assert await self.room.until_silent(0.3)

    def of(self, kind: type[Shown]) -> list[Shown]:
        return [shown for shown in self.shown if isinstance(shown, kind)]

    async def said_by_agent(self) -> list[str]:
        return [text for text, _ in await told(self.control)]


async def told(control: Control) -> list[tuple[str, str]]:
    """What agents have said, as it is on record, and what became of it."""
    lines = await control.transcript(THREAD)
    return [(line.text, line.status) for line in lines if line.kind == "said: text"]


@asynccontextmanager
async def talking(
    *agents: Agent,
    folder: Path,
    vad: Callable[[], Vad] = PlainVad,
    recogniser: Recogniser | None = None,
    synthesiser: Synthesiser | None = None,
    sink: Timed | None = None,
    words: Words | None = None,
    who: Actor = ANN,
) -> AsyncIterator[Scene]:
    """Somebody on the line with the first of these agents, in a store of its own."""
    words = words or Words()
    heard = recogniser or PlainRecogniser(words)
    engines = Engines(vad, (heard,), (synthesiser or PlainSynthesiser(),))
    async with (
        local("memory:", *agents, workdir=folder, drain_s=0.2) as control,
        _line(control, agents[0], engines, words, sink or RoomSink(), who) as scene,
    ):
        yield scene


@asynccontextmanager
async def on_the_line(
    agent: Agent,
    folder: Path,
    recogniser: Recogniser | None = None,
    helpers: Sequence[Agent] = (),
) -> AsyncIterator[tuple[Control, Callable[[], AbstractAsyncContextManager[Scene]]]]:
    """The same for who looks at what is left when the line has ended."""
    words = Words()
    heard = recogniser or PlainRecogniser(words)
    engines = Engines(PlainVad, (heard,), (PlainSynthesiser(),))
    async with local("memory:", agent, *helpers, workdir=folder, drain_s=0.2) as control:
        yield control, lambda: _line(control, agent, engines, words, RoomSink(), ANN)


def line_of(control: Control, agent: Agent, who: Actor) -> AbstractAsyncContextManager[Scene]:
    """A line of its own, with engines of its own, to a thread that others may be on the line to."""
    words = Words()
    engines = Engines(PlainVad, (PlainRecogniser(words),), (PlainSynthesiser(),))
    return _line(control, agent, engines, words, RoomSink(), who)


@asynccontextmanager
async def _line(
    control: Control, agent: Agent, engines: Engines, words: Words, sink: Timed, who: Actor
) -> AsyncIterator[Scene]:
    shown: list[Shown] = []
    async with line_to(
        control, agent, THREAD, who=who, engines=engines, sink=sink, show=shown.append
    ) as line:
        scene = Scene(control, line, Room(line, sink), words, engines, shown)
        await scene.room.wait(0.1)
        yield scene
