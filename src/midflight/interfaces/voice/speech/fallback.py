"""Engines that fail are tried again, then others are; who speaks to us never meets a dead line.

An engine is somebody else's code. Whatever it raises, and whatever it gives that is no speech, is a
failure of that engine and of nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from math import isfinite
from typing import Final

import anyio
from msgspec.structs import replace

from midflight.interfaces.voice.speech.speech_engines import (
    RATE,
    WIDTH,
    Chunk,
    Heard,
    Mark,
    Recogniser,
    SpeechFailed,
    Synthesiser,
    Word,
)

TRIES: Final = 2
RECOGNISE_S: Final = 6.0  # a person waits no longer for "what did you say?"
FIRST_S: Final = 4.0  # to the first sound
NEXT_S: Final = 4.0  # and between two
LETTER_S: Final = 0.6  # the slowest: a long number, read out; who takes longer does not end
TEXT_MAX: Final = 10_000  # characters of what was said in half a minute


class AnyRecogniser:
    """The first that can; each is tried twice, and none for longer than a person waits."""

    def __init__(self, *engines: Recogniser) -> None:
        self._engines = engines
        self.name = ", ".join(engine.name for engine in engines)

    async def recognise(self, pcm: bytes) -> Heard:
        """Return the words that were said. Raises ``SpeechFailed`` when no engine could tell."""
        why = SpeechFailed("recognition", "has no engine")
        for engine in self._engines:
            for _ in range(TRIES):
                try:
                    return await _in_time(engine, pcm)
                except SpeechFailed as error:
                    why = error
                except Exception as error:  # noqa: BLE001 - an edge: it is somebody else's code
                    why = _broken(engine.name, error)
        raise why


async def _in_time(engine: Recogniser, pcm: bytes) -> Heard:
    """One that makes lines wait for each other says itself how long it may take."""
    seconds = getattr(engine, "within_s", RECOGNISE_S / TRIES)
    with anyio.move_on_after(seconds):
        return _checked(engine.name, await engine.recognise(pcm))
    raise SpeechFailed(engine.name, f"took more than {seconds:g} s")


def _checked(name: str, heard: object) -> Heard:
    """It, if it is what an engine may give: it is somebody else's, whatever its types say."""
    if not isinstance(heard, Heard) or not _is(str, heard.text):
        raise SpeechFailed(name, "gave no text")
    if len(heard.text) > TEXT_MAX:
        raise SpeechFailed(
            name, f"gave {len(heard.text):,} characters, more than anybody can say in half a minute"
        )
    if not _is(tuple, heard.words) or not all(map(_is_word, heard.words)):
        raise SpeechFailed(
            name, "gave words in a wrong form: a Word has a text and a confidence from 0 to 1"
        )
    if heard.confidence is not None and not _is_likelihood(heard.confidence):
        raise SpeechFailed(
            name, f"gave a confidence of {heard.confidence}, which is not between 0 and 1"
        )
    if not _is((int, float), heard.lean) or not isfinite(heard.lean):
        raise SpeechFailed(
            name, f"gave {heard.lean} as the `lean` of a sound, which is not a number"
        )
    return heard


def _is(kind: type | tuple[type, ...], given: object) -> bool:
    return isinstance(given, kind)


def _is_word(word: object) -> bool:
    return isinstance(word, Word) and _is(str, word.text) and _is_likelihood(word.confidence)


def _is_likelihood(given: object) -> bool:
    return isinstance(given, int | float) and 0.0 <= given <= 1.0  # also what is no number at all


def _broken(name: str, error: Exception) -> SpeechFailed:
    return SpeechFailed(name, f"has broken: {type(error).__name__}: {error}")


class AnySynthesiser:
    """The first that can. Where one breaks off, the next goes on at that word if it is known."""

    def __init__(self, *engines: Synthesiser) -> None:
        self._engines = engines
        self.name = ", ".join(engine.name for engine in engines)

    async def speak(self, text: str) -> AsyncGenerator[Chunk, None]:
        """The speech; raises ``SpeechFailed`` when none could, or nobody knows where one broke."""
        why = SpeechFailed("synthesis", "has no engine")
        made = _Made(text)
        for engine in (engine for engine in self._engines for _ in range(TRIES)):
            if made.broke_off_at is None:
                break  # from the beginning again it would be heard twice
            try:
                async for chunk in self._spoken(engine, made):
                    yield chunk
                return
            except SpeechFailed as error:
                why = error
            except Exception as error:  # noqa: BLE001 - an edge: it is somebody else's code
                why = _broken(engine.name, error)
        raise why

    async def _spoken(self, engine: Synthesiser, made: _Made) -> AsyncGenerator[Chunk, None]:
        place, before, loud = made.broke_off_at or 0, made.samples, made.loud
        async with aclosing(engine.speak(made.text[place:])) as chunks:
            while (chunk := await _next(engine.name, chunks, made.samples > before)) is not None:
                marks = tuple(Mark(mark.sample + before, mark.at + place) for mark in chunk.marks)
                made.note(engine.name, chunk, marks)
                yield replace(chunk, marks=marks)
        if made.loud == loud:
            raise SpeechFailed(engine.name, "gave no sound")


async def _next(name: str, chunks: AsyncGenerator[Chunk, None], begun: bool) -> Chunk | None:
    """The next piece that can be heard."""
    seconds = NEXT_S if begun else FIRST_S
    with anyio.move_on_after(seconds):
        while (chunk := await anext(chunks, None)) is not None:
            if chunk.pcm or chunk.marks:
                return chunk
        return None
    raise SpeechFailed(name, f"was silent for {seconds:g} s")


class _Made:
    """The speech made from a text so far, by whichever engine."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = 0
        self.loud = 0  # pieces in which there is anything to be heard
        self._words: list[int] = []  # where those begin that were begun

    @property
    def broke_off_at(self) -> int | None:
        """Where somebody else can go on; None where that is not known."""
        return max(self._words) if self._words else None if self.samples else 0

    def note(self, name: str, chunk: Chunk, marks: tuple[Mark, ...]) -> None:
        if len(chunk.pcm) % WIDTH:
            raise SpeechFailed(name, "gave sound that is not in samples of 16 bits")
        if not all(0 <= mark.at <= len(self.text) and mark.sample >= 0 for mark in marks):
            raise SpeechFailed(name, "gave marks for places outside the text")
        if self.samples + len(chunk.pcm) // WIDTH > (len(self.text) + 5) * LETTER_S * RATE:
            raise SpeechFailed(name, f"did not end: {self.samples // RATE} s for one clause")
        self.samples += len(chunk.pcm) // WIDTH
        self.loud += any(chunk.pcm)
        self._words += (mark.at for mark in marks)
