"""What must be true of a cancelled run although two drivers of it were alive at the same time.

The one exception to *nothing begins after the answer*: an attempt that was on record before, whose
driver was taken for lost. It may begin or go on behind everybody's back, under its key; so the
receipt must not claim to know how it ended, unless the world agrees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

from typing_extensions import override

from midflight.journal import events as e
from midflight.journal.phases import Effect
from midflight.journal.record import Decision, Recorded
from midflight.journal.status import Line
from scenarios.ledger import Told
from scenarios.torture_audit import Case, kind_of


class Contested(Case):
    """A run that was taken from a living driver, perhaps many times."""

    @cached_property
    def claims(self) -> int:
        return sum(isinstance(record.event, e.DriverClaimed) for record in self.journal)

    @cached_property
    def lost(self) -> set[str]:
        """Keys of what was in flight when it was taken."""
        return {self.started[position].idempotency_key for position in _lost(self.journal)}

    @cached_property
    def lost_undos(self) -> set[str]:
        """Keys of what was being undone then."""
        return {
            self.started[effect].idempotency_key
            for effect in _lost_undos(self.journal)
            if effect in self.started
        }

    def decided_late(self) -> list[str]:
        """Decisions of a driver from which it had been taken."""
        return list(_decided_late(self.journal))

    def of(self, key: str) -> list[int]:
        """The attempts under a key."""
        return [p for p, started in self.started.items() if started.idempotency_key == key]

    def line(self, key: str) -> Line:
        """What the receipt says of it: of repeats under one key the last one tells."""
        mine = set(self.of(key))
        return next(line for line in self.receipt.lines if line.position in mine)

    @override
    def begun_after_the_answer(self) -> list[str]:
        listed = set(self.cancels[0].event.in_flight) if self.cancels else set()
        answered = self.number("acked")
        wrong = [*_began_late(self.journal)]
        for key, seen in self.seen.items():
            begins = [one for one in seen if one.what == "begin"]
            late = sum(one.number > answered for one in begins)
            if len(begins) > len(self.of(key)):
                wrong.append(f"{key} began {len(begins)} times, {len(self.of(key))} on record")
            if late and not (listed & set(self.of(key)) or key in self.lost):
                wrong.append(f"{key} began after the answer")
        return wrong

    def late(self) -> int:
        """How much began after the answer, with or without its leave."""
        answered = self.number("acked")
        seen = (one for told in self.seen.values() for one in told)
        return sum(one.what == "begin" and one.number > answered for one in seen)

    @override
    def acted_after_the_end(self) -> list[str]:
        end = self.number("ended")
        return [
            f"{one.what} {one.about}: {self.line(key).text}"
            for key, seen in self.seen.items()
            for one in seen
            if one.number > end and not self._may_come_late(key, one)
        ]

    def _may_come_late(self, key: str, one: Told) -> bool:
        """By whom was taken for lost: an undo that another has made, or what is in doubt."""
        if one.what == "undone":
            return key in self.lost_undos
        quiet = one.what == "begin" and kind_of(key).tool.effect is Effect.WRITE
        return key in self.lost and (quiet or self.line(key).word == "unknown")

    def applied_twice(self) -> list[str]:
        """Under one key the world was touched more than once."""
        acts = Counter(one.about for seen in self.seen.values() for one in seen
                       if one.what == "acted")  # fmt: skip
        return [f"{key}: {times}" for key, times in acts.items() if times > 1]

    @override
    def _of_child(self, child: Case, line: Line) -> str:
        if self.skipped and (line.word, line.why) == ("unknown", "undo attempted"):
            return ""  # whoever was cancelling it was lost, and nobody goes on: its receipt tells
        return super()._of_child(child, line)

    @override
    def _of_effect(self, position: int, line: Line) -> str:
        key = self.started[position].idempotency_key
        acted = any(one.what == "acted" for one in self.seen[key])
        if line.word == "unknown" and self._is_in_doubt(key, line):
            return ""
        if key in self.lost and line.word in {"not started", "aborted"} and not acted:
            return ""  # undone for safety's sake before whoever was lost said so
        return super()._of_effect(position, line)

    def _is_in_doubt(self, key: str, line: Line) -> bool:
        lost = key in self.lost and line.why in {"worker lost", "undo attempted"}
        return lost or (key in self.lost_undos and line.why == "undo attempted")


def _lost(journal: Sequence[Recorded]) -> Iterator[int]:
    """Attempts that were in flight when another driver claimed the run."""
    in_flight: set[int] = set()
    for record in journal:
        match record.event:
            case e.AttemptStarted():
                in_flight.add(record.position)
            case e.AttemptSettled(attempt=attempt):
                in_flight.discard(attempt)
            case e.DriverClaimed():
                yield from in_flight
            case _:
                pass


def _lost_undos(journal: Sequence[Recorded]) -> Iterator[int]:
    """Effects whose undo was in flight then."""
    in_flight: dict[int, int] = {}
    for record in journal:
        match record.event:
            case e.UndoStarted(effect=effect):
                in_flight[record.position] = effect
            case e.UndoSettled(undo=undo):
                in_flight.pop(undo, None)
            case e.DriverClaimed():
                yield from in_flight.values()
            case _:
                pass


def _decided_late(journal: Sequence[Recorded]) -> Iterator[str]:
    """Decisions of a driver from which the run had been taken."""
    epoch = 0
    for record in journal:
        if isinstance(record.event, e.DriverClaimed):
            epoch = record.event.epoch
        elif isinstance(record.event, Decision) and record.event.epoch < epoch:
            yield f"{type(record.event).__name__} at {record.position}"


def _began_late(journal: Sequence[Recorded]) -> Iterator[str]:
    """Attempts that were written down after the cancel."""
    cancelled = False
    for record in journal:
        cancelled |= isinstance(record.event, e.CancelRequested)
        if cancelled and isinstance(record.event, e.AttemptStarted):
            yield f"{record.event.name} at {record.position}, after the cancel"
