"""The four things that voice needs from outside, and what passes through them.

Sound is 16-bit PCM in bytes: one channel, little-endian, 16,000 samples a second.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from typing import Final, Protocol

from msgspec import Struct

from midflight.errors import MidflightError

RATE: Final = 16_000
FRAME: Final = 512  # samples that are listened to at once: 32 ms
WIDTH: Final = 2  # bytes of a sample
FRAME_MS: Final = FRAME * 1000 // RATE


class SpeechFailed(MidflightError):
    """An engine could not hear or speak. What was said is kept; another may try."""

    def __init__(self, engine: str, why: str) -> None:
        self.engine, self.why = engine, why
        super().__init__(f"{engine} {why}. Nothing was changed.")


class Word(Struct, frozen=True):
    """A recognised word, and how sure the engine is of it."""

    text: str
    confidence: float


class Heard(Struct, frozen=True):
    """What somebody said, as far as an engine can tell; no text is never sure.

    An engine that does not say how sure it is has ``None`` for it: words that are known then count
    as heard, and other short ones do not.
    """

    text: str
    confidence: float | None
    words: tuple[Word, ...] = ()
    lean: float = 0.0  # a short sound: above 0 it is nearer to an assent, below to an order
    control: float = -math.inf  # and the logarithm of the chance that it is "wait", "stop", "go on"


class Mark(Struct, frozen=True):
    """From this sample of the speech on, the text is spoken from this character on."""

    sample: int
    at: int


class Chunk(Struct, frozen=True):
    """A piece of speech. Marks count samples and characters from the beginning of its text."""

    pcm: bytes
    marks: tuple[Mark, ...] = ()


class Vad(Protocol):
    """Tells speech from other sounds, frame by frame. It remembers; one for each line."""

    def hear(self, frame: bytes) -> float:
        """How likely it is that somebody speaks in this frame of ``FRAME`` samples."""

    def forget(self) -> None:
        """Begin anew, as after a long silence."""


class Recogniser(Protocol):
    """Makes words of speech. Used by many lines at once.

    It has three seconds, or as many as its ``within_s`` says if it has one.
    """

    @property
    def name(self) -> str:
        """What people call it."""

    async def recognise(self, pcm: bytes) -> Heard:
        """What was said; raises ``SpeechFailed``."""


class Synthesiser(Protocol):
    """Makes speech of words. Used by many lines at once."""

    @property
    def name(self) -> str:
        """What people call it."""

    def speak(self, text: str) -> AsyncGenerator[Chunk, None]:
        """The speech in pieces as they are made; raises ``SpeechFailed``. Closing it stops it."""


class Sink(Protocol):
    """Where speech is played. Counts samples that were really played, from the first one on."""

    @property
    def played(self) -> int:
        """How many were, as far as is known."""

    async def play(self, pcm: bytes) -> None:
        """Play this after what is waiting to be played."""

    async def hold(self) -> None:
        """Be silent at once, and keep what is waiting."""

    async def go_on(self) -> None:
        """Play on at the very next sample."""

    async def cut(self) -> int:
        """Be silent and forget what is waiting; the last word on how much was played."""
