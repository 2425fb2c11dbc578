"""The time for which a run was driven while it moved, and since when nobody drives it.

A journal does not say when a driver died. Its last sign of life is the last event that it wrote
itself; what people ask of the run afterwards does not count as one. Time counts up to there and no
further, so a silent step that died with its driver is not counted.
"""

from __future__ import annotations

from typing import Final

from midflight.kernel.phases import Phase
from midflight.kernel.state import RunState

CLAIM_S: Final = 5.0  # a run without a driver is claimed within a sweep, which is 2 s


def seconds_in_motion(state: RunState, now: float, *, alone: bool = False) -> float:
    """Return the seconds in motion up to ``now``; ``alone`` says that nobody drives the run."""
    counted, since = state.spent.seconds, state.moving_since
    if not alone:
        return counted + _between(since, now)
    until = state.driven_at
    return counted - overcounted(state, until) + _between(since, min(now, until))


def overcounted(state: RunState, driven_until: float) -> float:
    """Return how long the last stretch was counted after the driver's last sign of life."""
    began, ended = state.stretch
    return max(0.0, ended - max(began, driven_until))


def _between(since: float | None, until: float) -> float:
    return max(0.0, until - since) if since is not None else 0.0


def needs_driver(state: RunState) -> bool:
    """Return whether nothing happens unless somebody drives it; a queued run says so itself.

    A run that has ended needs a driver, too, if something of it is to be undone.
    """
    return state.wants_driver and state.phase is not Phase.QUEUED


def alone_from(state: RunState) -> float:
    """Return since when a run without a driver needs one; after its end, since the last wish."""
    return state.driven_at if state.alive else state.at


def undriven_since(state: RunState, *, gone: bool, now: float) -> float | None:
    """Return since when nobody drives a run that needs it, or None if that is not so.

    ``gone`` says that the lease of its driver is gone. A run whose driver has left in good order is
    given a moment to be claimed.
    """
    if not needs_driver(state):
        return None
    if state.driver:
        return alone_from(state) if gone else None
    return state.at if now - state.at >= CLAIM_S else None
