"""Effects that began after a cancel was acknowledged, although that cancel had not listed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from midflight.journal import events as e
from midflight.stores.sqlite.sqlite_file import connect
from midflight.stores.sqlite.transaction import read_events

__all__ = ["unlisted"]


def unlisted(
    path: Path,
    acknowledged: Mapping[str, float],
    begun: Mapping[str, Sequence[tuple[str, float]]],
) -> int:
    """Count them in the runs of a SQLite store whose cancel was ``acknowledged`` at a moment.

    By the journal: a start that is recorded behind the cancel. By the clock: a tool whose first
    line ran after the acknowledgement and whose start the cancel does not name. ``begun`` has the
    key and the moment of each first line, by run.
    """
    found = 0
    db = connect(path, writes=False, busy_s=1)
    for run, moment in acknowledged.items():
        cancelled, listed = 0, set[int]()
        starts: dict[str, set[int]] = {}
        for record in read_events(db, run, 0, -1):
            match record.event:
                case e.CancelRequested(in_flight=flying):
                    cancelled, listed = record.position, set(flying)
                case e.AttemptStarted(idempotency_key=key):
                    starts.setdefault(key, set()).add(record.position)
                    found += 0 < cancelled < record.position
                case _:
                    pass
        late = {key for key, at in begun.get(run, ()) if key and at > moment}
        found += sum(not starts[key] & listed for key in late)
    db.close()
    return found
