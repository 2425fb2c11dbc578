"""The moment at which somebody began to speak, and the outcome of their words."""

from __future__ import annotations

from msgspec import Struct

from midflight.voice.lexicon import Act
from midflight.voice.utterance import Question, Utterance


class Moment(Struct, frozen=True):
    """The state when somebody began to speak: they answer nothing that they had not heard."""

    front: str = ""
    asked: tuple[Utterance, ...] = ()  # questions of which they had heard something, in that order
    last: Utterance | None = None  # what they had heard last, a question or not
    aimed: bool = False  # they held a key to talk: it is for us
    whole: bool = True  # else the line has ended, or stood still, in the midst of what they said

    @property
    def awaited(self) -> bool:
        """True if the words are for us, or nobody can be asked whether they are."""
        answers = self.last is not None and self.last.about is not None
        return answers or self.aimed or not self.whole


class Done(Struct, frozen=True):
    """The outcome of somebody's words: our answer, and whether words put aside ``go_on``."""

    act: Act
    say: str = ""
    about: Question | None = None  # which ``say`` asks once more
    go_on: bool = False
    refused: bool = False
