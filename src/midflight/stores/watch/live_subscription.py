"""A watcher of journals that also hears what steps say, between the records and in their order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from typing_extensions import override

from midflight.journal import events as e
from midflight.journal.record import Recorded
from midflight.stores.protocol import Began, Delta, Read
from midflight.stores.watch.subscription import Journals, Subscription
from midflight.stores.watch.voices import LiveCall, Voice


class LiveSubscription(Subscription):
    """Also hears what steps say. Yields ``Delta`` between the records, never ahead of its attempt.

    One rule makes the text of a step of both: ``text = text[:offset] + piece``. A record of text
    may end before what was already told, so the rest is told once more right behind it.
    """

    __slots__ = ("_calls", "_missed", "_told", "_turns", "_voices")

    def __init__(self, hub: Journals, read: Read, cursors: Mapping[str, int]) -> None:
        super().__init__(hub, read, cursors)
        self._voices = hub.voices
        self._calls: set[Voice] | None = None  # those whose beginning was told, where it is wanted
        self._told: dict[tuple[str, str], tuple[Voice, int]] = {}  # by step: how far
        self._turns: set[Voice] = set()  # those who have one in the backlog
        self._missed: dict[Voice, None] = {}  # steps that spoke while a gap was read

    def hear_calls(self) -> None:
        """See ``LiveWatch``."""
        self._calls = set()

    def hear(self, voice: Voice) -> None:
        """Note that a voice has spoken: its turn comes behind what has happened so far."""
        if not voice.length and self._calls is None:
            return  # it has only begun, which is of no concern here
        if voice.journal in self._behind:
            self._missed[voice] = None
        elif voice not in self._turns:
            self._turns.add(voice)
            self._backlog.append(voice)
            self._wake()

    @override
    def _caught_up(self, journal: str) -> None:
        missed = [voice for voice in self._missed if voice.journal == journal]
        for voice in (*missed, *self._voices.of(journal)):
            self._missed.pop(voice, None)
            self.hear(voice)

    @override
    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            while self._backlog:
                item = self._backlog.pop(0)
                if not isinstance(item, Voice):
                    self._note(item)
                    yield item
                elif (delta := self._delta(item)) is not None:
                    yield delta
            await self._more()

    def _delta(self, voice: Voice) -> Delta | None:
        """Return the part of a voice's text that was not told yet; None if there is nothing new."""
        self._turns.discard(voice)
        place = (voice.journal, voice.step)
        earlier, upto = self._told.get(place, (voice, 0))
        offset = upto if earlier is voice else 0
        self._told[place] = (voice, voice.length)
        text, call = voice.since(offset), self._new_call(voice)
        if not text and call is None:
            return None
        said = voice.journal, voice.step, voice.attempt, offset, text
        return Delta(*said) if call is None else Began(*said, call)

    def _new_call(self, voice: Voice) -> LiveCall | None:
        """The call that a voice has begun with, the first time."""
        if self._calls is None or voice.call is None or voice in self._calls:
            return None
        self._calls.add(voice)
        return voice.call

    def _note(self, record: Recorded) -> None:
        """Keep what was told in step with what is on record."""
        match record.event:
            case e.TextStreamed(step=step, offset=offset, text=text):
                voice, upto = self._told.get((record.journal, step), (None, 0))
                if voice is not None and upto > (end := offset + len(text)):
                    self._told[record.journal, step] = (voice, end)
                    self._turns.add(voice)
                    self._backlog.insert(0, voice)
            case e.StepSettled(step=step):
                voice, _ = self._told.pop((record.journal, step), (None, 0))
                if self._calls and voice is not None:
                    self._calls.discard(voice)
            case e.AttemptSettled(attempt=attempt):
                self._forget(record.journal, lambda voice: voice.attempt == attempt)
            case e.RunFinished() | e.Killed():
                self._forget(record.journal, lambda voice: True)
            case _:
                pass

    def _forget(self, journal: str, over: Callable[[Voice], bool]) -> None:
        told = self._told.items()
        for place in [place for place, (voice, _) in told if place[0] == journal and over(voice)]:
            del self._told[place]
