"""The order in which things are said: now, or aside until speech goes on or is given up.

After an interruption, we go on with the words that were not heard. Words that runs say meanwhile
wait behind them; only questions and our own words do not wait. Silencing the sound that is being
played is the mouth's task, and comes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from midflight.interfaces.voice.speech.utterance import Clause, Question, Utterance, clauses

ASKED: Final = 64  # questions that are remembered; nobody answers one that is older
FOR_RUN: Final = "its run is held"
FOR_LISTENER: Final = "the listener wants it to wait"


class Agenda:
    """One line's. Whatever was heard to its end is nothing to be said."""

    def __init__(self) -> None:
        self._now: deque[Utterance] = deque()
        self._aside: deque[Utterance] = deque()  # put aside where they were
        self._asked: deque[Utterance] = deque(maxlen=ASKED)  # questions that have begun
        self._begun: Utterance | None = None  # what has begun last, of all that is of use later

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
        waiting = (said for said in (*self._now, *self._aside) if not said.is_heard)
        first = next((said for said in waiting if not said.fleeting), None)
        return first is not None and first.about is not None

    @property
    def asked(self) -> tuple[Utterance, ...]:
        """The questions of which something was heard, in the order in which they began."""
        return tuple(self._asked)

    @property
    def last_heard(self) -> Utterance | None:
        """The utterance begun last, a question or not; a request to repeat does not count."""
        return self._begun

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
            if said.is_begun and said.text and not said.fleeting:
                self._begun = said
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
