"""People to be heard: several engines' voices, and recordings of humans.

``espeak:en-us+f3``, ``flite:slt``, ``pico:en-GB`` speak any text (the last needs the package
ttspico, which ``make bench-voice`` installs); ``flite:slt@0.90`` is the same voice a tenth slower
and deeper, which is another person to an ear; ``human:cards/001`` is a recording of Debian's
pocketsphinx-testdata, and ``phone:transfer`` one of its asterisk-core-sounds-en-wav, whatever text
is asked for. Everybody sounds the same each time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from midflight.interfaces.voice.speech.speech_engines import read_wav, samples

HUMAN = Path("/usr/share/pocketsphinx/test/data")
PHONE = Path("/usr/share/asterisk/sounds/en_US_f_Allison")
QUIET = 300  # of 32,767: below is silence between words
LEVEL = 6_000  # the mean of everybody, so that noise is as loud beside each


ESPEAK = """
import sys
from midflight.interfaces.voice.speech.espeak import Espeak
sys.stdout.buffer.write(Espeak(sys.argv[2]).made(sys.argv[1])[0])
"""


def said(text: str, voice: str) -> bytes:
    """The sound of it, without the silence before and after, at everybody's level."""
    voice, _, speed = voice.partition("@")
    return _levelled(_trimmed(_at_speed(_made(text, voice), float(speed or 1))))


@cache
def _made(text: str, voice: str) -> bytes:
    engine, _, name = voice.partition(":")
    match engine:
        case "espeak":
            return _espeak(text, name)
        case "pico":
            return _pico(text, name)
        case "flite":
            return _flite(text, name)
        case "phone":
            return read_wav(PHONE / f"{name}.wav")
        case _:
            raw = HUMAN / f"{name}.raw"
            return raw.read_bytes() if raw.exists() else read_wav(HUMAN / f"{name}.wav")


def _espeak(text: str, voice: str) -> bytes:
    """By a process of its own: the library's chance goes on from what it said before."""
    speak = [sys.executable, "-c", ESPEAK, text, voice]
    return subprocess.run(speak, check=True, timeout=60, stdout=subprocess.PIPE).stdout


def _pico(text: str, language: str) -> bytes:
    import ttspico

    return bytes(ttspico.TtsEngine(language).speak(text))


def _flite(text: str, voice: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "said.wav"
        subprocess.run(["flite", "-voice", voice, "-t", text, "-o", file], check=True, timeout=20)
        return read_wav(file)


def _at_speed(pcm: bytes, speed: float) -> bytes:
    sound = samples(pcm)
    places = np.arange(0, len(sound) - 1, speed)
    moved: np.ndarray = np.interp(places, np.arange(len(sound)), sound)
    return bytes(moved.astype("<i2").tobytes())


def _trimmed(pcm: bytes) -> bytes:
    loud = np.flatnonzero(np.abs(samples(pcm).astype(np.int32)) > QUIET)
    return pcm[2 * loud[0] : 2 * loud[-1] + 2] if len(loud) else pcm


def _levelled(pcm: bytes) -> bytes:
    sound = samples(pcm).astype(np.float64)
    level = np.sqrt(np.mean(sound**2)) or 1.0
    return np.clip(sound * (LEVEL / level), -32_000, 32_000).astype("<i2").tobytes()
