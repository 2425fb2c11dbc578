"""Whether words were for us: they seemed to want nothing, so it was asked.

"Yes" takes them as they were said, and as of when; "no" takes nothing. Whatever else is said is
said instead of them.
"""

from __future__ import annotations

import re
from typing import Final

from midflight.voice.deeds import Moment
from midflight.voice.lexicon import FILLER, NO, YES, Act, meaning
from midflight.voice.phrases import any_of, plain
from midflight.voice.seams import Heard

IT_WAS: Final = "(?: (?:it|that) (?:was|is))?(?: for you)?(?: please)?"
IT_WAS_NOT: Final = any_of(
    "(?: (?:it|that) (?:wasn't|isn't|was not|is not))?(?: for you)?(?: sorry)?",
    "(?: i was| i'm)?(?: just| only)? (?:thinking|talking|saying|speaking)(?: aloud| to .*)?",
)
MEANT: Final = re.compile(f"{FILLER}{YES}{IT_WAS}")
NOT_MEANT: Final = re.compile(f"{FILLER}(?:{NO}{IT_WAS_NOT}|not (?:really|for you|at all))")


class Whether:
    """One line's: the words of which it was asked, until it is known."""

    def __init__(self) -> None:
        self._open: tuple[Heard, Moment] | None = None

    def ask(self, heard: Heard, moment: Moment) -> None:
        """Nobody knows yet whether they were for us."""
        self._open = (heard, moment)

    def forget(self) -> None:
        """Nobody has answered: they were not."""
        self._open = None

    def is_answered(self, text: str) -> bool:
        """Whether this says it, where it was asked."""
        return self._open is not None and _meant(text) is not None

    def taken(self, heard: Heard, moment: Moment) -> tuple[Heard, Moment] | None:
        """What is to be taken now that this was said; nothing after a "no"."""
        asked, self._open = self._open, None
        meant = None if asked is None else _meant(heard.text)
        if meant is None:
            return heard, moment
        return asked if meant else None


def _meant(text: str) -> bool | None:
    if MEANT.fullmatch(plain(text)):
        return True
    meant = meaning(text)
    refused = meant.act is Act.NO or meant.asks_nothing or NOT_MEANT.fullmatch(plain(text))
    return False if refused else None
