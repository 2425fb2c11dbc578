"""Golden journals: rows as a release left them on disk, and what they add up to.

Each story is two files. ``<story>.jsonl`` has one stored row a line; ``<story>.json`` says what the
journals of that story mean. Both are only ever added: what people have on their disks stays
readable, and keeps its meaning.
"""

from __future__ import annotations

import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from midflight.journal.fold import advance
from midflight.journal.record import Recorded
from midflight.journal.state import RunState
from midflight.journal.status import receipt
from midflight.journal.transition_table import State
from midflight.stores.codec import decode, encode
from midflight.stores.commit import summary
from midflight.stores.protocol import empty_state

FOLDER: Final = Path(__file__).parent


class Line(Struct):
    """One row; ``event`` is its body, byte for byte."""

    journal: str
    position: int
    at: float
    version: int
    must_understand: bool
    event: Raw


def line(record: Recorded) -> bytes:
    """The row of an event, as today's code stores it."""
    row = encode(record.journal, record.event)
    kind = row.event
    return msgspec.json.encode(
        Line(
            record.journal,
            record.position,
            record.at,
            kind.VERSION,
            kind.MUST_UNDERSTAND,
            Raw(row.body),
        )
    )


def read(path: Path) -> list[Recorded]:
    """Read the rows of a story with today's codec."""
    rows = [msgspec.json.decode(text, type=Line) for text in path.read_bytes().splitlines()]
    return [
        decode(
            row.journal,
            row.position,
            row.at,
            version=row.version,
            must_understand=row.must_understand,
            checksum=zlib.crc32(bytes(row.event)),
            body=bytes(row.event),
        )
        for row in rows
    ]


def folded(records: list[Recorded]) -> dict[str, State]:
    """The state of every journal of a story."""
    states: dict[str, State] = {}
    for record in records:
        advance(states.setdefault(record.journal, empty_state(record.journal)), record)
    return states


def meaning(state: State) -> dict[str, Any]:
    """What a journal adds up to, in plain data."""
    told = _run(state) if isinstance(state, RunState) else _thread(state)
    plain: dict[str, Any] = msgspec.to_builtins(told | {"row": summary(state)})
    return plain


def _run(state: RunState) -> dict[str, Any]:
    return {
        "phase": state.phase,
        "holds": sorted(state.holds),
        "brief": state.brief,
        "receipt": [entry.text for entry in receipt(state).lines],
        "saved": state.saved,
        "spent": asdict(state.spent),
        "in_flight": sorted(state.open),
        "questions": [question.message for question in state.questions.values()],
        "deliveries": {str(at): f"{d.verb} {d.status}" for at, d in state.deliveries.items()},
    }


def _thread(state: Any) -> dict[str, Any]:
    return {
        "front": state.front,
        "unread": [message.text for message in state.unread.values()],
        "todos": [todo.text for todo in state.next_todos],
    }


def as_far_as(expected: Any, found: Any) -> Any:
    """The part of what was found that an older release knew to ask for."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return {key: as_far_as(expected[key], found.get(key)) for key in expected}
    return found
