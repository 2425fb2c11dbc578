"""Compares what a cancelled run and those below it say of themselves with what the witness saw."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from midflight.control import Control
from midflight.journal import events as e
from midflight.journal.phases import Outcome, Phase
from midflight.journal.record import Recorded
from midflight.journal.status import Line, Receipt
from midflight.tools.processes.supervised import MARK
from scenarios.ledger import Told
from scenarios.torture_world import KINDS, Kind

ACTS = {"begin", "acted", "undone"}
Story = defaultdict[str, list[Told]]
NOTHING_LEFT = {"undone", "not started", "aborted"}


def kind_of(key: str) -> Kind:
    return KINDS[key.split(":")[1].split(" ")[0]]


class Case:
    """One run: its journal, its receipt, and what the witness was told about it.

    ``above`` is the run that was cancelled, if this is one of its descendants.
    """

    def __init__(
        self,
        journal: Sequence[Recorded],
        receipt: Receipt,
        told: Sequence[Told],
        above: Case | None = None,
    ) -> None:
        self.journal = journal
        self.receipt = receipt
        self.told = told
        self.top = above or self
        self.started: dict[int, e.AttemptStarted] = {}
        self.starts: list[float] = []
        self.not_started: set[int] = set()
        self.cancels: list[Recorded] = []
        self.spawned: dict[int, str] = {}
        self.below: dict[str, Case] = {}
        for record in journal:
            match record.event:
                case e.AttemptStarted() as event:
                    self.started[record.position] = event
                    self.starts.append(record.at)
                case e.AttemptSettled(attempt=attempt, outcome=Outcome.NOT_STARTED):
                    self.not_started.add(attempt)
                case e.CancelRequested():
                    self.cancels.append(record)
                case e.ChildSpawned(child=child):
                    self.spawned[record.position] = child
                case _:
                    pass
        self.hurried = any(cancel.event.now for cancel in self.cancels)
        self.seen: defaultdict[str, list[Told]] = defaultdict(list)
        for one in told:
            if one.what in ACTS:
                self.seen[one.about].append(one)

    @property
    def skipped(self) -> bool:
        """Nobody waited for undoing: also what a run has left that had ended before."""
        return self.hurried or self.top.hurried

    def number(self, what: str) -> int:
        """When the person was told something about the run that they had cancelled."""
        return next(one.number for one in self.top.told if one.what == what)

    def begun(self) -> Iterator[tuple[int, Told]]:
        """Which attempt each *begin* belongs to: the n-th of its key to the n-th that began."""
        for key, seen in self.seen.items():
            positions = [
                position
                for position, started in self.started.items()
                if started.idempotency_key == key and position not in self.not_started
            ]
            begins = [one for one in seen if one.what == "begin"]
            yield from zip(positions, begins, strict=kind_of(key).process is False)

    # ── the promises ─────────────────────────────────────────────────────────────────────────

    def begun_after_the_answer(self) -> list[str]:
        """Effects that began after the acknowledgement although it does not list them."""
        listed = set(self.cancels[0].event.in_flight) if self.cancels else set()
        answered = self.number("acked")
        return [
            f"{one.about} (attempt {position})"
            for position, one in self.begun()
            if one.number > answered and position not in listed
        ]

    def acted_after_the_end(self) -> list[str]:
        end = self.number("ended")
        return [
            f"{one.what} {one.about}"
            for seen in self.seen.values()
            for one in seen
            if one.number > end
        ]

    def reads_after_the_answer(self, by: str) -> list[str]:
        """A read is harmless, and told to the driver's own process a stop is heard by it too."""
        told = self.top.cancels[0].event.who.by == by
        answered = self.number("acked") if told else 0
        return [one.about for one in self.told if one.what == "read" and 0 < answered < one.number]

    def left_out(self) -> list[str]:
        """A run that lived when its tree was cancelled, and was told of it later than the others.

        One that had ended cannot be cancelled any more; it was undone, if it was to be.
        """
        together = self.top.cancels[0].at
        if not self.cancels:
            ended = self.receipt.phase is Phase.DONE
            return [] if ended else [f"it is {self.receipt.phase} and was never cancelled"]
        apart = self.cancels[0].at - together
        return [f"it was cancelled {apart:g} s later"] if apart else []

    def untrue(self) -> list[str]:
        """Lines of the receipt that the witness contradicts, and effects without a line."""
        if self.receipt.phase is not Phase.CANCELLED and (self.cancels or self.top is self):
            return [f"it is {self.receipt.phase}"]
        lines = {line.position: line for line in self.receipt.lines}
        told = {self.started[position].idempotency_key for position in lines & self.started.keys()}
        missing = [
            f"no line for {started.name}"
            for started in self.started.values()
            if started.idempotency_key not in told
        ]
        missing += [f"no line for {self.spawned[p]}" for p in self.spawned.keys() - lines.keys()]
        begun = {started.idempotency_key for started in self.started.values()}
        missing += [f"nothing on record of {key}" for key in self.seen.keys() - begun]
        wrong = [
            f"{line.text!r} but {why}"
            for position, line in lines.items()
            if (why := self._contradiction(position, line))
        ]
        return missing + wrong

    def _contradiction(self, position: int, line: Line) -> str:
        if position in self.spawned:
            return self._of_child(self.below[self.spawned[position]], line)
        return self._of_effect(position, line)

    def _of_child(self, child: Case, line: Line) -> str:
        left = [one.text for one in child.receipt.lines if one.word not in NOTHING_LEFT]
        truths = {
            "undone": not left,
            "could not be undone": bool(left),
            "kept": self.skipped,
        }
        return "" if truths.get(line.word, False) else f"its receipt leaves {left}"

    def _of_effect(self, position: int, line: Line) -> str:
        key = self.started[position].idempotency_key
        deeds = [one.what for one in self.seen[key]]
        acted, last = "acted" in deeds, next((d for d in deeds[::-1] if d != "begin"), "")
        declared, kind = kind_of(key).tool, kind_of(key)
        alone = sum(started.idempotency_key == key for started in self.started.values()) == 1
        undoable = declared.undo is not None
        truths = {
            "not started": not (alone and deeds),
            "aborted": not (alone and acted),
            "undone": acted and last == "undone",
            "could not be undone": acted and last == "acted" and self._may_fail(declared, line),
            "kept": acted and last == "acted" and (not undoable or self._may_skip(declared)),
            "final": acted and declared.irreversible,
            "unknown": self._doubtful(kind) and self._cleaned_up(declared, line, last),
        }
        if truths.get(line.word, False):
            return ""
        return f"the ledger has {deeds} (kind {declared.name.rpartition('.')[2]})"

    def _doubtful(self, kind: Kind) -> bool:
        """Nobody could know; or nobody was asked, because the person was in a hurry."""
        return kind.doubt or (self.skipped and kind.tool.check is not None)

    def _may_fail(self, declared: object, line: Line) -> bool:
        stopped = self.skipped and line.why == "it was stopped half-way"
        return stopped or declared is KINDS["glue"].tool

    def _may_skip(self, declared: object) -> bool:
        return self.skipped and declared is not KINDS["lock"].tool

    def _cleaned_up(self, declared: object, line: Line, last: str) -> bool:
        """Where it may have happened and can be undone, the undo was made, unless told to skip."""
        undo = getattr(declared, "undo", None)
        if undo is None or declared is KINDS["glue"].tool or self._may_skip(declared):
            return True
        return line.why == "undo attempted" and last == "undone"


async def tree(
    control: Control, run: str, story: Story, above: Case | None = None, kind: type[Case] = Case
) -> list[Case]:
    """A run and all below it, as they tell of themselves and as the witness does."""
    receipt = await control.receipt(run)
    case = kind(await control.store.read(run), receipt, story[run], above)
    found = [case]
    for child in case.spawned.values():
        first, *others = await tree(control, child, story, case.top, kind)
        case.below[child] = first
        found += [first, *others]
    return found


def processes_left(driver: int | None = None) -> list[int]:
    """Those that carry the mark of a tool of a driving process, ours or another, wherever."""
    mark = f"{MARK}={driver or os.getpid()}.".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found
