"""Listens: frames in, events for the table out, and the sound that is to be recognised."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import Final

from midflight.inputs import Clock
from midflight.interfaces.voice.speech.speech_engines import (
    FRAME,
    FRAME_MS,
    RATE,
    WIDTH,
    SpeechFailed,
    Vad,
    loudness,
)
from midflight.interfaces.voice.turn_table import SURE

log: Final = logging.getLogger("midflight.interfaces.voice")
BEFORE_MS: Final = 320  # of sound before the onset: the ear is late, and words begin softly
BEFORE: Final = BEFORE_MS * RATE // 1000 * WIDTH
AFRESH_MS: Final = 2_000  # of silence, after which the ear's memory is emptied
FAINT: Final = 0.1
KEPT_MAX: Final = 42 * RATE * WIDTH  # bytes of one sound, and of what follows while it is judged
SLOW_S: Final = 0.1  # for a frame of a third of it: who is so slow makes everybody late
SLOW_FRAMES: Final = 5  # in a row; a machine may stumble
STUCK_S: Final = 1.0  # for a single one: nobody on the server was heard meanwhile
REST_MS: Final = 5_000  # for which it is not asked then: it may have been the machine that stopped
IMAGINED_MS: Final = 960
INAUDIBLE: Final = 1e-4
LOUD: Final = 0.02  # of a frame, to count as speech where there is no better ear
FRAME_BYTES: Final = FRAME * WIDTH


class Ear:
    """One line's. Whatever its VAD does, every frame has a likelihood."""

    def __init__(self, vad: Vad, clock: Clock = perf_counter) -> None:
        self._vad: Vad | None = vad
        self._clock = clock
        self._slow = self._imagined_ms = self._rest_ms = 0
        self._was_stuck = False
        self._stale = False  # what it remembers is long ago
        self._before = bytearray()
        self._sound: bytearray | None = None
        self._ended: int | None = None  # where in it that is over which is judged
        self._left = b""  # of a frame
        self._quiet_ms = 0
        self.level = 0.0
        self.trouble = ""  # why it hears worse than it should

    def frames(self, pcm: bytes) -> list[bytes]:
        """Sound that came in pieces of any size, in frames."""
        whole = self._left + pcm
        count = len(whole) // FRAME_BYTES
        self._left = whole[count * FRAME_BYTES :]
        return [whole[n * FRAME_BYTES : (n + 1) * FRAME_BYTES] for n in range(count)]

    def hear(self, frame: bytes) -> float:
        """Return the probability that somebody speaks in the frame."""
        self.level = loudness(frame)
        if self._sound is None:
            self._before += frame
            del self._before[:-BEFORE]
        elif len(self._sound) < KEPT_MAX:
            self._sound += frame
        likely = self._likely(frame)
        self._quiet_ms = self._quiet_ms + FRAME_MS if likely < FAINT else 0
        return likely

    def _likely(self, frame: bytes) -> float:
        if self._rest_ms > 0:
            self._rest_ms = max(0, self._rest_ms - FRAME_MS)
        elif self._vad is not None:
            try:
                began = self._clock()
                if self._quiet_ms >= AFRESH_MS:
                    self._quiet_ms, self._stale = 0, True
                if self._stale:
                    self._vad.forget()
                    self._stale = False
                likely = self._vad.hear(frame)
                why = self._doubt(likely, self._clock() - began)
                if not why:
                    return likely
            except SpeechFailed as error:
                why = error.why
            except Exception as error:  # noqa: BLE001 - an edge: it is somebody else's code
                why = f"has broken: {type(error).__name__}: {error}"
            words = "The engine that notices speech failed in a voice call; it %s"
            log.warning(words, why, extra={"action": "vad_failed", "why": why})
            if not self._rest_ms:
                self._vad, why = None, f"{why}; from now on I go by loudness"
            self.trouble = why
        return 1.0 if self.level >= LOUD else 0.0

    def _doubt(self, likely: float, seconds: float) -> str:
        """Why it cannot be believed, if it cannot."""
        if not 0.0 <= likely <= 1.0:  # also what is no number at all
            return f"gave {likely}, which is not between 0 and 1"
        if seconds > STUCK_S:
            return self._stuck(f"took {seconds:.1f} s for {FRAME_MS} ms")
        self._slow = self._slow + 1 if seconds > SLOW_S else 0
        if self._slow >= SLOW_FRAMES:
            return f"takes more than {SLOW_S:g} s for each {FRAME_MS} ms"
        unheard = likely >= SURE and self.level < INAUDIBLE
        self._imagined_ms = self._imagined_ms + FRAME_MS if unheard else 0
        return "hears speech where there is no sound" if self._imagined_ms >= IMAGINED_MS else ""

    def _stuck(self, took: str) -> str:
        """Once may be the machine's doing, of which the ear knows nothing; not twice."""
        if self._was_stuck:  # layer ear-makes-everybody-wait-again
            return f"{took}, and not for the first time"
        self._was_stuck = self._stale = True
        self._rest_ms = REST_MS  # layer machine-stops-once-does-not-cost
        return f"{took}; for {REST_MS // 1000} s I go by loudness"

    def keep(self) -> bool:
        """A sound has begun: keep it, and what came just before. Whether it is a new one."""
        if self._sound is not None:
            return False
        self._sound, self._before = self._before, bytearray()
        self._ended = None
        return True

    @property
    def sound(self) -> bytes:
        """The sound kept so far."""
        return bytes(self._sound or b"")

    def end(self) -> bytes:
        """All of it: it seems to be over. Silence at its end is before whatever comes next, too."""
        self._ended = self._without_silence()
        return self.sound

    def _without_silence(self) -> int:
        return max(0, len(self.sound) - self._quiet_ms // FRAME_MS * FRAME_BYTES)

    def forget(self) -> None:
        """The sound is dealt with. What came after its end may be the beginning of another."""
        if self._sound is not None:
            since = self._without_silence() if self._ended is None else self._ended
            self._before, self._sound = self._sound[since:], None
