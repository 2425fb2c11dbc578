"""Something to be said: its text, the sound that was made of it, and what was heard of that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from midflight.voice.played import heard_of
from midflight.voice.seams import RATE, WIDTH, Mark, SpeechFailed

REACTION: Final = int(0.4 * RATE)  # nobody knows sooner that they are being asked something
LETTERS_A_SECOND: Final = 15  # of speech whose length is not known yet


class Question(Struct, frozen=True):
    """Where it stands: in a run's journal, or in the thread if it is whether to cancel."""

    journal: str
    place: int


@dataclass(eq=False)
class Utterance:
    """Something to be said. Its text may still grow, while a model speaks."""

    run: str = ""
    text: str = ""
    of: int = 0  # its place in the thread
    ended: bool = False
    fleeting: bool = False  # a question of ours, which is of no use later
    about: Question | None = None  # it asks this: a "yes" over it is its answer
    taken: int = 0  # characters that were made into clauses
    clauses: list[Clause] = field(default_factory=list)
    kept: str = ""  # why it stays aside when the rest is brought back
    late: bool = False  # came while others were aside

    @property
    def is_begun(self) -> bool:
        """Whether so much of it was heard that one can know of it, or it was shown instead."""
        shown = any(clause.failed for clause in self.clauses)
        return shown or self.is_heard or sum(one.played for one in self.clauses) >= REACTION

    @property
    def outlasts(self) -> bool:
        """Whether it is said though what was aside with it is given up: it is news to them."""
        return self.late or (self.about is not None and not self.is_begun)

    def begin_anew(self) -> None:
        """Say it from its first word."""
        self.clauses, self.taken = [], 0

    def break_off(self, then: str) -> str:
        """No more of it but what was heard, which this gives; ``then`` is said in its place."""
        heard = self.heard
        spoken = f"{heard} " * bool(heard)
        self.clauses = [Clause(spoken, made=True)] if heard else []
        self.text, self.taken, self.ended = spoken + then, len(spoken), True
        return heard

    @property
    def heard(self) -> str:
        """What was heard of it."""
        return "".join(clause.heard for clause in self.clauses).rstrip()

    @property
    def is_heard(self) -> bool:
        """Whether all of it was, or all that can be: what could not be spoken was shown."""
        spoken = all(clause.is_over for clause in self.clauses)
        return self.ended and self.taken == len(self.text) and spoken


@dataclass(eq=False)
class Clause:
    """A part of an utterance that is spoken in one go."""

    text: str
    pcm: bytearray = field(default_factory=bytearray)
    marks: list[Mark] = field(default_factory=list)
    begun: bool = False  # to be made
    made: bool = False
    broken: SpeechFailed | None = None  # why no more of it could be made
    failed: bool = False  # and it was shown instead
    given: int = 0  # samples that the sink has got
    played: int = 0

    @property
    def samples(self) -> int:
        """How long it is, as far as it is made."""
        return len(self.pcm) // WIDTH

    @property
    def is_over(self) -> bool:
        """Whether it was played to its end, or as far as it ever will be."""
        if self.failed:
            return self.played >= self.given
        return self.made and self.played >= self.samples

    @property
    def heard(self) -> str:
        """What was heard of it; all of it where it was shown instead."""
        if self.failed:
            return self.text
        about = len(self.text) * RATE // LETTERS_A_SECOND
        samples = self.samples if self.made else max(self.samples, self.played + 1, about)
        return heard_of(self.text, self.marks, samples, self.played)
