"""Speech on its way to the ear: what the sink has got, and to the sample how much was played."""

from __future__ import annotations

from collections import deque
from typing import Final

from midflight.voice.loudspeaker import Loudspeaker
from midflight.voice.seams import RATE, WIDTH, Sink, SpeechFailed
from midflight.voice.utterance import Clause

AHEAD: Final = int(1.5 * RATE)  # samples that wait in the sink; more would only be thrown away


class Playing:
    """One line's. It is given clauses in the order in which they are to be heard."""

    def __init__(self, sink: Sink) -> None:
        self._sink = Loudspeaker(sink)
        self._segments: deque[tuple[int, Clause, int, int]] = deque()  # in the sink, not played
        self._given = 0  # samples that the sink has got in all, without what it was made to forget
        self._cutting = 0  # those who wait until it is; two can at once, from two doors
        self.epoch = 0  # grows when the sink is cut: who gives it speech looks again

    @property
    def played(self) -> int:
        """Samples that were played in all."""
        return self._sink.played

    @property
    def room(self) -> int:
        """Samples that the sink is to get, so that as much waits there as should."""
        return AHEAD - (self._given - self._sink.played)

    @property
    def is_cutting(self) -> bool:
        """Whether the sink has not said yet how much it had played when it was cut."""
        return self._cutting > 0

    @property
    def waiting(self) -> list[Clause]:
        """What the sink has got something of that is not played yet, in its order."""
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

    async def hold(self) -> None:
        """Be silent, and keep what waits."""
        await self._sink.hold()

    async def go_on(self) -> None:
        """Go on at the next sample."""
        await self._sink.go_on()

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
        self._note(played)
        self._given = played
        for _, clause, _, _ in self._segments:
            clause.given = clause.played
        self._segments.clear()

    def note(self) -> None:
        """More was played, perhaps: of which clauses, and how much."""
        self._note(self._sink.played)

    def _note(self, played: int) -> None:
        while self._segments:
            start, clause, offset, count = self._segments[0]
            done = min(max(played - start, 0), count)
            clause.played = max(clause.played, offset + done)
            if done < count:
                break
            self._segments.popleft()

    def is_stalled(self) -> bool:
        """Another frame's time has passed in which it should play; whether it seems dead."""
        return self._sink.is_stalled()
