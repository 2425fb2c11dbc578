"""A worker that was lost is dead, or only out of reach and still at its tool.

On one host its death is proved by its lock, which its process tools hold too. Where leases run out
by time it is guessed. A check that says *not done* then says so of this moment only: what was begun
may still happen, until its timeout has passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midflight.kernel.state import WORKER_LOST, Attempt
from midflight.tools.base import REGISTRY, TIMEOUT_S

if TYPE_CHECKING:
    from midflight.executor.drive import Driver


def may_act_for(driver: Driver, attempt: Attempt) -> float:
    """For how many seconds a lost worker may still be at this attempt."""
    if driver.lease.proven or attempt.why != WORKER_LOST:
        return 0.0
    begun = driver.replay.begun(attempt.position)
    tool = REGISTRY.get(begun.event.tool)
    timeout = tool.timeout if tool is not None else TIMEOUT_S
    return max(0.0, begun.at + timeout - driver.clock())
