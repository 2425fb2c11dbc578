"""The record of a function's steps: results, answers, attempts, and its last entry."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from msgspec import Raw, Struct

from midflight.journal import events as e
from midflight.journal.limits import Call
from midflight.journal.record import NULL, Actor, Blob
from midflight.journal.state import turn
from midflight.runtime.values import digest

ABORTED: Final = "aborted: "
BY: Final = {
    "stopped by a person": "A person has stopped it",
    "cancelled": "A person has cancelled the run and so stopped it",
    "paused": "A person has paused the run and so stopped it",
    "redirected": "A person has changed the course and so stopped it",
    "killed": "An operator has stopped it",
}
"""The reason for an abort, as the journal has it -> words that say who has aborted the attempt."""
IN_JOURNAL: Final = "journal:"  # in place of a blob's hash: before the position of the record
HISTORY: Final = 256  # calls in which circles are looked for
TEXT_MAX: Final = 8_000  # characters of what it had said; the end of it


class Record(Struct, frozen=True, gc=False, array_like=True):
    """The outcome of a step: a value, or the words of its failure.

    A read that was repeated keeps its ``position``; the event at ``repeated_at`` has its value.
    """

    position: int
    at: float
    name: str
    result: Raw = NULL
    blob: Blob | None = None
    error: str = ""
    left: str = ""
    repeated_at: int = 0


class Moment(Struct, frozen=True, gc=False):
    """The time at which something came on record: the store's stamp, and the steady clock then."""

    at: float
    heard: float
    position: int


class Answered(Struct, frozen=True):
    """The end of a question: with a person's payload, or closed without one."""

    at: float
    payload: Raw = NULL
    who: Actor | None = None
    closed: str = ""
    position: int = 0

    @property
    def by(self) -> str:
        """The name of the person who answered; empty when nobody did."""
        return self.who.by if self.who else ""


class Begun(Struct, frozen=True):
    """An attempt that is on record, and when it began."""

    position: int
    at: float
    event: e.AttemptStarted


class Told(Struct, frozen=True):
    """A redirect that was delivered to the calls that waited, or else to the next one."""

    position: int
    brief: str
    calls: frozenset[str] = frozenset()
    after: int = 0
    profile: str = ""
    doubts: frozenset[str] = frozenset()  # steps that had begun, with an outcome nobody knew


@dataclass(slots=True, eq=False)
class Entry:
    """One entry, with the brief, profile and time that the function begins with.

    The function has to ask again for everything on record after the position.
    """

    position: int = 0
    brief: str = ""
    profile: str = ""
    at: float = 0.0
    redirects: list[Told] = field(default_factory=list)
    told: int = 0  # of the redirects, on the way that it goes now
    reused: dict[str, None] = field(default_factory=dict)
    excused: dict[str, None] = field(default_factory=dict)  # a person goes on without them
    counting: dict[str, None] = field(default_factory=dict)  # also for steps of another name
    carried: dict[str, None] = field(default_factory=dict)  # not asked for before a snapshot
    left: dict[str, e.StepLeft] = field(default_factory=dict)  # given up by the function
    guards: dict[str, int] = field(default_factory=dict)  # how often it has set each

    @property
    def tells(self) -> bool:
        """True if there is a redirect that the function has still to be told."""
        return self.told < len(self.redirects)

    @property
    def horizon(self) -> float:
        """The position of the next redirect: nothing after it is given out before it is told."""
        return self.redirects[self.told].position if self.tells else math.inf

    def excuse(self, steps: tuple[str, ...], *, take_over: bool = False) -> None:
        """A person goes on without these; what is still to be told waits for none of them.

        With ``take_over`` they count for steps of another name that would do the same.
        """
        for step in steps:
            self.excused[step] = None
            if take_over:
                self.counting[step] = None
            self.left.pop(step, None)
        self.redirects = [
            Told(told.position, told.brief, profile=told.profile, doubts=told.doubts)
            for told in self.redirects
        ]


class Cut(Struct, frozen=True):
    """An attempt that was cut: the reason, after how many seconds, and what it had said by then."""

    why: str
    seconds: float
    text: str = ""

    def words(self) -> str:
        """Say that it was stopped, after how long, what may have happened, and its output."""
        by = BY.get(self.why.removeprefix(ABORTED), "It was stopped")
        told = f"{by} after {self.seconds:.1f} s, before it was done. It may have partly happened."
        if not self.text.strip():
            return f"{told} It had said nothing until then."
        return f"{told} Its output until then:\n{self.text[-TEXT_MAX:].rstrip()}"


Settled = e.StepSettled | e.AttemptSettled | e.LateOutcome


@dataclass(slots=True, eq=False)
class Circles:
    """The circles of one run. Calls are shortened only when somebody looks at them."""

    made: int = 0
    failed: bool = False  # the last one of them
    possible: bool = False  # the last one has failed, or is like one of the two before it
    _last: tuple[str, ...] = ()
    nudged_at: int | None = None  # the function was told, after so many of them
    _seen: list[Call] = field(default_factory=list)
    _unseen: list[tuple[str, Settled, bool]] = field(default_factory=list)

    def note(self, event: Settled, step: str, failed: bool) -> None:
        """Remember what came of a call."""
        self._unseen.append((step, event, failed))
        what = step.rpartition("#")[0] or step  # as ``turn`` has it
        self.failed, self.possible = failed, failed or what in self._last
        self._last = (what, *self._last[:1])
        self.made += 1
        if self.made % HISTORY == 0:
            del self._unseen[:-HISTORY]
            del self._seen[:-HISTORY]

    @property
    def history(self) -> list[Call]:
        """The last calls, and what came of them; each is put in short once."""
        for step, event, failed in self._unseen:
            came = event.blob.hash if event.blob else digest(bytes(event.result))
            self._seen.append(Call(turn(step)[0], came, failed))
        self._unseen.clear()
        return self._seen

    def nudged(self) -> None:
        """The function was told that it goes in circles."""
        self.nudged_at = self.made

    def forget(self) -> None:
        """Forget what was done before: a person lets the run go on, or another run has done it."""
        self.nudged_at, self.possible = None, False
        self._seen.clear()
        self._unseen.clear()
