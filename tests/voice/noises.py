"""What else a microphone hears, made from a recipe and the same each time.

A recipe beside speech is ``pink15``: pink noise 15 dB below it. One that stands alone is
``cough``, ``clicks`` and so on, with a number for its seed: ``cough:3``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from midflight.interfaces.voice.speech.speech_engines import RATE, as_pcm, samples

Sound = NDArray[np.float64]


def mixed(pcm: bytes, recipe: str, seed: int = 1) -> bytes:
    """Speech, and noise that many decibels below it."""
    if recipe == "clean":
        return pcm
    kind, below = recipe.rstrip("-0123456789"), int(recipe.lstrip("abcdefghijklmnopqrstuvwxyz"))
    speech = samples(pcm).astype(np.float64)
    noise = COLOURS[kind](len(speech), np.random.default_rng(seed))
    level = np.sqrt(np.mean(speech**2)) * 10 ** (-below / 20)
    return as_pcm(speech + noise * (level / np.sqrt(np.mean(noise**2))))


def noise(recipe: str) -> bytes:
    """A sound of its own."""
    kind, _, seed = recipe.partition(":")
    chance = np.random.default_rng(int(seed or 1))
    made = SOUNDS[kind](chance)
    return as_pcm(made / np.abs(made).max() * chance.uniform(4_000, 16_000))


def white(count: int, chance: np.random.Generator) -> Sound:
    return chance.standard_normal(count)


def pink(count: int, chance: np.random.Generator) -> Sound:
    spectrum = np.fft.rfft(chance.standard_normal(count))
    return np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 1)), count)


def brown(count: int, chance: np.random.Generator) -> Sound:
    """Deeper than pink: a ventilator, a car from inside."""
    spectrum = np.fft.rfft(chance.standard_normal(count))
    return np.fft.irfft(spectrum / np.maximum(np.arange(len(spectrum)), 1), count)


def _band(count: int, low: float, high: float, chance: np.random.Generator) -> Sound:
    spectrum = np.fft.rfft(chance.standard_normal(count))
    hertz = np.fft.rfftfreq(count, 1 / RATE)
    return np.fft.irfft(np.where((hertz >= low) & (hertz <= high), spectrum, 0), count)


def _fading(count: int, seconds: float) -> Sound:
    return np.exp(-np.arange(count) / (seconds * RATE))


def _cough(chance: np.random.Generator) -> Sound:
    """One to three bursts of breath, each with a sharp beginning."""
    parts = []
    for _ in range(chance.integers(1, 4)):
        count = int(chance.uniform(0.12, 0.3) * RATE)
        burst = _band(count, 250, chance.uniform(2500, 5000), chance)
        parts += [burst * _fading(count, 0.07), np.zeros(int(0.08 * RATE))]
    return np.concatenate(parts)


def _clicks(chance: np.random.Generator) -> Sound:
    """Somebody types."""
    sound = np.zeros(int(chance.uniform(0.5, 1.5) * RATE))
    for place in chance.integers(0, len(sound) - 400, chance.integers(3, 12)):
        sound[place : place + 160] += chance.standard_normal(160) * _fading(160, 0.002)
    return sound


def _thump(chance: np.random.Generator) -> Sound:
    """A door, a cup on a table."""
    count = int(0.35 * RATE)
    return _band(count, 40, chance.uniform(150, 400), chance) * _fading(count, 0.06)


def _hiss(chance: np.random.Generator) -> Sound:
    """Breath, a car that passes."""
    count = int(chance.uniform(0.4, 2.0) * RATE)
    return pink(count, chance) * np.hanning(count)


def _beep(chance: np.random.Generator) -> Sound:
    """A telephone, a microwave oven."""
    count = int(chance.uniform(0.2, 0.8) * RATE)
    place = np.arange(count) / RATE
    return np.sin(2 * np.pi * chance.uniform(400, 2000) * place) * np.hanning(count)


def _hum(chance: np.random.Generator) -> Sound:
    count = int(chance.uniform(1.0, 3.0) * RATE)
    place = np.arange(count) / RATE
    overtones = (np.sin(2 * np.pi * 50 * n * place) / n for n in range(1, 8))
    return np.asarray(sum(overtones)) + 0.05 * white(count, chance)


def _sneeze(chance: np.random.Generator) -> Sound:
    """Breath drawn in, and let out at once."""
    drawn, out = int(chance.uniform(0.3, 0.6) * RATE), int(chance.uniform(0.25, 0.45) * RATE)
    first = _band(drawn, 800, 4000, chance) * np.linspace(0, 0.25, drawn)
    return np.concatenate([first, _band(out, 300, 7000, chance) * _fading(out, 0.09)])


def _keys(chance: np.random.Generator) -> Sound:
    """A bunch of keys."""
    sound = np.zeros(int(chance.uniform(0.6, 1.6) * RATE))
    place = np.arange(1600)
    for start in chance.integers(0, len(sound) - 1600, chance.integers(8, 25)):
        ring = np.sin(2 * np.pi * chance.uniform(3000, 7000) * place / RATE)
        sound[start : start + 1600] += ring * _fading(1600, 0.015)
    return sound


COLOURS: dict[str, Callable[[int, np.random.Generator], Sound]] = {
    "white": white,
    "pink": pink,
    "brown": brown,
}
SOUNDS: dict[str, Callable[[np.random.Generator], Sound]] = {
    "cough": _cough,
    "clicks": _clicks,
    "thump": _thump,
    "hiss": _hiss,
    "beep": _beep,
    "hum": _hum,
    "sneeze": _sneeze,
    "keys": _keys,
}
