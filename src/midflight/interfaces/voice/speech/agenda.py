"""Things to be said, each with its text, its sound and how much was heard of it, and their order.

After an interruption, we go on with the words that were not heard. Words that runs say meanwhile
wait behind them; only questions and our own words do not wait. Silencing the sound that is being
played is the task of the mouth, and comes first.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
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


ASKED: Final = 64  # questions that are remembered; nobody answers one that is older
FOR_RUN: Final = "its run is held"
FOR_LISTENER: Final = "the listener wants it to wait"


class Agenda:
    """One line's. Whatever was heard to its end is nothing to be said."""

    def __init__(self) -> None:
        self._now: deque[Utterance] = deque()
        self._aside: deque[Utterance] = deque()  # put aside where they were
        self._asked: deque[Utterance] = deque(maxlen=ASKED)  # questions that have begun
        self.last_heard: Utterance | None = None  # what has begun last, of all of use later

    # ── how it stands ────────────────────────────────────────────────────────────────────────

    @property
    def is_busy(self) -> bool:
        """True if something is being said, or is to be said now."""
        return any(not said.is_heard for said in self._now)

    @property
    def aside(self) -> list[Utterance]:
        """The utterances that are put aside."""
        return list(self._aside)

    @property
    def is_asking(self) -> bool:
        """True if a question is being said, or was when we asked the person to repeat."""
        # layer yes-said-again-as-asked
        waiting = (said for said in (*self._now, *self._aside) if not said.is_heard)
        first = next((said for said in waiting if not said.fleeting), None)
        return first is not None and first.about is not None

    @property
    def asked(self) -> tuple[Utterance, ...]:
        """The questions of which something was heard, in the order in which they began."""
        return tuple(self._asked)

    def will_ask(self, question: Question) -> bool:
        """Return whether the question still waits to be asked."""
        waiting = (*self._aside, *self._now)
        return any(said.about == question and not said.is_begun for said in waiting)

    def is_now(self, said: Utterance) -> bool:
        """Return whether the utterance is being said, or is among those to be said now."""
        return said in self._now

    def has_now(self, run: str) -> bool:
        """Return whether the run says something now other than a question."""
        return any(_is_said_by(run, said) for said in self._now)

    @property
    def comes_back(self) -> bool:
        """True if something is aside that is not kept there."""
        return any(not said.kept for said in self._aside)

    # ── what is said next ────────────────────────────────────────────────────────────────────

    def add(self, said: Utterance) -> None:
        """It is said after what is said now; words of a run also after what is put aside."""
        before = self._aside_before(said.run) if said.run and said.about is None else None
        if before is not None:
            said.late, said.kept = True, before.kept
            self._aside.append(said)
        else:
            self._now.append(said)

    def _aside_before(self, run: str) -> Utterance | None:
        """Return the utterance aside that comes before new words of the run, if there is one.

        Words that are kept for another run do not hold this run's words back.
        """
        aside = reversed(self._aside)
        return next((said for said in aside if said.kept != FOR_RUN or said.run == run), None)

    def next_clause(self) -> Clause | None:
        """The first clause of which the sink has not got all."""
        for said in self._now:
            for clause in said.clauses:
                if not clause.failed and not (clause.made and clause.given >= clause.samples):
                    return clause
            ready, _ = clauses(said.text[said.taken :], whole=said.ended)
            if ready:
                said.taken += len(ready[0])
                said.clauses.append(Clause(ready[0]))
                return said.clauses[-1]
            if not said.ended:
                return None  # what comes after it waits
        return None

    def unsaid_clauses(self) -> set[Clause]:
        """All that are to be said, now or later, and not shown instead."""
        every = (clause for said in (*self._now, *self._aside) for clause in said.clauses)
        return {clause for clause in every if not clause.failed}

    def note_begun(self) -> None:
        """More was played: what has begun with it."""
        for said in self._now:
            if said.is_begun and said.text and not said.fleeting:  # layer nobody-answers-question
                self.last_heard = said
                if said.about and said not in self._asked:
                    self._asked.append(said)

    def drop_heard(self) -> None:
        """Drop the utterances at the front that were heard to their end."""
        while self._now and self._now[0].is_heard:
            self._now.popleft()

    # ── what is aside ────────────────────────────────────────────────────────────────────────

    def put_aside(self) -> None:
        """Keep for later what is being said, but for what is of no use then."""
        self._aside.extend(said for said in self._now if not (said.fleeting or said.is_heard))
        self._now.clear()

    def bring_back(self, behind: Utterance | None) -> None:
        """Say next what was put aside, except for what is kept; ``behind`` is said before it."""
        back = [said for said in self._aside if not said.kept]
        later = [said for said in self._now if not said.fleeting]
        before = [said for said in later if said is behind]
        self._now = deque([*before, *back, *(said for said in later if said is not behind)])
        for said in back:
            said.late = False
        self._aside = deque(said for said in self._aside if said.kept)

    def hold_back(self, run: str) -> None:
        """Put aside what the run is saying now."""
        held = [said for said in self._now if _is_said_by(run, said)]
        self._now = deque(said for said in self._now if said not in held)
        self._aside.extend(said for said in held if not said.is_heard)

    def keep(self, run: str) -> None:
        """It stays aside until ``release``: all of it, or what a run says that is held."""
        for said in self._aside:
            if not run:
                said.kept = FOR_LISTENER
            elif said.run == run:
                said.kept = said.kept or FOR_RUN

    def release(self, run: str) -> None:
        """The listener, or also a run, goes on: what was kept is brought back with the rest."""
        for said in self._aside:
            if said.kept == FOR_LISTENER or said.run == run:
                said.kept = ""

    # ── what is not said after all ───────────────────────────────────────────────────────────

    def chosen(self, which: Callable[[Utterance], bool]) -> list[Utterance]:
        """Those of what is aside, and then of what is said now."""
        return [said for said in (*self._aside, *self._now) if which(said)]

    def take_back(self, gone: list[Utterance]) -> None:
        """None of these is said, now or later."""
        self._aside = deque(said for said in self._aside if said not in gone)
        self._now = deque(said for said in self._now if said not in gone)

    def give_up(self) -> list[Utterance]:
        """Give up what was put aside, and return it.

        Utterances that came since are said now, and so are questions of which nobody has heard
        anything.
        """
        stays = [said for said in self._aside if said.outlasts]
        gone = [said for said in self._aside if said not in stays]
        self._aside.clear()
        for said in stays:
            said.late, said.kept = False, ""
            if said.about:
                said.begin_anew()
        self._now.extend(stays)
        return gone

    def hang_up(self) -> list[Utterance]:
        """Nobody listens any longer: all that was begun and not heard to its end."""
        begun = self.chosen(lambda said: bool(said.heard) and not said.is_heard)
        self._now.clear()
        self._aside.clear()
        return begun


def _is_said_by(run: str, said: Utterance) -> bool:
    return bool(run) and said.run == run and not said.about
