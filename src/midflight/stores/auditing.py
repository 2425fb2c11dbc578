"""Adds the outcome to a deed that a store has done, for the record of it in the audit."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from midflight.audit.record import DONE, NOTHING, Deed
from midflight.kernel.record import Recorded
from midflight.stores.base import Killing, Purged


def of_request(deed: Deed, records: Sequence[Recorded]) -> Deed:
    """Return a request as it was done: with its place in the journal that it is about."""
    places = [record.position for record in records if record.journal == deed.target]
    position = {"position": places[0]} if places else {}
    return replace(deed, outcome=DONE, about={**deed.about, **position})


def of_kill(deed: Deed, killing: Killing) -> Deed:
    """Return a kill: how many runs it has stopped, also if there were none."""
    stopped, held = len(killing.killed), len(killing.revoked)
    about = {**deed.about, "stopped": stopped, "held": held}
    return replace(deed, outcome=DONE if stopped or held else NOTHING, about=about)


def of_release(deed: Deed, *, released: bool) -> Deed:
    """Return a release, also of a scope that was not stopped."""
    return replace(deed, outcome=DONE if released else NOTHING)


def of_purge(deed: Deed, purged: Purged, ended_before: float) -> Deed:
    """Return a purge that has removed something."""
    removed = {"runs": purged.runs, "threads": purged.threads, "values": purged.blobs}
    return replace(deed, outcome=DONE, about={**removed, "ended_before": ended_before})
