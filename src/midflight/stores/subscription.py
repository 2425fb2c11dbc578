"""One watcher of journals. A slow one costs memory for a page, never an event.

One that cannot keep up, or hears only that another process has moved a journal on, reads the gap
from the store. A live one also hears what steps say, between the records and in their order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, Self

import anyio
from msgspec import Raw, Struct
from typing_extensions import override

from midflight.errors import JournalNotFound
from midflight.journal import events as e
from midflight.journal.record import Recorded
from midflight.stores.hints import Began, Delta, LiveCall, Voice, Voices
from midflight.stores.protocol import PAGE, Hear, Read

BACKLOG_MAX: Final = 2 * PAGE  # records kept for one watcher; the rest it reads from the store
BACKLOG_BYTES_MAX: Final = 4 * 1024 * 1024  # and their bytes, beside the first few
UNWEIGHED: Final = 8  # records of a backlog that are not worth weighing: they hold 8 MB at most
READ_FIRST: Final = 32  # records of the first page, whose size nobody knows; the next one adapts


class Journals(Protocol):
    """Tells watchers of the journals that they have joined: see ``Hub``."""

    voices: Voices

    def join(self, journal: str, watcher: Subscription) -> None:
        """Tell a watcher of this journal too."""

    def leave(self, journal: str, watcher: Subscription) -> None:
        """Tell it no more."""


class Subscription:
    """One watcher: yields every event of its journals once, in order, while it is entered.

    Every run in memory has one, so it makes only what it needs.
    """

    __slots__ = (
        "_backlog",
        "_behind",
        "_fell",
        "_hear",
        "_hub",
        "_kept",
        "_moved",
        "_news",
        "_next",
        "_page",
        "_read",
    )

    def __init__(self, hub: Journals, read: Read, cursors: Mapping[str, int]) -> None:
        self._hub = hub
        self._read = read
        self._next = {journal: after + 1 for journal, after in cursors.items()}
        self._backlog: list[Any] = []  # records; for a live watcher also whose turn it is
        self._behind = dict.fromkeys(cursors)  # in the order in which they are read
        self._moved: dict[str, None] = {}
        self._kept = 0  # bytes that were added to the backlog since it was short
        self._page = READ_FIRST  # records to read next
        self._news: anyio.Event | None = None  # made by the task that waits for it
        self._hear: Hear | None = None
        self._fell: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        for journal in self._next:
            self._hub.join(journal, self)
        return self

    async def __aexit__(self, *_: object) -> None:
        for journal in self._next:
            self._hub.leave(journal, self)
        self._hear = self._fell = None

    def add(self, journal: str, after: int) -> None:
        """Also watch this journal, from a position on."""
        if journal not in self._next:
            self._next[journal] = after + 1
            self._hub.join(journal, self)
            self._fall_behind(journal)

    def ready(self) -> list[Recorded]:
        """Give what lies here already. A driver looks once more before a tool's first line."""
        found, self._backlog = self._backlog, []
        return found

    def tap(self, hear: Hear, behind: Callable[[], None] | None = None) -> None:
        """Give what is published here to ``hear`` at once, unless something older still waits."""
        self._hear, self._fell = hear, behind
        if behind is not None and self._behind:
            behind()

    async def catch_up(self) -> None:
        """See ``Watch.catch_up``."""
        assert self._hear is not None
        while self._behind or self._backlog:
            if self._backlog:
                self._hear(self.ready())
            if self._behind:
                await self._read_on(next(iter(self._behind)))

    async def until(self, done: Callable[[Recorded], bool]) -> None:
        """See ``Watch.until``. The task that waits is woken once, and not for each record."""
        over, trouble = False, None

        def hear(records: Sequence[Recorded]) -> None:
            nonlocal over, trouble
            try:
                over = over or any(map(done, records))
            except Exception as error:  # noqa: BLE001 - not for the one that writes: raised below
                over, trouble = True, error
            if over and self._news is not None:
                self._news.set()

        self.tap(hear)
        while not over:
            await self.catch_up()
            if not over:
                self._news = anyio.Event()
                await self._news.wait()
        if trouble is not None:
            raise trouble

    def offer(self, journal: str, records: Sequence[Recorded]) -> None:
        """Take the records of one journal that were just committed, if they are the next ones.

        Also while a page is being read, which then holds them too: a driver that has just begun
        must hear of a stop before the person who asked for it is answered.
        """
        due, last = self._next[journal], records[-1].position
        if last < due:
            return
        if records[0].position < due:
            records = [record for record in records if record.position >= due]
        # layer watcher-still-reading-hears
        if records[0].position > due or (self._backlog and self._is_full(records)):
            self._fall_behind(journal)
            return
        self._next[journal] = last + 1
        if self._hear is not None and not self._backlog:
            self._hear(records)
            return
        self._backlog += records
        self._wake()

    def _is_full(self, records: Sequence[Recorded]) -> bool:
        if len(self._backlog) < UNWEIGHED:
            self._kept = 0
            return False
        self._kept += sum(weight(record.event) for record in records)
        # layer watcher-backlog-bounded-in-bytes
        return len(self._backlog) >= BACKLOG_MAX or self._kept > BACKLOG_BYTES_MAX

    def moved(self, journal: str, head: int | None = None) -> None:
        """Note that another process has appended, up to ``head`` if that is known."""
        if head is None or head >= self._next[journal]:
            self._fall_behind(journal)

    def _fall_behind(self, journal: str) -> None:
        self._behind[journal] = None
        self._moved[journal] = None
        self._wake()

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()
        if self._fell is not None:
            self._fell()

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            while self._backlog:
                yield self._backlog.pop(0)
            if self._behind:
                await self._read_on(next(iter(self._behind)))
            elif not self._backlog:
                self._news = anyio.Event()  # nothing can come between the look and this
                await self._news.wait()

    async def _read_on(self, journal: str) -> None:
        """Read one page of the gap into the backlog, where it waits also for one who breaks off.

        The journal stays *behind* during the read. A record that was offered meanwhile and was the
        next one is not taken from the page again; a later record only makes us read once more.
        """
        self._moved.pop(journal, None)
        wanted = self._page
        try:
            page = await self._read(journal, self._next[journal] - 1, wanted)
        except JournalNotFound:
            page = []  # not written yet: it may still come
        self._adapt(page)
        news = [record for record in page if record.position >= self._next[journal]]
        if news:
            self._next[journal] = news[-1].position + 1
        self._backlog.extend(news)
        del self._behind[journal]
        if len(page) == wanted or journal in self._moved:
            self._behind[journal] = None  # at the end, so that a busy journal starves no other
        else:
            self._caught_up(journal)

    def _adapt(self, page: list[Recorded]) -> None:
        """Read as many next time as will hold about as much as a backlog may."""
        if page:
            each = max(1, sum(weight(record.event) for record in page) // len(page))
            self._page = max(1, min(PAGE, 2 * self._page, BACKLOG_BYTES_MAX // each))

    def _caught_up(self, journal: str) -> None:
        """All that the store has of this journal is in the backlog."""


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
            self._missed[voice] = None  # layer said-while-gap-read
        elif voice not in self._turns:
            self._turns.add(voice)
            self._backlog.append(voice)  # layer no-delta-overtakes-records
            self._wake()

    @override
    def _caught_up(self, journal: str) -> None:
        missed = [voice for voice in self._missed if voice.journal == journal]
        for voice in (*missed, *self._voices.of(journal)):  # layer comes-late-gets-what-said
            self._missed.pop(voice, None)
            self.hear(voice)

    @override
    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in super().__aiter__():
            if not isinstance(item, Voice):
                self._note(item)
                yield item
            elif (delta := self._delta(item)) is not None:
                yield delta

    def _delta(self, voice: Voice) -> Delta | None:
        """Return the part of a voice's text that was not told yet; None if there is nothing new."""
        self._turns.discard(voice)
        place = (voice.journal, voice.step)
        earlier, upto = self._told.get(place, (voice, 0))
        offset = upto if earlier is voice else 0  # layer each-attempt-speaks-from-beginning
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
                    self._backlog.insert(0, voice)  # layer record-of-text-cuts-off
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


def weight(value: Any) -> int:
    """Return about how many bytes the texts in a value hold."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Raw):
        return len(bytes(value))
    if isinstance(value, Struct):
        return sum(weight(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, dict):
        return sum(weight(key) + weight(inner) for key, inner in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return sum(map(weight, value))
    return 8
