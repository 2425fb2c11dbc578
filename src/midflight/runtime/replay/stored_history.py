"""Packs what a driver knows of a run into a stored fold, and takes a run up from one.

The history's records are unpacked at once: the function asks for all of them. Attempts come only
when somebody asks for one. What the function has done on its way, as the driver that packs has seen
it, is left out: ``Cursor.enter`` begins it anew.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final

import anyio.to_thread
import msgspec
from msgspec import Raw, Struct

from midflight.errors import StoreError
from midflight.inputs import steady
from midflight.journal.limits import Call
from midflight.journal.older import Older, newer
from midflight.journal.record import NULL, Blob, Earlier
from midflight.journal.state import KEYED, RunState
from midflight.journal.stored_fold import (
    UNREADABLE,
    FoldRows,
    PackedAttempt,
    PackedAttempts,
    Part,
    StoredFold,
    attempts_in,
    checksums,
    encoded_state,
    given_to,
    like,
    packed_attempt,
    restore,
    rows_after,
    shape,
    taken_from,
)
from midflight.runtime.replay.cursor import Cursor
from midflight.runtime.replay.step_records import IN_JOURNAL, Begun, Record

log: Final = logging.getLogger(__name__)
EVERY: Final = 2000  # events between two folds of a run
CHUNK: Final = 256 * 1024  # bytes that are packed at once
GROWTH: Final = 4  # a fold that has to be packed anew waits until the journal is longer by a fourth
LEFT: Final = 16_384  # bytes of a result that is not packed too: it is read from the journal

PACKED: Final = frozenset({"records", "outcomes", "circles", "taken_over", "_begun", "_by_step"})
OF_THE_WAY: Final = frozenset(
    {"unclaimed", "left_over", "calls", "brief", "profile", "now"}
    | {"_occurrences", "_free", "_order", "packed_to", "unpacked", "touched", "pack_at", "pack"}
)
MOMENTS: Final = ("set_at", "asked_at", "unknown_at")


class _Circles(Struct, frozen=True, array_like=True):
    made: int
    failed: bool
    possible: bool
    last: tuple[str, ...]
    nudged_at: int | None
    seen: list[Call]


_MORE: Final[list[tuple[str, Any, Any]]] = [
    ("circles", _Circles, msgspec.NODEFAULT),
    ("taken_over", list[tuple[Earlier, str]], []),
    ("begun", list[Begun], []),
]
_History: Final = like(Cursor, PACKED | OF_THE_WAY, _MORE)
_history_decoder: Final = msgspec.json.Decoder(_History)
_records_decoder: Final = msgspec.json.Decoder(dict[str, Record])
_record_decoder: Final = msgspec.json.Decoder(Record)
_in_thread: Final = partial(anyio.to_thread.run_sync, abandon_on_cancel=True)
LAYOUT: Final = f"1:{shape(_History, Record)}:".encode()


# ── packing ──────────────────────────────────────────────────────────────────────────────────


class Stretch(Struct, frozen=True):
    """The data to be packed of some events. Nothing of it changes any more, so any thread may.

    The last one of a fold has its moment, and ``state`` and ``history`` as they were then, encoded.
    """

    position: int
    records: dict[str, Record]
    attempts: bytes
    at: float = 0.0
    state: bytes = b""
    history: bytes = b""

    def part(self) -> Part:
        """Pack it, some records at a time: other threads need their turns, too."""
        packer, some = zlib.compressobj(1), bytearray()
        done: list[bytes] = []
        for step, record in self.records.items():
            some += (b"," if some or done else b"{") + msgspec.json.encode({step: record})[1:-1]
            if len(some) > CHUNK:
                done.append(packer.compress(some))
                some.clear()
        done.append(packer.compress(some + (b"}" if self.records else b"{}")))
        return Part(b"".join((*done, packer.flush())), zlib.compress(self.attempts, 1))

    def fold(self, journal: str, parts: tuple[Part, ...]) -> StoredFold:
        """Make the fold that ends with it, of these parts."""
        state, history = zlib.compress(self.state, 1), LAYOUT + zlib.compress(self.history, 1)
        return StoredFold(journal, self.position, state, history, parts)


def folded(state: RunState, history: Cursor, known: StoredFold | None) -> StoredFold:
    """Return the fold of a run as it is, after the parts of ``known`` if they are still true."""
    parts = known.parts if known is not None and _holds(history) else ()
    found = list(stretches(state, history, anew=not parts))
    return found[-1].fold(state.journal, (*parts, *(each.part() for each in found)))


def stretches(state: RunState, history: Cursor, *, anew: bool) -> Iterator[Stretch]:
    """Yield what is to be packed; with ``anew`` all of the run, and not only what is new.

    Between two of them events may be heard. If one touches what was packed before, no more come,
    and none was the last: the run has to be packed anew.
    """
    if anew:
        _forget_parts(state, history)
    while not history.touched:  # layer touched-while-packed
        if state.head - history.packed_to <= EVERY * 3 // 2:
            yield _stretch(state, history, state.head)
            return
        yield _stretch(state, history, history.packed_to + EVERY)


def _holds(history: Cursor) -> bool:
    return not history.touched  # layer touched-parts-are-packed-anew


def _forget_parts(state: RunState, history: Cursor) -> None:
    for each in (state.effects, history._begun, history.outcomes, history._by_step):
        if isinstance(each, Older):
            each.complete()
    history.packed_to, history.unpacked = 0, frozenset()
    history.changed.clear()
    history.touched = False


def _stretch(state: RunState, history: Cursor, upto: int) -> Stretch:
    """Take what is settled of the events up to a position, and was not taken before."""
    records = _records_of(history, history.packed_to, upto)
    attempts = msgspec.json.encode(_attempts_of(state, history, records, upto))
    history.packed_to = upto
    history.unpacked = frozenset(at for at in state.open if at <= upto)
    if upto < state.head:
        return Stretch(upto, records, attempts)
    packed = _history_of(state, history)
    return Stretch(upto, records, attempts, state.at, encoded_state(state), packed)


def _records_of(history: Cursor, since: int, upto: int) -> dict[str, Record]:
    records: dict[str, Record] = {}
    for step in reversed(history.records):
        record = history.records[step]
        if record.position <= since:
            break
        if record.position <= upto:
            records[step] = _without_large(record)
    return dict(reversed(records.items()))


def _attempts_of(
    state: RunState, history: Cursor, records: dict[str, Record], upto: int
) -> PackedAttempts:
    since, also = history.packed_to, history.unpacked
    places = {step: place for place, step in enumerate(records, 1)}
    attempts = []
    for at, begun in newer(history._begun, since, also):
        if at > upto or at in state.open:
            continue
        outcome = history.outcomes.get(at)
        of_step = history.records.get(begun.event.step)
        place = places.get(begun.event.step, 0)
        packed = packed_attempt(state, begun.at, at, begun.event, place)
        if outcome is not None and outcome == of_step and place:
            packed = msgspec.structs.replace(packed, is_done=True)
        elif outcome is not None:
            other = Raw(msgspec.json.encode(_without_large(outcome)))
            packed = msgspec.structs.replace(packed, outcome=other)
        attempts.append(packed)
        if of_step is None:
            history.older[begun.event.step] = None
    attempted = {each.position for each in attempts}
    found = newer(state.effects, since, also)
    there = ((at, each) for at, each in found if at <= upto and at not in state.open)
    return PackedAttempts(attempts, [each for at, each in there if at not in attempted])


def _without_large(record: Record) -> Record:
    size = memoryview(record.result).nbytes
    if size <= LEFT:
        return record
    place = record.repeated_at or record.position  # layer repeated-read-later
    blob = Blob(f"{IN_JOURNAL}{place}", size)
    return msgspec.structs.replace(record, result=NULL, blob=blob)


def _history_of(state: RunState, history: Cursor) -> bytes:
    seen, circles = history.circles.history, history.circles
    shown = _Circles(
        circles.made, circles.failed, circles.possible, circles._last, circles.nudged_at, seen
    )
    told, history.entry.told = history.entry.told, 0
    at_work = [history._begun[at] for at in state.open if dict.__contains__(history._begun, at)]
    taken_over = list(history.taken_over.items())
    stored = taken_from(_History, history, circles=shown, taken_over=taken_over, begun=at_work)
    history.entry.told, encoded = told, msgspec.json.encode(stored)
    return encoded


def _be_packed(state: RunState, history: Cursor, parts: tuple[Part, ...]) -> None:
    """Have all attempts in these parts but those that are under way."""
    position = state.head
    begun = dict(history._begun)
    older = _Unpacking(state.journal, history, parts, begun)

    def is_old(at: Any) -> bool:
        return isinstance(at, int) and at <= position

    def has_attempts(step: Any) -> bool:
        return step in history.records or step in history.older

    by_step: dict[str, list[int]] = {}
    for at, each in begun.items():
        if not has_attempts(each.event.step):  # layer earlier-attempts-beside-work
            by_step.setdefault(each.event.step, []).append(at)
    history.packed_to, history.unpacked = position, frozenset(state.open)
    history._begun = Older(begun, older.begun, is_old)
    history.outcomes = Older({}, lambda later: older.outcomes() | later, is_old)
    history._by_step = Older(by_step, older.by_step, has_attempts)


class _Unpacking:
    """The attempts in the parts of a fold, unpacked when the first of them is asked for."""

    def __init__(
        self, journal: str, history: Cursor, parts: tuple[Part, ...], at_work: dict[int, Begun]
    ) -> None:
        self._journal = journal
        self._parts = parts
        self._history = history
        self._at_work = dict(at_work)
        self._found: list[PackedAttempt] | None = None

    def _attempts(self) -> list[PackedAttempt]:
        if self._found is None:
            self._found = [x for part in self._parts for x in attempts_in(self._journal, part)]
            for kept in (self._history._begun, self._history.outcomes, self._history._by_step):
                if isinstance(kept, Older):
                    kept.complete()
        return self._found

    def begun(self, later: dict[int, Begun]) -> dict[int, Begun]:
        found = {x.position: Begun(x.position, x.at, x.event) for x in self._attempts()}
        return dict(sorted((found | later).items()))

    def outcomes(self) -> dict[int, Record]:
        records: dict[str, Record] = {}
        for part in self._parts:
            records |= _records_in(part)
        found = {x.position: records[x.event.step] for x in self._attempts() if x.is_done}
        for each in self._attempts():
            if bytes(each.outcome) != bytes(NULL):
                found[each.position] = _record_decoder.decode(each.outcome)
        return dict(sorted(found.items()))

    def by_step(self, later: dict[str, list[int]]) -> dict[str, list[int]]:
        steps: dict[str, set[int]] = {}
        for at, each in self.begun(self._at_work).items():
            steps.setdefault(each.event.step, set()).add(at)
        for step, attempts in later.items():
            steps.setdefault(step, set()).update(attempts)
        found = sorted((sorted(attempts), step) for step, attempts in steps.items())
        return {step: attempts for attempts, step in found}


def _records_in(part: Part) -> dict[str, Record]:
    return _records_decoder.decode(zlib.decompress(part.records))


# ── taking up ────────────────────────────────────────────────────────────────────────────────


def take_up(state: RunState, history: Cursor, fold: StoredFold) -> bool:
    """Make state and history, both empty, what was folded; if False, they are still empty."""
    if not fold.history.startswith(LAYOUT):  # layer history-of-other-code-ignored
        return False
    records: dict[str, Record] = {}
    try:
        stored = _history_decoder.decode(zlib.decompress(fold.history[len(LAYOUT) :]))
        for part in fold.parts:
            records.update(_records_in(part))
    except UNREADABLE:
        return False
    if not restore(state, fold):
        return False
    given_to(history, stored)
    for name in MOMENTS:  # what is read now was heard now
        moments, now = getattr(history, name), steady()
        heard = {at: msgspec.structs.replace(each, heard=now) for at, each in moments.items()}
        setattr(history, name, heard)
    history.taken_over = dict(stored.taken_over)
    seen = stored.circles
    circles = history.circles
    circles.made, circles.failed, circles.possible = seen.made, seen.failed, seen.possible
    circles._last, circles.nudged_at, circles._seen = seen.last, seen.nudged_at, seen.seen
    entry = history.entry
    history.brief, history.profile, history.now = entry.brief, entry.profile, entry.at
    history.records = records | history.changed
    if history.scope:
        history.records = {
            step: record
            for step, record in history.records.items()
            if record.position > history.scope or step.startswith(KEYED)
        }
    history._begun = {each.position: each for each in stored.begun}
    _be_packed(state, history, fold.parts)
    return True


class _Known(Struct, frozen=True):
    """The fold that is stored: where it ends, and the checksums of its parts."""

    position: int
    parts: tuple[int, ...]


class Folds:
    """The stored folds of a run that is driven here: the one it began with, and those it makes."""

    __slots__ = ("_keep", "_known")

    def __init__(self, keep: Callable[[FoldRows], Awaitable[bool]]) -> None:
        self._keep = keep
        self._known: _Known | None = None  # if there is none, the next one is packed anew

    def take_up(self, state: RunState, history: Cursor, found: StoredFold | None) -> bool:
        """Begin with what is stored; return whether there is such a fold, of this code."""
        if found is None or not take_up(state, history, found):
            return False
        self._known = _Known(found.position, checksums(found.parts))
        return True

    def look_after(self, state: RunState, history: Cursor, begin: Callable[[], object]) -> None:
        """From now on have a fold stored, in the task that ``begin`` begins, when it is due."""
        if not state.fork_of:  # it knows other journals, too
            history.pack = begin
            history.pack_at = (self._known.position if self._known is not None else 0) + EVERY

    async def store(self, state: RunState, history: Cursor) -> None:
        """Store what the run is now. Where that is not possible, the next one will do.

        What is taken from state and history at once is bounded, and packed in another thread.
        """
        if not state.alive or state.opaque:
            return
        known, self._known = self._known if _holds(history) else None, None
        parts: tuple[Part, ...] = ()
        position = state.head
        for stretch in stretches(state, history, anew=known is None):
            if stretch.state:
                position = stretch.position
                rows = await _in_thread(partial(_last_rows, state.journal, known, parts, stretch))
                if await self._is_kept(rows):
                    earlier = () if known is None else known.parts
                    added = (row.checksum for row in rows.rows[1:])
                    self._known = _Known(position, (*earlier, *added))
            else:
                parts = (*parts, await _in_thread(stretch.part))
        history.pack_at = position + max(EVERY, position // GROWTH if known is None else 0)

    async def _is_kept(self, rows: FoldRows) -> bool:
        try:
            return await self._keep(rows)
        except StoreError as error:
            about = {"action": "fold_not_stored", "run": rows.journal, "error": str(error)}
            log.info("A fold of run %s was not stored: %s", rows.journal, error, extra=about)
            return False


def _last_rows(
    journal: str, known: _Known | None, parts: tuple[Part, ...], last: Stretch
) -> FoldRows:
    """Make the rows of what follows a known fold: these parts, and a last one."""
    fold = last.fold(journal, (*parts, last.part()))
    earlier, since = ((), 0) if known is None else (known.parts, known.position)
    return rows_after(earlier, fold, since, last.at)
