"""Hints for watchers beside the records: the words of steps, and which journals have moved.

Nothing of it is on record, and nothing is queued for anybody. A *voice* is the text of one attempt
while it goes on: each watcher knows how far it has read and takes the rest when it comes to it, so
a slow one gets the same text in fewer pieces and holds nobody up. Drivers in other processes are
heard only where the store passes on what they say; elsewhere it comes with the journal, every two
seconds. *Movements* name journals: one that moves a thousand times before somebody looks is named
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Self

import anyio
from msgspec import Raw, Struct

from midflight.journal.fold import BULK
from midflight.journal.record import NULL, Recorded

ANY: Final = ""  # in place of a journal: too many have moved to name them


class LiveCall(Struct, frozen=True, gc=False):
    """The call of a read: the step's name, its tool and its arguments."""

    name: str
    tool: str
    input: Raw = NULL


class Delta(Struct, frozen=True, gc=False):
    """A piece of what a step is saying now, not on record yet: ``text = text[:offset] + piece``."""

    journal: str
    step: str
    attempt: int
    offset: int
    text: str


class Began(Delta, frozen=True, gc=False):
    """A read has begun, and perhaps says something. Only watchers that asked for it are told."""

    call: LiveCall


class Voice:
    """The text that one attempt has said so far. A voice ends with its attempt."""

    __slots__ = ("_pieces", "_tell", "attempt", "call", "journal", "length", "step")

    def __init__(
        self,
        tell: Callable[[Voice], None],
        journal: str,
        step: str,
        attempt: int,
        call: LiveCall | None = None,
    ):
        self.journal, self.step, self.attempt, self.call = journal, step, attempt, call
        self.length = 0
        self._pieces: list[str] = []
        self._tell = tell

    def say(self, text: str) -> None:
        """Add to the text, and tell the watchers."""
        if text:
            self._pieces.append(text)
            self.length += len(text)
            self._tell(self)

    def since(self, offset: int) -> str:
        """Return the text from an offset on; cheap near the end, where most readers are."""
        missing, first = self.length - offset, len(self._pieces)
        while missing > 0:
            first -= 1
            missing -= len(self._pieces[first])
        return "".join(self._pieces[first:])[-missing if missing else 0 :]


class Voices:
    """Every attempt of this process that has said something and goes on."""

    def __init__(self, tell: Callable[[Voice], None], over: Callable[[Voice], None]) -> None:
        self._tell = tell
        self._over = over
        self._speaking: dict[str, dict[str, Voice]] = {}

    def begin(self, journal: str, step: str, attempt: int, call: LiveCall | None = None) -> Voice:
        """Make the voice of an attempt; it takes the place of an earlier one of the same step.

        With ``call``, watchers are told that the call has begun, before it says anything.
        """
        voice = Voice(self._tell, journal, step, attempt, call)
        self._speaking.setdefault(journal, {})[step] = voice
        if call is not None:
            self._tell(voice)
        return voice

    def end(self, voice: Voice) -> None:
        """End a voice. Watchers that have it can still read the rest; new ones do not get it."""
        self._over(voice)
        steps = self._speaking.get(voice.journal, {})
        if steps.get(voice.step) is voice:
            del steps[voice.step]
            if not steps:
                del self._speaking[voice.journal]

    def of(self, journal: str) -> Iterable[Voice]:
        """Return the voices of a run's steps."""
        return tuple(self._speaking.get(journal, {}).values())


# ── movements ────────────────────────────────────────────────────────────────────────────────────


class Movements:
    """The journals that have moved since the last look, noted while the context is entered."""

    __slots__ = ("_join", "_leave", "_moved", "_news")

    def __init__(
        self, join: Callable[[Movements], None], leave: Callable[[Movements], None]
    ) -> None:
        self._join, self._leave = join, leave
        self._moved: dict[str, bool] = {}
        self._news = anyio.Event()

    async def __aenter__(self) -> Self:
        self._join(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leave(self)

    def publish(self, records: Iterable[Recorded]) -> None:
        """Note the journals of records that were committed in this process."""
        for record in records:
            self.note(record.journal, more=type(record.event) not in BULK)

    def note(self, journal: str, *, more: bool = True) -> None:
        """Note that a journal has moved, and that ``more`` than its counters may have changed."""
        self._moved[journal] = self._moved.get(journal, False) or more
        self._news.set()

    async def wait(self) -> None:
        """Wait until something has moved."""
        await self._news.wait()

    def take(self) -> dict[str, bool]:
        """Return the journals that have moved, and whether more than counters may have changed."""
        moved, self._moved = self._moved, {}
        self._news = anyio.Event()
        return moved


def no_movements() -> Movements:
    """Return a context in which nothing is ever noted."""
    return Movements(_ignore, _ignore)


def _ignore(_: Movements) -> None:
    pass
