"""How far speech stands out of what else is to be heard."""

from __future__ import annotations

import numpy as np
import pytest

from midflight.interfaces.voice.speech.speech_engines import (
    RATE,
    as_pcm,
    is_noisy,
    silence,
    stands_out_db,
)


def syllables(soft: float) -> bytes:
    """Two seconds, five times loud and as often soft, by turns."""
    wave = np.sin(np.arange(2 * RATE) * 0.3) * 8_000
    loud = np.arange(2 * RATE) // (RATE // 5) % 2 == 0
    return as_pcm(np.where(loud, wave, wave * soft))


def with_noise(pcm: bytes, level: float) -> bytes:
    chance = np.random.default_rng(1)
    sound = np.frombuffer(pcm, "<i2").astype(np.float64)
    return as_pcm(sound + chance.standard_normal(len(sound)) * level)


def test_speech_that_rises_and_falls_stands_out() -> None:
    assert stands_out_db(syllables(0.1)) == pytest.approx(20.0, abs=0.5)
    assert not is_noisy(syllables(0.1))


def test_speech_in_noise_as_loud_as_itself_does_not() -> None:
    assert is_noisy(with_noise(syllables(0.1), 5_000))


def test_silence_before_and_after_counts_for_nothing() -> None:
    even = with_noise(syllables(0.1), 5_000)

    assert stands_out_db(silence(1) + even + silence(1)) == pytest.approx(stands_out_db(even))


def test_silence_between_words_counts() -> None:
    even = with_noise(syllables(1.0), 1_000)

    assert not is_noisy(even + silence(0.5) + even)


@pytest.mark.parametrize("pcm", [b"", b"\1", silence(1)])
def test_nothing_stands_out_of_nothing(pcm: bytes) -> None:
    assert stands_out_db(pcm) == 0.0
