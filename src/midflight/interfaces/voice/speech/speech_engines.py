"""The four things that voice needs from outside, and sound as bytes: rates, WAV files, loudness."""

from __future__ import annotations

import io
import math
import wave
from collections.abc import AsyncGenerator, Callable
from math import gcd
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from midflight.errors import InvalidRequest, MidflightError

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
    """The words that somebody said, as far as an engine can tell; an empty text is never sure.

    ``confidence`` is ``None`` for an engine that does not say how sure it is: known words then
    count as heard, and other short ones do not.
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
        """Return the probability that somebody speaks in this frame of ``FRAME`` samples."""

    def forget(self) -> None:
        """Begin anew, as after a long silence."""


class Recogniser(Protocol):
    """Makes words of speech. Used by many lines at once.

    It has three seconds, or as many as its ``within_s`` says if it has one.
    """

    @property
    def name(self) -> str:
        """The engine's name, for people."""

    async def recognise(self, pcm: bytes) -> Heard:
        """Return the words that were said. Raises ``SpeechFailed``."""


class Synthesiser(Protocol):
    """Makes speech of words. Used by many lines at once."""

    @property
    def name(self) -> str:
        """The engine's name, for people."""

    def speak(self, text: str) -> AsyncGenerator[Chunk, None]:
        """The speech in pieces as they are made; raises ``SpeechFailed``. Closing it stops it."""


class Sink(Protocol):
    """Where speech is played. Counts samples that were really played, from the first one on."""

    @property
    def played(self) -> int:
        """The number of samples that were played, as far as is known."""

    async def play(self, pcm: bytes) -> None:
        """Play this after what is waiting to be played."""

    async def hold(self) -> None:
        """Be silent at once, and keep what is waiting."""

    async def go_on(self) -> None:
        """Play on at the very next sample."""

    async def cut(self) -> int:
        """Be silent and forget what is waiting; the last word on how much was played."""


class Engines(Struct, frozen=True):
    """The engines with which a line hears and speaks; several of a kind stand in for each other."""

    vad: Callable[[], Vad]
    recognisers: tuple[Recogniser, ...]
    synthesisers: tuple[Synthesiser, ...]


LOUDEST: Final = 32_767
TAPS: Final = 16  # on each side of a sample, where sound is made slower
MOMENT: Final = RATE // 50  # samples that are loud or soft together: a fiftieth of a second
SILENT_DB: Final = 30.0  # below the loud moments: before or after what was said, not in it
NOISY_DB: Final = 13.0  # clean speech is seldom so even; with as much noise beside it always is


def samples(pcm: bytes) -> NDArray[np.int16]:
    """The samples; half a one at the end is left out."""
    return np.frombuffer(pcm[: len(pcm) // WIDTH * WIDTH], "<i2")


def silence(seconds: float) -> bytes:
    """Nothing to be heard."""
    return bytes(int(seconds * RATE) * WIDTH)


def resampled(pcm: bytes, rate: int) -> bytes:
    """The same at our rate. What we could not render is filtered out first, or it would whistle."""
    if rate == RATE or not pcm:
        return pcm
    sound = samples(pcm).astype(np.float64)
    if rate > RATE:
        reach = TAPS * rate // RATE
        place = np.arange(-reach, reach + 1)
        taps = np.sinc(place * RATE / rate) * np.hanning(len(place))
        sound = np.convolve(sound, taps / taps.sum(), mode="same")
    count = len(sound) * RATE // rate
    wanted = np.arange(count) * (rate / RATE)
    return as_pcm(np.interp(wanted, np.arange(len(sound)), sound))


class Resampler:
    """The same for sound that comes in pieces: each is rendered with what lies around it."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._whole = rate // gcd(rate, RATE)  # samples after which both rates meet again
        self._around = -(-2 * TAPS * rate // RATE // self._whole) * self._whole
        self._kept = bytes(self._around * WIDTH)  # before the first there is silence

    def feed(self, pcm: bytes, *, last: bool = False) -> bytes:
        """The next piece at our rate, a little later than it came; ``last`` gives all of it."""
        self._kept += pcm + bytes(self._around * WIDTH) * last
        count = (len(self._kept) // WIDTH - 2 * self._around) // self._whole * self._whole
        if count <= 0:
            return b""
        seen = self._kept[: (count + 2 * self._around) * WIDTH]
        self._kept = self._kept[count * WIDTH :]
        before, wanted = self._around * RATE // self._rate, count * RATE // self._rate
        return resampled(seen, self._rate)[before * WIDTH : (before + wanted) * WIDTH]


def as_pcm(sound: NDArray[np.float64]) -> bytes:
    """Samples as bytes, cut off where they are too loud."""
    return np.clip(np.round(sound), -LOUDEST, LOUDEST).astype("<i2").tobytes()


def loudness(pcm: bytes) -> float:
    """The mean level, from 0 to 1."""
    sound = samples(pcm)
    return (
        float(np.sqrt(np.mean(np.square(sound, dtype=np.float64)))) / LOUDEST if len(sound) else 0.0
    )


def is_noisy(pcm: bytes) -> bool:
    """Return whether speech hardly stands out from the other sound."""
    return stands_out_db(pcm) < NOISY_DB


def stands_out_db(pcm: bytes) -> float:
    """Return how many decibels the loud moments are above the soft ones, without silence."""
    sound = samples(pcm)
    whole = sound[: len(sound) // MOMENT * MOMENT].reshape(-1, MOMENT).astype(np.float64)
    if not len(whole):
        return 0.0
    levels = 10 * np.log10(np.mean(np.square(whole), axis=1) + 1.0)
    (said,) = np.nonzero(levels >= np.percentile(levels, 90) - SILENT_DB)
    soft, loud = np.percentile(levels[said[0] : said[-1] + 1], (10, 90))
    return float(loud - soft)


def read_wav(given: Path | bytes) -> bytes:
    """The sound of a WAV file at our rate, its channels mixed; refuses what is none."""
    name = "the sound" if isinstance(given, bytes) else str(given)
    try:
        with wave.open(io.BytesIO(given) if isinstance(given, bytes) else str(given)) as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            raw = file.readframes(file.getnframes())
    except (wave.Error, EOFError, OSError) as error:
        why = getattr(error, "strerror", None) or str(error) or "it ends too soon"
        raise InvalidRequest(f"{name} cannot be read as WAV: {why}. Nothing was done.") from None
    if width != WIDTH or not rate:
        raise InvalidRequest(
            f"{name} has samples of {width * 8} bits; only 16 bits are taken. Nothing was done."
        )
    if channels > 1:
        whole = samples(raw)
        mixed = whole[: len(whole) // channels * channels].reshape(-1, channels)
        raw = as_pcm(mixed.mean(axis=1))
    return resampled(raw, rate)


def as_wav(pcm: bytes) -> bytes:
    """The bytes of a WAV file."""
    return _wav(pcm, 1)


def _wav(pcm: bytes, channels: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(WIDTH)
        out.setframerate(RATE)
        out.writeframes(pcm)
    return file.getvalue()


def both_sides(left: bytes, right: bytes) -> bytes:
    """The bytes of a WAV file with one of them on each side."""
    count = max(len(left), len(right)) // WIDTH
    sides = np.zeros((count, 2), "<i2")
    sides[: len(left) // WIDTH, 0] = samples(left)
    sides[: len(right) // WIDTH, 1] = samples(right)
    return _wav(sides.tobytes(), 2)
