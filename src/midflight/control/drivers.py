"""Finds runs that nobody drives. It looks at the leases of their drivers, not at their journals."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from midflight.journal.phases import Phase
from midflight.journal.state import CLAIM_S, RunState, needs_driver, undriven_since
from midflight.stores.protocol import Row, Store


async def with_drivers(store: Store, rows: Iterable[Row]) -> list[Row]:
    """Mark the rows of runs that have begun, need a driver and have none that lives."""
    found, gone = list(rows), {"": True}
    now = await store.now() if any(map(_needs_driver, found)) else 0.0
    for number, row in enumerate(found):
        undriven = _needs_driver(row) and (bool(row.driver) or now - row.updated_at >= CLAIM_S)
        if undriven and row.driver not in gone:
            gone[row.driver] = await store.lease_gone(row.driver)
        undriven = undriven and gone[row.driver]
        if undriven != row.undriven:
            found[number] = structs.replace(row, undriven=undriven)
    return found


async def is_alone(store: Store, state: RunState) -> bool:
    """Return whether a run needs a driver and has none that lives."""
    if not needs_driver(state):
        return False
    gone = await store.lease_gone(state.driver) if state.driver else True
    return undriven_since(state, gone=gone, now=await store.now()) is not None


def _needs_driver(row: Row) -> bool:
    """Return of a row what ``state.needs_driver`` returns of a state."""
    return row.wants_driver and row.phase != Phase.QUEUED
