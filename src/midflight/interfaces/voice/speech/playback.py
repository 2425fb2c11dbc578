"""Makes speech of clauses and plays it; to the sample it is known how much was played."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Container
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from midflight.interfaces.voice.speech.agenda import Clause, speakable
from midflight.interfaces.voice.speech.speech_engines import (
    FRAME_MS,
    RATE,
    WIDTH,
    Mark,
    Sink,
    SpeechFailed,
    Synthesiser,
)

log: Final = logging.getLogger("midflight.interfaces.voice")
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
        """The samples played: never less than before, nor more than the sink was given."""
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
    about = {"action": "sink_failed", "what": what, "why": str(why)}
    log.warning("The loudspeaker of a voice call failed (%s): %s", what, why, extra=about)


class Making:
    """One line's. ``stir`` is called whenever there is more of a clause, or an end of it."""

    def __init__(self, synthesiser: Synthesiser, stir: Callable[[], None]) -> None:
        self._synthesiser, self._stir = synthesiser, stir
        self._scopes: dict[Clause, anyio.CancelScope] = {}

    @property
    def is_busy(self) -> bool:
        """True if speech is being made that is not there yet."""
        return bool(self._scopes)

    def begin(self, clause: Clause, tasks: TaskGroup) -> None:
        """Make it, unless that has begun already."""
        if not clause.begun:
            clause.begun = True
            self._scopes[clause] = anyio.CancelScope()
            tasks.start_soon(self._make, clause, self._scopes[clause])

    def drop_all_but(self, wanted: Container[Clause]) -> None:
        """Nobody will say the others."""
        for clause, scope in self._scopes.items():
            if clause not in wanted:
                scope.cancel()  # layer speech-nobody-will-say-not-made

    async def _make(self, clause: Clause, scope: anyio.CancelScope) -> None:
        """Make all of it; where it was dropped half made, and is to be said after all, anew.

        What was heard of it is known by what was made before, until there is as much again.
        """
        text, pcm, marks = speakable(clause.text), bytearray(), list[Mark]()
        try:
            with scope:
                if text.strip():
                    async with aclosing(self._synthesiser.speak(text)) as chunks:
                        async for chunk in chunks:
                            pcm += chunk.pcm
                            marks += chunk.marks
                            if len(pcm) >= len(clause.pcm):
                                clause.pcm, clause.marks = pcm, marks
                                self._stir()
                clause.pcm, clause.marks, clause.made = pcm, marks, True
            clause.begun = not scope.cancelled_caught  # layer speech-dropped-half-made-does
        except SpeechFailed as error:
            clause.broken = error
        finally:
            del self._scopes[clause]
            self._stir()


AHEAD: Final = int(1.5 * RATE)  # samples that wait in the sink; more would only be thrown away


class Playing:
    """One line's. It is given clauses in the order in which they are to be heard."""

    def __init__(self, sink: Loudspeaker) -> None:
        self._sink = sink
        self._segments: deque[tuple[int, Clause, int, int]] = deque()  # in the sink, not played
        self._given = 0  # samples that the sink has got in all, without what it was made to forget
        self._cutting = 0  # those who wait until it is; two can at once, from two doors
        self.epoch = 0  # grows when the sink is cut: who gives it speech looks again

    @property
    def room(self) -> int:
        """Samples that the sink is to get, so that as much waits there as should."""
        return AHEAD - (self._given - self._sink.played)

    @property
    def is_cutting(self) -> bool:
        """True if the sink has been cut and has not said yet how much it had played by then."""
        return self._cutting > 0

    @property
    def waiting(self) -> list[Clause]:
        """The clauses of which the sink has a part that is not played yet, in their order."""
        return list(dict.fromkeys(clause for _, clause, _, _ in self._segments))

    async def give(self, clause: Clause, at_most: int) -> None:
        """Give it more of a clause; raises ``SpeechFailed`` when it did not take it."""
        count = min(at_most, clause.samples - clause.given)
        start = clause.given * WIDTH
        self._segments.append((self._given, clause, clause.given, count))
        clause.given += count
        self._given += count
        try:
            await self._sink.play(bytes(clause.pcm[start : start + count * WIDTH]))
        except SpeechFailed:
            self._take_back(clause, count)
            raise

    def _take_back(self, clause: Clause, count: int) -> None:
        """The sink has not got the last piece."""
        if self._segments:  # unless all was forgotten meanwhile
            self._segments.pop()
            self._given -= count
            clause.given -= count

    async def forget(self) -> None:
        """It plays no more of it; until it has said how much it had played, it gets nothing new.

        What it got meanwhile it would play, and what is to be said is only known afterwards.
        """
        self.epoch += 1
        self._cutting += 1
        try:
            played = await self._sink.cut()
        finally:
            self._cutting -= 1
            self.epoch += 1
        self.note(played)
        self._given = played
        for _, clause, _, _ in self._segments:
            clause.given = clause.played
        self._segments.clear()

    def note(self, played: int) -> None:
        """So much was played in all: of which clauses, and how much."""
        while self._segments:
            start, clause, offset, count = self._segments[0]
            done = min(max(played - start, 0), count)
            clause.played = max(clause.played, offset + done)
            if done < count:
                break
            self._segments.popleft()
