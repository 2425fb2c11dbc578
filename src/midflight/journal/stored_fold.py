"""A stored fold: what a run's journal adds up to at a position, so that a reader starts there.

It is derived from the journal and never replaces it. Whoever reads one compares its layout and its
checksums, and the checksum of the event at its position; where anything does not fit, the journal
is read whole.

A fold has a head, which is written anew each time, and parts, which are only added to. A part has
what is settled of one stretch of the journal. It stays packed until somebody asks for it: most runs
that are taken up again never do.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any, Final, get_args, get_type_hints

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from midflight.journal import events as e
from midflight.journal.fold import advance
from midflight.journal.older import Older
from midflight.journal.phases import Effect, Outcome
from midflight.journal.record import NULL, Keys, Recorded
from midflight.journal.state import Attempt, RunState

UNREADABLE: Final = (msgspec.MsgspecError, zlib.error, ValueError)
VERSION: Final = 2  # to be raised when what a fold holds has another meaning than before

# ── what a fold consists of ──────────────────────────────────────────────────────────────────


class Part(Struct, frozen=True, array_like=True, gc=False):
    """The settled records and attempts of one stretch of a journal."""

    records: bytes
    attempts: bytes


class PackedAttempt(Struct, frozen=True, array_like=True, gc=False):
    """An attempt of a part. What is the same as elsewhere in the fold is left out.

    Its event has no step if that is the one at ``record`` among the part's records, counted from 1,
    and no key if that follows from the step. ``effect`` is there only if it is not as it was after
    a plain start and a good end. Its outcome is the record of its step, or ``outcome``.
    """

    position: int
    at: float
    event: e.AttemptStarted
    record: int
    course: int
    is_effect: bool
    is_done: bool
    effect: Attempt | None = None
    outcome: Raw = NULL


class PackedAttempts(Struct, frozen=True, array_like=True, gc=False):
    """The attempts of a part, and effects that are no attempts."""

    attempts: list[PackedAttempt]
    others: list[Attempt]


class _Head(Struct, frozen=True, array_like=True):
    layout: str
    position: int
    parts: tuple[int, ...]  # their checksums
    state: bytes
    history: bytes


class StoredFold(Struct, frozen=True, gc=False):
    """A run, folded up to ``position``; ``history`` is the runtime's own."""

    journal: str
    position: int
    state: bytes
    history: bytes
    parts: tuple[Part, ...]


class FoldRow(Struct, frozen=True, array_like=True, gc=False):
    """A row of a stored fold: the head has number 0, the parts follow."""

    number: int
    checksum: int
    body: bytes


class FoldRows(Struct, frozen=True, gc=False):
    """The rows to be written for a fold, if the stored one ends at ``since``; 0 writes all."""

    journal: str
    position: int
    at: float  # the moment of the event there: another past has another one
    since: int
    rows: tuple[FoldRow, ...]


_encoder: Final = msgspec.msgpack.Encoder()
_head_decoder: Final = msgspec.msgpack.Decoder(_Head)
_part_decoder: Final = msgspec.msgpack.Decoder(Part)


def rows_of(fold: StoredFold, since: int, there: int, at: float) -> FoldRows:
    """Make the rows of a fold. The first ``there`` of its parts are stored already."""
    earlier = checksums(fold.parts[:there])
    return rows_after(earlier, replace(fold, parts=fold.parts[there:]), since, at)


def checksums(parts: Iterable[Part]) -> tuple[int, ...]:
    """Return the checksums that the rows of these parts have."""
    return tuple(zlib.crc32(_encoder.encode(part)) for part in parts)


def rows_after(earlier: tuple[int, ...], fold: StoredFold, since: int, at: float) -> FoldRows:
    """Make the rows of a fold whose earlier parts, which have these checksums, are stored."""
    bodies = [_encoder.encode(part) for part in fold.parts]
    sums = (*earlier, *map(zlib.crc32, bodies))
    head = _encoder.encode(_Head(LAYOUT, fold.position, sums, fold.state, fold.history))
    first = len(earlier) + 1
    parts = (FoldRow(n, sums[n - 1], body) for n, body in enumerate(bodies, first))
    rows = (FoldRow(0, zlib.crc32(head), head), *parts)
    return FoldRows(fold.journal, fold.position, at, since, rows)


def may_follow(fold: FoldRows, stored: int) -> bool:
    """Return whether a fold may be written where the stored one ends at ``stored``, 0 for none.

    One that adds a part needs the parts before it, and no fold replaces one that goes further.
    """
    return fold.since == stored if fold.since else fold.position > stored


def opened(journal: str, rows: Iterable[FoldRow]) -> StoredFold | None:
    """Return the fold that is in these rows; None if anything of it does not fit."""
    found = list(rows)
    if not found or [row.number for row in found] != list(range(len(found))):
        return None
    if any(zlib.crc32(row.body) != row.checksum for row in found):  # layer damaged-fold-ignored
        return None
    try:
        head = _head_decoder.decode(found[0].body)
        parts = tuple(_part_decoder.decode(row.body) for row in found[1:])
    except msgspec.MsgspecError:
        return None
    if head.layout != LAYOUT:  # layer fold-of-other-code-ignored
        return None
    if head.parts != tuple(row.checksum for row in found[1:]):
        return None
    return StoredFold(journal, head.position, head.state, head.history, parts)


# ── the state of a run ───────────────────────────────────────────────────────────────────────

APART: Final = frozenset({"effects", "open", "keys"})


def like(kind: type[Any], apart: Iterable[str], more: Iterable[tuple[str, Any, Any]] = ()) -> Any:
    """Make a struct with the fields of a dataclass, so that msgspec encodes all of them."""
    hints, left_out = get_type_hints(kind), frozenset(apart)
    taken = [
        (f"f_{each.name}", hints[each.name], _default(each))
        for each in fields(kind)
        if each.name not in left_out
    ]
    return msgspec.defstruct(
        f"Stored{kind.__name__}", [*taken, *more], omit_defaults=True, kw_only=True
    )


def _default(each: Field[Any]) -> Any:
    if each.default_factory is not MISSING:
        return msgspec.field(default_factory=each.default_factory)
    return each.default if each.default is not MISSING else msgspec.NODEFAULT


def taken_from(struct: Any, source: object, **more: Any) -> Any:
    """Fill such a struct from a dataclass."""
    names = [name for name in struct.__struct_fields__ if name.startswith("f_")]
    return struct(**{name: getattr(source, name[2:]) for name in names}, **more)


def given_to(target: object, stored: Any) -> None:
    """Put the fields of such a struct into a dataclass."""
    for name in stored.__struct_fields__:
        if name.startswith("f_"):
            setattr(target, name[2:], getattr(stored, name))


def shape(*kinds: Any) -> str:
    """Return a digest of the fields of these types, with their defaults, and all types in them."""
    known: dict[str, str] = {}

    def look_at(kind: Any) -> None:
        for inner in get_args(kind):
            look_at(inner)
        if isinstance(kind, type) and issubclass(kind, Enum):
            known[kind.__qualname__] = str([each.value for each in kind])
        has_fields = hasattr(kind, "__struct_fields__") or is_dataclass(kind)
        if has_fields and kind.__qualname__ not in known:
            hints = get_type_hints(kind)
            known[kind.__qualname__] = f"{hints} {_defaults(kind)}"
            for hint in hints.values():
                look_at(hint)

    for kind in kinds:
        look_at(kind)
    return blake2b(str(sorted(known.items())).encode(), digest_size=8).hexdigest()


def _defaults(kind: Any) -> list[bytes]:
    """Return the defaults of a type's fields: a field that has its default is not written."""
    found = msgspec.structs.fields(kind) if hasattr(kind, "__struct_fields__") else fields(kind)
    missing = (MISSING, msgspec.NODEFAULT)
    values = [
        each.default_factory() if each.default_factory not in missing else each.default
        for each in found
    ]
    return [b"" if value in missing else msgspec.json.encode(value) for value in values]


_Attempts = dict[int, Attempt]
_Pairs = list[tuple[tuple[str, str, str], tuple[int, str]]]
_MORE: Final[list[tuple[str, Any, Any]]] = [
    ("open", _Attempts, {}),
    ("of_world", list[int], []),
    ("keys", _Pairs, []),
]
_State: Final = like(RunState, APART, _MORE)
_state_decoder: Final = msgspec.json.Decoder(_State)
_attempts_decoder: Final = msgspec.json.Decoder(PackedAttempts)
_steps_decoder: Final = msgspec.json.Decoder(dict[str, Raw])
LAYOUT: Final = f"{VERSION}:{shape(_State, PackedAttempts)}"


_started: Final = RunState("r-")
advance(
    _started,
    Recorded(
        "r-",
        1,
        0.0,
        e.AttemptStarted(epoch=1, step="", name="", effect=Effect.ONCE, idempotency_key=""),
    ),
)
_NOT_PLAIN: Final = tuple(
    (each.name, getattr(_started.effects[1], each.name))
    for each in fields(Attempt)
    if each.name
    not in set(e.AttemptStarted.__struct_fields__)
    | {"position", "key", "reserved_tokens", "reserved_usd", "is_step", "outcome", "course"}
)
"""What may change of an attempt after its start, and what it is until then."""


def packed_attempt(
    state: RunState, at: float, position: int, event: e.AttemptStarted, record: int
) -> PackedAttempt:
    """Pack an attempt that has ended, without its outcome."""
    key = "" if event.idempotency_key == f"{state.journal}:{event.step}" else event.idempotency_key
    short = replace(event, idempotency_key=key, step="" if record else event.step)
    effect = dict.get(state.effects, position)
    is_plain = effect is None or (
        effect.outcome is Outcome.DONE
        and all(getattr(effect, name) == usual for name, usual in _NOT_PLAIN)
    )
    course = 0 if effect is None else effect.course
    kept = None if is_plain else effect
    return PackedAttempt(position, at, short, record, course, effect is not None, False, kept)


def attempts_in(journal: str, part: Part) -> list[PackedAttempt]:
    """Unpack the attempts of a part, with their steps and keys."""
    steps = list(_steps_decoder.decode(zlib.decompress(part.records)))
    found = []
    for each in _attempts_decoder.decode(zlib.decompress(part.attempts)).attempts:
        step = steps[each.record - 1] if each.record else each.event.step
        key = each.event.idempotency_key or f"{journal}:{step}"
        found.append(replace(each, event=replace(each.event, step=step, idempotency_key=key)))
    return found


def _effects_in(journal: str, part: Part) -> dict[int, Attempt]:
    then = RunState(journal)
    for each in attempts_in(journal, part):
        if each.effect is not None:
            then.effects[each.position] = each.effect
        elif each.is_effect:
            then.course = each.course
            advance(then, Recorded(journal, each.position, each.at, each.event))
            then.effects[each.position].outcome = Outcome.DONE
    others = _attempts_decoder.decode(zlib.decompress(part.attempts)).others
    return then.effects | {each.position: each for each in others}


def encoded_state(state: RunState) -> bytes:
    """Encode everything but the effects that are in parts."""
    pairs = [(key, (at, digest.hex())) for key, (at, digest) in state.keys.items()]
    at_work = [at for at in state.open if dict.__contains__(state.effects, at)]
    stored = taken_from(_State, state, open=state.open, of_world=at_work, keys=pairs)
    return msgspec.json.encode(stored)


def be_packed(state: RunState, parts: tuple[Part, ...]) -> None:
    """Have all effects in these parts but those that are under way."""
    at_work = {
        at: effect for at, effect in state.open.items() if dict.__contains__(state.effects, at)
    }
    journal, position = state.journal, state.head  # not the state: it would know itself

    def whole(later: _Attempts) -> _Attempts:
        found: _Attempts = {}
        for part in parts:
            found |= _effects_in(journal, part)
        return dict(sorted((found | later).items()))

    state.effects = Older(at_work, whole, lambda at: isinstance(at, int) and at <= position)


def state_in(fold: StoredFold | None) -> RunState | None:
    """Return the state that was folded; None if there is none that fits."""
    if fold is None:
        return None
    state = RunState(fold.journal)
    return state if restore(state, fold) else None


def restore(state: RunState, fold: StoredFold) -> bool:
    """Make a state the one that was folded; False, and nothing of it changes, if it cannot be."""
    try:
        stored = _state_decoder.decode(zlib.decompress(fold.state))
        keys: Keys = {key: (at, bytes.fromhex(digest)) for key, (at, digest) in stored.keys}
        at_work = {at: stored.open[at] for at in stored.of_world}
    except (*UNREADABLE, KeyError):  # layer unreadable-fold-ignored
        return False
    given_to(state, stored)
    state.open, state.keys, state.effects = stored.open, keys, at_work
    be_packed(state, fold.parts)
    return True
