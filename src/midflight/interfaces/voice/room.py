"""A room made of sound: somebody speaks into a line, and everything in it is heard again.

Its time is counted in frames. At pace 0 a frame takes as long as its work does, and recognisers and
verbs take no time at all: what is heard is decided by sound alone, and not by the machine's speed,
unless it is so slow that an engine is given up (the bounds in ``fallback`` and ``ear`` are the
world's). (espeak-ng's voice is a little different at each call.) At pace 1 it takes as long as in
the world.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import anyio
from anyio.lowlevel import checkpoint

from midflight.interfaces.voice.line import Line
from midflight.interfaces.voice.speech.speech_engines import FRAME, RATE, WIDTH, Sink
from midflight.interfaces.voice.turn_table import Floor

FRAME_S: Final = FRAME / RATE
WORK_S: Final = 30.0  # for a recognition or a verb
NOTHING: Final = bytes(FRAME * WIDTH)


class Timed(Sink, Protocol):
    """A loudspeaker whose time is the room's."""

    def pass_time(self, samples: int) -> None:
        """Play for so long."""


class RoomSink:
    """A loudspeaker that plays what it has when the room's time passes, and notes it."""

    def __init__(self) -> None:
        self.played = 0
        self.cuts: list[int] = []  # how much was played each time it was made to forget the rest
        self.track = bytearray()  # all that was to be heard, silence too
        self._waiting = bytearray()
        self._held = False

    async def play(self, pcm: bytes) -> None:
        """Keep it until its time comes."""
        self._waiting += pcm

    async def hold(self) -> None:
        """Be silent."""
        self._held = True

    async def go_on(self) -> None:
        """Go on at the next sample."""
        self._held = False

    async def cut(self) -> int:
        """Forget what waits."""
        self._waiting.clear()
        self.cuts.append(self.played)
        return self.played

    def pass_time(self, samples: int) -> None:
        """Play for so long."""
        count = 0 if self._held else min(samples, len(self._waiting) // WIDTH)
        self.track += self._waiting[: count * WIDTH] + bytes((samples - count) * WIDTH)
        del self._waiting[: count * WIDTH]
        self.played += count


class Room:
    """A line, its loudspeaker, and somebody who speaks."""

    def __init__(self, line: Line, sink: Timed, *, pace: float = 0.0) -> None:
        self.line, self.sink, self._pace = line, sink, pace
        self.spoken = bytearray()  # what the person said, and their silence

    @property
    def now(self) -> float:
        """Seconds since it began."""
        return len(self.spoken) / WIDTH / RATE

    async def hear(self, pcm: bytes) -> None:
        """Let somebody say this, while everything else goes on."""
        whole = -len(pcm) % (FRAME * WIDTH)
        padded = pcm + bytes(whole)
        for start in range(0, len(padded), FRAME * WIDTH):
            await self._frame(padded[start : start + FRAME * WIDTH])

    async def wait(self, seconds: float) -> None:
        """Let nobody say anything for so long."""
        await self.hear(bytes(int(seconds * RATE) * WIDTH))

    async def until(self, ready: Callable[[], bool], seconds: float = 60.0) -> bool:
        """Wait in silence until it is so; False if it is not, in so many seconds of the room."""
        for _ in range(int(seconds / FRAME_S)):
            if ready():
                return True
            await self._frame(NOTHING)
        return ready()

    async def until_silent(self, seconds: float = 1.0, at_most: float = 60.0) -> bool:
        """Wait until nothing was said or done for so long."""
        still = 0
        for _ in range(int(at_most / FRAME_S)):
            await self._frame(NOTHING)
            quiet = self.line.taking.floor is Floor.QUIET and not self.line.mouth.is_busy
            still = still + 1 if quiet and not self.line.pending else 0
            if still * FRAME_S >= seconds:
                return True
        return False

    async def _frame(self, frame: bytes) -> None:
        began = anyio.current_time()
        await self.line.hear(frame)
        self.spoken += frame
        if self._pace:
            await anyio.sleep(max(0.0, FRAME_S * self._pace - (anyio.current_time() - began)))
        else:
            await self._let_others_work()
        self.sink.pass_time(FRAME)

    async def _let_others_work(self) -> None:
        with anyio.fail_after(WORK_S):
            await checkpoint()
            while self.line.pending or self.line.mouth.is_making:  # noqa: ASYNC110 - two to wait for
                await anyio.sleep(0.001)
