"""A sink that can be relied on: it answers in time, never raises, and never counts backwards.

What it stands before is a page, a sound card, or somebody's own code.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import anyio

from midflight.voice.seams import FRAME_MS, RATE, WIDTH, Sink, SpeechFailed

log: Final = logging.getLogger("midflight.voice")
ANSWER_S: Final = 2.0  # for whatever it is told: a page has a little less
MOST_AHEAD: Final = (
    2 * RATE
)  # of what we know: a page may be late to say that it was cut; more is a lie
STALLED_MS: Final = 4_000  # in which it has sound to play, and plays none


class Loudspeaker:
    """Stands between a line's mouth and its sink, and keeps count of what was given and played."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._given = self._played = 0
        self._seen = self._still_ms = 0

    @property
    def played(self) -> int:
        """How much was: never less than before, nor more than it has got."""
        try:
            told: Any = self._sink.played
        except Exception as error:  # noqa: BLE001 - an edge: it is somebody else's code
            _note("count", error)
            return self._played
        if isinstance(told, int) and told <= self._given + MOST_AHEAD:
            self._played = max(self._played, min(told, self._given))
        return self._played

    async def play(self, pcm: bytes) -> None:
        """Play it after what waits; raises ``SpeechFailed`` when it did not take it."""
        self._given += len(pcm) // WIDTH  # first: it may begin at once
        if not await self._told("play", partial(self._sink.play, pcm)):
            self._given -= len(pcm) // WIDTH
            raise SpeechFailed("the loudspeaker", "did not take the sound")

    async def hold(self) -> None:
        """Be silent, and keep what waits."""
        await self._told("hold", self._sink.hold)

    async def go_on(self) -> None:
        """Go on at the next sample."""
        self._still_ms = 0
        await self._told("go on", self._sink.go_on)

    async def cut(self) -> int:
        """Forget what waits; the last word on how much was played, or the last that is known."""
        await self._told("cut", self._sink.cut)
        self._given = self.played
        return self._given

    def is_stalled(self) -> bool:
        """Another frame's time has passed in which it should play; whether it seems dead."""
        still = self._given > self.played == self._seen
        self._still_ms = self._still_ms + FRAME_MS if still else 0
        self._seen = self.played
        return self._still_ms >= STALLED_MS

    async def _told(self, what: str, do: Callable[[], Awaitable[object]]) -> bool:
        try:
            with anyio.move_on_after(ANSWER_S):
                await do()
                return True
            _note(what, f"no answer in {ANSWER_S:g} s")
        except Exception as error:  # noqa: BLE001 - an edge: it is somebody else's code
            _note(what, error)
        return False


def _note(what: str, why: object) -> None:
    log.warning("Sink has failed", extra={"action": "sink_failed", "what": what, "why": str(why)})
