"""espeak-ng, by its C library: robotic, tiny, and it tells at which sample each word begins.

The library has one state a process, and with it one lock; a sentence takes a few milliseconds. Its
word events are not words as we write them ("has been" is one, "42" is two), so they are taken by
the place in the text, never by counting.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import AsyncGenerator
from ctypes.util import find_library
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from midflight.errors import to_install
from midflight.interfaces.voice.speech.speech_engines import Chunk, Mark, SpeechFailed, resampled

SYNCHRONOUS: Final = 2  # the other way calls us back from a thread, after it has freed the buffer
BUFFER_MS: Final = 20
WORD, LIST_END = 1, 0
UTF8: Final = 1
RATE_PARAMETER, PITCH_PARAMETER = 1, 3
PIECE: Final = 3200  # samples: a fifth of a second
DO_NOT_EXIT: Final = 0x8000  # or a missing file would end the process
PACKAGED: Final = ("libespeak-ng.so", "libespeak-ng.dylib", "espeak-ng.dll")
NAMES: Final = ("libespeak-ng.so.1", "libespeak-ng.dylib", "libespeak-ng.dll")


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


class Espeak:
    """A voice of espeak-ng, such as ``en-us`` or ``en-gb+f3``; ``rate`` is in words a minute."""

    name = "espeak-ng"

    def __init__(self, voice: str = "en-us", *, rate: int = 165, pitch: int = 50) -> None:
        self._voice, self._rate, self._pitch = voice, rate, pitch

    async def speak(self, text: str) -> AsyncGenerator[Chunk, None]:
        """Make the whole speech, in a few milliseconds, and yield it in pieces."""
        pcm, marks = await anyio.to_thread.run_sync(self.made, text, abandon_on_cancel=True)
        for start in range(0, len(pcm), PIECE * 2):
            first, last = start // 2, start // 2 + PIECE
            within = tuple(mark for mark in marks if first <= mark.sample < last)
            yield Chunk(pcm[start : start + PIECE * 2], within)

    def made(self, text: str) -> tuple[bytes, list[Mark]]:
        """Return the speech, and the places at which its words begin."""
        library = _library()
        with library.lock:
            raw, marks = library.made(text, self._voice, self._rate, self._pitch)
        return resampled(raw, library.rate), marks


class _Library:
    """The C library, which is called by one thread at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._c, data = _loaded()
        self.rate = self._c.espeak_Initialize(SYNCHRONOUS, BUFFER_MS, data, DO_NOT_EXIT)
        if self.rate <= 0:
            raise SpeechFailed(
                "espeak-ng",
                f"did not start, as its data is missing; {to_install('voice')} brings it",
            )
        self._sound = bytearray()
        self._marks: list[tuple[int, int]] = []
        self._callback = _Callback(self._take)  # kept: the library does not
        self._c.espeak_SetSynthCallback(self._callback)

    def _take(self, wav: Any, count: int, events: Any) -> int:
        place = 0
        while events[place].type != LIST_END:
            if events[place].type == WORD:
                self._marks.append((events[place].sample, events[place].text_position - 1))
            place += 1
        if wav and count > 0:
            self._sound += ctypes.string_at(wav, count * 2)
        return 0

    def made(self, text: str, voice: str, rate: int, pitch: int) -> tuple[bytes, list[Mark]]:
        self._sound, self._marks = bytearray(), []
        if self._c.espeak_SetVoiceByName(voice.encode()) != 0:
            raise SpeechFailed(
                "espeak-ng", f"has no voice {voice!r}; give one such as en-us or en-gb+f3"
            )
        self._c.espeak_SetParameter(RATE_PARAMETER, rate, 0)
        self._c.espeak_SetParameter(PITCH_PARAMETER, pitch, 0)
        given = text.encode() + b"\0"
        done = self._c.espeak_Synth(given, len(given), 0, 1, 0, UTF8, None, None)
        self._c.espeak_Synchronize()
        if done != 0:
            raise SpeechFailed("espeak-ng", "could not speak")
        scaled = [Mark(sample * 16_000 // self.rate, at) for sample, at in self._marks]
        return bytes(self._sound), scaled


def _loaded() -> tuple[ctypes.CDLL, bytes | None]:
    """Return the library and the folder of its data: the package's, or the system's."""
    found = find_spec("espeakng_loader")
    folder = Path(found.origin).parent if found is not None and found.origin else Path()
    packaged = [(str(folder / name), bytes(folder)) for name in PACKAGED] if found else []
    for name, data in [*packaged, *((name, None) for name in (*NAMES, find_library("espeak-ng")))]:
        if name is None:
            continue
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.espeak_Synth.argtypes = (
            ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int, ctypes.c_uint,
            ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p,
        )  # fmt: skip
        return library, data
    raise SpeechFailed("espeak-ng", f"is not installed; {to_install('voice')} brings it")


@cache
def _library() -> _Library:
    return _Library()
