"""Something to be said: its text, the sound made of it, and how much of that was heard."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from midflight.interfaces.voice.speech.speech_engines import RATE, WIDTH, Mark, SpeechFailed

ENDS: Final = re.compile(r"[.!?…:;]+[\"')\]\u201d\u2019]*\s+|\n+")
CLAUSE_MAX: Final = 160  # characters that are spoken in one go; the first sound must come soon
SIGNS: Final = re.compile(r"[*_`#>|~\\]")


def heard_of(text: str, marks: Sequence[Mark], samples: int, played: int) -> str:
    """The words of which at least a half was played, as they stand in the text.

    ``samples`` is how long the whole of it takes. Without marks each character takes as long as any
    other, and the last word is counted if more than a half of it was due.
    """
    if played >= samples:
        return text
    spans = list(_spans(text, marks, samples))
    upto = 0
    for start, end, _, until in spans:
        if (start + end) / 2 > played:
            break
        upto = until
    return text[:upto].rstrip()


def _spans(
    text: str, marks: Sequence[Mark], samples: int
) -> Iterable[tuple[float, float, int, int]]:
    """From which sample to which, and which characters, for each word."""
    words = [(found.start(), found.end()) for found in re.finditer(r"\S+", text)]
    if not marks:
        each = samples / max(len(text), 1)
        return [(each * at, each * until, at, until) for at, until in words]
    starts = [(at, until, _begins(at, until, marks)) for at, until in words]
    spans: list[tuple[float, float, int, int]] = []
    for number, (at, until, begins) in enumerate(starts):
        later = (begun for *_, begun in starts[number + 1 :] if begun is not None)
        ends = next(later, samples)
        if begins is None:  # spoken in one with the word before it
            spans.append((spans[-1][0], spans[-1][1], at, until) if spans else (0, ends, at, until))
        else:
            spans.append((begins, ends, at, until))
    return spans


def _begins(at: int, until: int, marks: Sequence[Mark]) -> int | None:
    inside = [mark.sample for mark in marks if at <= mark.at < until]
    return min(inside) if inside else None


def clauses(text: str, *, whole: bool) -> tuple[list[str], str]:
    """The clauses that can be spoken, and the rest that waits for its end. Nothing is lost."""
    found, start = [], 0
    for end in ENDS.finditer(text):
        found.append(text[start : end.end()])
        start = end.end()
    rest = text[start:]
    while len(rest) > CLAUSE_MAX:
        cut = max(rest.rfind(", ", 0, CLAUSE_MAX) + 2, rest.rfind(" ", 0, CLAUSE_MAX) + 1)
        cut = cut if cut > CLAUSE_MAX // 4 else CLAUSE_MAX
        found.append(rest[:cut])
        rest = rest[cut:]
    if whole and rest:
        found.append(rest)
        rest = ""
    return found, rest


def speakable(text: str) -> str:
    """Without the signs of Markdown, each of them a space: places stay what they are."""
    return SIGNS.sub(" ", text)


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
        """True if the person has heard enough to know of it, or it was shown instead."""
        shown = any(clause.failed for clause in self.clauses)
        return shown or self.is_heard or sum(one.played for one in self.clauses) >= REACTION

    @property
    def outlasts(self) -> bool:
        """True if it is said even when the rest is given up: it is news to the person."""
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
        """The part of the text that was heard."""
        return "".join(clause.heard for clause in self.clauses).rstrip()

    @property
    def is_heard(self) -> bool:
        """True if all of it was heard, or shown where it could not be spoken."""
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
        """The number of samples made so far."""
        return len(self.pcm) // WIDTH

    @property
    def is_over(self) -> bool:
        """True if it was played to its end, or as far as it ever will be."""
        if self.failed:
            return self.played >= self.given
        return self.made and self.played >= self.samples

    @property
    def heard(self) -> str:
        """The part of the text that was heard; all of it where it was shown instead."""
        if self.failed:
            return self.text
        about = len(self.text) * RATE // LETTERS_A_SECOND
        samples = self.samples if self.made else max(self.samples, self.played + 1, about)
        return heard_of(self.text, self.marks, samples, self.played)
