"""What steps of this process are saying at this moment, before it is in the journal.

A voice is the text of one attempt while it goes on. Nothing of it is queued for anybody: each
watcher knows how far it has read and takes the rest when it comes to it, so a slow one gets the
same text in fewer pieces and holds nobody up. Drivers in other processes are heard only where the
store passes on what they say; elsewhere it comes with the journal, every two seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Voice:
    """What one attempt has said so far. Ends with the attempt."""

    __slots__ = ("_pieces", "_tell", "attempt", "journal", "length", "step")

    def __init__(self, tell: Callable[[Voice], None], journal: str, step: str, attempt: int):
        self.journal, self.step, self.attempt = journal, step, attempt
        self.length = 0
        self._pieces: list[str] = []
        self._tell = tell

    def say(self, text: str) -> None:
        """Add to it, and tell who watches."""
        if text:
            self._pieces.append(text)
            self.length += len(text)
            self._tell(self)

    def since(self, offset: int) -> str:
        """What was said from an offset on. Cheap for who is near the end, as most are."""
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

    def begin(self, journal: str, step: str, attempt: int) -> Voice:
        """An attempt speaks for the first time; an earlier one of the same step is over."""
        voice = Voice(self._tell, journal, step, attempt)
        self._speaking.setdefault(journal, {})[step] = voice
        return voice

    def end(self, voice: Voice) -> None:
        """The attempt is over. Who has not heard all of it still can; who comes now does not."""
        self._over(voice)
        steps = self._speaking.get(voice.journal, {})
        if steps.get(voice.step) is voice:
            del steps[voice.step]
            if not steps:
                del self._speaking[voice.journal]

    def of(self, journal: str) -> Iterable[Voice]:
        """Who speaks in this run."""
        return tuple(self._speaking.get(journal, {}).values())
