"""Loudspeakers and a microphone that keep the world's time, each in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from midflight.interfaces.voice.speech.speech_engines import FRAME, RATE, WIDTH, samples

TICK = RATE // 50  # samples that a loudspeaker takes at once: 20 ms
LOUD = 300
SILENT_PCT = 2.0  # of its time, in which a line may be without sound
ASKED_S = 6.0  # more for each time that it has asked, or was spoken to: it says so, and waits


class ClockedSink:
    """Plays by the clock, a tick at a time, and notes when it did and when it had nothing."""

    def __init__(self) -> None:
        self.played = 0
        self.last_s = 0.0  # when the last sample that was played had ended
        self.held_last_s = 0.0  # the same, at the first hold
        self.gaps = 0  # ticks without sound between two with it, while nobody held it
        self.starved_ms: list[float] = []  # of each such tick, until its sound was there
        self._waiting = bytearray()
        self._due = self._silent = 0  # ticks since it first played, in which nobody held it
        self._held = self._ended = False
        self._lock = threading.Lock()
        self._hungry = False
        self._missed: list[float] = []

    async def play(self, pcm: bytes) -> None:
        with self._lock:
            self._waiting += pcm

    async def hold(self) -> None:
        with self._lock:
            self._held = True
            self.held_last_s = self.held_last_s or self.last_s

    async def go_on(self) -> None:
        with self._lock:
            self._held, self._hungry = False, False
            self._missed.clear()

    async def cut(self) -> int:
        with self._lock:
            self._waiting.clear()
            self._hungry = False
            self._missed.clear()
            return self.played

    def forget_gaps(self) -> None:
        """Count them from here on."""
        with self._lock:
            self.gaps = self._due = self._silent = 0
            self.starved_ms.clear()
            self._missed.clear()

    @property
    def due_s(self) -> float:
        """For how long it should have played."""
        return self._due * TICK / RATE

    @property
    def silent_s(self) -> float:
        """And had nothing to play."""
        return self._silent * TICK / RATE

    def end(self, now: float, *, waits: bool = False) -> None:
        """Nothing is counted any more. Who had no sound has a gap, unless its line ``waits``."""
        with self._lock:
            if self._missed and not waits and not self._ended:
                self.gaps += 1
                self.starved_ms += [(now - missed) * 1000 for missed in self._missed]
            self._ended = True

    def tick(self, now: float) -> None:
        """A tick of the clock has come."""
        with self._lock:
            self._tick(now)

    def _tick(self, now: float) -> None:
        if self._held or self._ended:
            return
        count = min(TICK, len(self._waiting) // WIDTH)
        if count and self._hungry:
            self.gaps += 1
            self.starved_ms += [(now - missed) * 1000 for missed in self._missed]
        self._hungry = count < TICK and self.played > 0
        self._missed = [*self._missed, now] if self._hungry and not count else []
        self._due += self.played + count > 0
        self._silent += self.played > 0 and not count
        del self._waiting[: count * WIDTH]
        self.played += count
        if count:
            self.last_s = now + count / RATE


def fell_silent(sinks: Sequence[ClockedSink], asked: Sequence[int]) -> str:
    """What is wrong where a line did not speak for nearly all of the time that was its own."""
    for number, (sink, times) in enumerate(zip(sinks, asked, strict=True)):
        if sink.silent_s > sink.due_s * SILENT_PCT / 100 + times * ASKED_S or not sink.due_s:
            return f"line {number} was silent for {sink.silent_s:.1f} s of {sink.due_s:.1f} s"
    return ""


def silent_pct(sinks: Sequence[ClockedSink]) -> float:
    """How much of its own time the most silent was."""
    return max(100 * sink.silent_s / sink.due_s for sink in sinks)


class SoundCard:
    """The clock of all loudspeakers of a machine, for as long as a block runs."""

    def __init__(self, *sinks: ClockedSink) -> None:
        self._sinks = sinks
        self.late_ms: list[float] = []  # of ticks
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> SoundCard:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            due += TICK / RATE
            time.sleep(max(0.0, due - time.monotonic()))
            now = time.monotonic()
            self.late_ms.append((now - due) * 1000)
            for sink in self._sinks:
                sink.tick(now)


class Microphone:
    """Gives frames when their last sample was heard; tells when speech in them began."""

    def __init__(self, pcm: bytes, take: Callable[[bytes], None]) -> None:
        self._pcm, self._take = pcm, take
        self.onset_s = 0.0

    def run(self) -> None:
        loud = np.flatnonzero(np.abs(samples(self._pcm).astype(np.int32)) > LOUD)
        began = time.monotonic()
        self.onset_s = began + (float(loud[0]) / RATE if len(loud) else 0.0)
        for number in range(len(self._pcm) // (FRAME * WIDTH)):
            due = began + (number + 1) * FRAME / RATE
            time.sleep(max(0.0, due - time.monotonic()))
            self._take(self._pcm[number * FRAME * WIDTH : (number + 1) * FRAME * WIDTH])
