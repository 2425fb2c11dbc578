"""Engines that fail are tried again, then others are; who speaks to us never meets a dead line."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

import anyio

from midflight.voice.seams import Chunk, Heard, Recogniser, SpeechFailed, Synthesiser

TRIES: Final = 2
RECOGNISE_S: Final = 6.0  # a person waits no longer for "what did you say?"
FIRST_S: Final = 4.0  # to the first sound
NEXT_S: Final = 4.0  # and between two


class AnyRecogniser:
    """The first that can; each is tried twice, and none for longer than a person waits."""

    def __init__(self, *engines: Recogniser, seconds: float = RECOGNISE_S) -> None:
        self._engines, self._seconds = engines, seconds
        self.name = ", ".join(engine.name for engine in engines)

    async def recognise(self, pcm: bytes) -> Heard:
        """What was said; raises ``SpeechFailed`` when none could tell."""
        why: SpeechFailed = SpeechFailed("recognition", "has no engine")
        for engine in self._engines:
            for _ in range(TRIES):
                try:
                    return await _in_time(engine, pcm, self._seconds / TRIES)
                except SpeechFailed as error:
                    why = error
        raise why


async def _in_time(engine: Recogniser, pcm: bytes, seconds: float) -> Heard:
    with anyio.move_on_after(seconds):
        return await engine.recognise(pcm)
    raise SpeechFailed(engine.name, f"took more than {seconds:g} s")


class AnySynthesiser:
    """The first that can. One that breaks off is left alone for the rest of the text."""

    def __init__(
        self, *engines: Synthesiser, first_s: float = FIRST_S, next_s: float = NEXT_S
    ) -> None:
        self._engines: Sequence[Synthesiser] = engines
        self._first_s, self._next_s = first_s, next_s
        self.name = ", ".join(engine.name for engine in engines)

    async def speak(self, text: str) -> AsyncGenerator[Chunk, None]:
        """The speech; raises ``SpeechFailed`` when none could, or one broke off in the middle."""
        why: SpeechFailed = SpeechFailed("synthesis", "has no engine")
        for engine in self._engines:
            for _ in range(TRIES):
                begun = False
                try:
                    async with aclosing(engine.speak(text)) as chunks:
                        while (chunk := await self._next(engine, chunks, begun)) is not None:
                            begun = True
                            yield chunk
                    return
                except SpeechFailed as error:
                    why = error
                    if begun:  # from the beginning again it would be heard twice
                        raise
        raise why

    async def _next(
        self, engine: Synthesiser, chunks: AsyncGenerator[Chunk, None], begun: bool
    ) -> Chunk | None:
        seconds = self._next_s if begun else self._first_s
        with anyio.move_on_after(seconds):
            return await anext(chunks, None)
        raise SpeechFailed(engine.name, f"was silent for {seconds:g} s")
