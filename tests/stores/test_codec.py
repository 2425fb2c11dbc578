"""Event <-> row: everything comes back as it was, newer things are kept, broken ones are named."""

from __future__ import annotations

import zlib
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import Raw, Struct

from midflight.errors import CorruptEntry, IllegalEvent, PayloadTooLarge
from midflight.journal import events as e
from midflight.journal.event_types import EVENTS
from midflight.journal.facts import claim, kill
from midflight.journal.fold import advance, fold
from midflight.journal.phases import Effect, Outcome, Phase
from midflight.journal.record import Actor, Blob, Event, Recorded, Unknown, Usage
from midflight.journal.requests import decide
from midflight.journal.state import RunState
from midflight.stores.codec import BLOB_MAX, EVENT_MAX, INLINE_MAX, Encoded, decode, encode
from stores.runs import ANN, OLGA, RUN, created, outcome, started


def sample(kind: Any) -> Any:
    """Some value of a type that is not its default; for an event, one with every field set."""
    plain: dict[Any, Any] = {
        str: 'Grüße, "Ann" \\ \u2028 🦊',
        int: 7,
        float: 1234.5678,
        bool: True,
        Raw: Raw(b'{"rows": [1, 2.5, null, "\\u00e9"]}'),
    }
    if kind in plain:
        return plain[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return sample(inner[0])
    if origin is tuple:
        return (sample(inner[0]),) * 2
    if issubclass(kind, Enum):
        return list(kind)[-1]
    assert issubclass(kind, Struct), f"no sample of {kind}"
    hints = get_type_hints(kind)
    return kind(**{name: sample(hints[name]) for name in kind.__struct_fields__})


def read(row: Encoded, **changes: Any) -> Recorded:
    """Read a row back, perhaps after something has happened to it on the disk."""
    stored: dict[str, Any] = {
        "version": row.event.VERSION,
        "must_understand": row.event.MUST_UNDERSTAND,
        "checksum": row.checksum,
        "body": row.body,
    }
    return decode(RUN, 5, 1234.5, **(stored | changes))


def written_later(body: bytes, **fields: Any) -> dict[str, Any]:
    """A row as a later version of this code would leave it."""
    return {"body": body, "checksum": zlib.crc32(body), "version": 1} | fields


# ── there and back ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS)
def test_every_event_comes_back_as_it_was(kind: type[Event]) -> None:
    event = sample(kind)

    assert read(encode(RUN, event)) == Recorded(RUN, 5, 1234.5, event)


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS)
def test_every_event_comes_back_with_only_what_it_must_have(kind: type[Event]) -> None:
    hints = get_type_hints(kind)
    needed = [field.name for field in msgspec.structs.fields(kind) if field.required]
    event = kind(**{name: sample(hints[name]) for name in needed})

    row = encode(RUN, event)

    assert read(row).event == event
    assert set(msgspec.json.decode(row.body)) <= {"event", *needed}


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS)
def test_a_row_is_json_that_any_tool_can_read(kind: type[Event]) -> None:
    body = msgspec.json.decode(encode(RUN, sample(kind)).body)

    assert body["event"] == kind.stored_name()


def test_a_row_says_its_version_and_whether_it_must_be_understood() -> None:
    assert encode(RUN, created()).event.MUST_UNDERSTAND
    assert not encode(RUN, e.PlanSet(epoch=1, steps=())).event.MUST_UNDERSTAND
    assert encode(RUN, created()).event.VERSION == 1


# ── sizes ────────────────────────────────────────────────────────────────────────────────────


def large(size: int) -> Raw:
    return Raw(b'"' + b"x" * (size - 2) + b'"')


def test_up_to_64_kb_a_value_stays_in_its_row() -> None:
    event = outcome(4, result=large(INLINE_MAX))

    row = encode(RUN, event)

    assert row.blob is None
    assert read(row).event == event


def test_beyond_64_kb_a_value_leaves_its_hash_and_size() -> None:
    row = encode(RUN, outcome(4, result=large(INLINE_MAX + 1)))

    assert row.blob is not None
    digest, value = row.blob
    assert value == bytes(large(INLINE_MAX + 1))
    assert read(row).event == outcome(4, blob=Blob(digest, INLINE_MAX + 1))
    assert len(row.body) < 200


def test_the_same_value_has_the_same_hash_and_another_has_not() -> None:
    rows = [encode(RUN, outcome(n, result=large(size))) for n, size in ((4, 70_000), (9, 70_000))]
    other = encode(RUN, outcome(4, result=large(70_001)))

    hashes = [row.blob[0] for row in [*rows, other] if row.blob]
    assert (len(hashes), len(set(hashes))) == (3, 2)


def test_what_is_too_large_for_a_blob_is_refused() -> None:
    encode(RUN, outcome(4, result=large(BLOB_MAX)))

    with pytest.raises(PayloadTooLarge) as refusal:
        encode(RUN, outcome(4, result=large(BLOB_MAX + 1)))

    assert (refusal.value.journal, refusal.value.size) == (RUN, BLOB_MAX + 1)
    assert "attempt.settled" in str(refusal.value)


def test_what_is_too_large_for_a_row_and_is_no_result_is_refused() -> None:
    encode(RUN, created(brief="x" * (EVENT_MAX - 200)))

    with pytest.raises(PayloadTooLarge) as refusal:
        encode(RUN, created(brief="x" * EVENT_MAX))

    assert refusal.value.limit == EVENT_MAX


# ── what is newer ────────────────────────────────────────────────────────────────────────────

LATER = b'{"event":"mood.noticed","mood":"cheerful"}'


def test_an_unknown_event_is_kept_as_it_is() -> None:
    row = written_later(LATER, must_understand=False, version=3)

    record = decode(RUN, 5, 1234.5, **row)

    assert record == Recorded(RUN, 5, 1234.5, Unknown("mood.noticed", 3, False, LATER))


def test_a_known_event_of_a_newer_version_is_not_read_with_old_eyes() -> None:
    body = encode(RUN, e.PauseRequested(who=ANN)).body

    record = decode(RUN, 5, 1.0, **written_later(body, must_understand=True, version=2))

    assert record.event == Unknown("pause.requested", 2, True, body)


def test_a_newer_version_that_need_not_be_understood_is_read_as_far_as_it_goes() -> None:
    body = b'{"event":"plan.set","epoch":1,"steps":["a"],"colour":"red"}'

    record = decode(RUN, 5, 1.0, **written_later(body, must_understand=False, version=2))

    assert record.event == e.PlanSet(epoch=1, steps=("a",))


def test_a_newer_version_with_other_fields_is_kept_as_it_is() -> None:
    body = b'{"event":"plan.set","steps":{"first":"a"}}'

    record = decode(RUN, 5, 1.0, **written_later(body, must_understand=False, version=2))

    assert record.event == Unknown("plan.set", 2, False, body)


def test_a_field_that_was_added_later_is_passed_over() -> None:
    body = b'{"event":"run.entered","epoch":1,"mood":"cheerful"}'

    record = decode(RUN, 5, 1.0, **written_later(body, must_understand=True))

    assert record.event == e.RunEntered(epoch=1)


def running_state(*more: Recorded) -> RunState:
    story: list[Event] = [
        created(),
        e.DriverClaimed(epoch=1, driver="d-1"),
        e.RunEntered(epoch=1),
        started("send"),
    ]
    records = [Recorded(RUN, n, float(n), event) for n, event in enumerate(story, 1)]
    state = fold(RunState(RUN), [*records, *more])
    assert isinstance(state, RunState)
    return state


def unknown(*, must_understand: bool) -> Recorded:
    return decode(RUN, 5, 5.0, **written_later(LATER, must_understand=must_understand))


def test_an_unknown_event_that_need_not_be_understood_is_skipped() -> None:
    state = running_state(unknown(must_understand=False))

    assert (state.head, state.phase, state.opaque) == (5, Phase.RUNNING, False)
    assert claim(state, "d-2", lease_gone=True)


def test_a_run_with_an_event_that_must_be_understood_is_shown_and_stopped_but_not_driven() -> None:
    state = running_state(unknown(must_understand=True))

    assert (state.head, state.phase, state.opaque) == (5, Phase.RUNNING, True)
    assert decide(state, e.PauseRequested(who=ANN))
    assert decide(state, e.CancelRequested(who=ANN))
    assert kill(state, e.Killed(who=OLGA, scope="all"))
    with pytest.raises(IllegalEvent, match="newer"):
        claim(state, "d-2", lease_gone=True)


# ── what is broken ───────────────────────────────────────────────────────────────────────────


def test_a_flipped_bit_is_noticed_wherever_it_is() -> None:
    row = encode(RUN, created(brief="Send 100 euros"))

    for place in range(len(row.body)):
        flipped = bytearray(row.body)
        flipped[place] ^= 0x01
        with pytest.raises(CorruptEntry) as corrupt:
            read(row, body=bytes(flipped))
        assert (corrupt.value.journal, corrupt.value.position) == (RUN, 5)


def test_a_truncated_row_is_noticed_wherever_it_ends() -> None:
    row = encode(RUN, outcome(4, Outcome.UNKNOWN, usage=Usage(tokens=5)))

    for length in range(len(row.body)):
        with pytest.raises(CorruptEntry):
            read(row, body=row.body[:length])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"epoch":1}',
        b'{"event":7}',
        b'{"event":"run.entered"}',
        b'{"event":"run.entered","epoch":"one"}',
        b'{"event":"attempt.settled","epoch":1,"attempt":4,"outcome":"perhaps"}',
        b"\xff\xfe",
    ],
    ids=repr,
)
def test_what_is_no_event_is_named_even_if_its_checksum_fits(body: bytes) -> None:
    with pytest.raises(CorruptEntry) as corrupt:
        decode(RUN, 5, 1.0, **written_later(body, must_understand=True))

    assert (corrupt.value.journal, corrupt.value.position) == (RUN, 5)
    assert f"{RUN} cannot be read at position 5" in str(corrupt.value)


def test_what_was_read_can_be_folded() -> None:
    state = running_state()

    advance(state, read(encode(RUN, outcome(4))))

    assert state.open == {}
    assert state.effects[4].outcome is Outcome.DONE


def test_samples_leave_no_field_at_its_default() -> None:
    event = sample(e.AttemptStarted)

    assert set(msgspec.json.decode(encode(RUN, event).body)) == {
        "event",
        *e.AttemptStarted.__struct_fields__,
    }
    assert event.effect is Effect.ONCE
    assert sample(Actor).role == "operator"
