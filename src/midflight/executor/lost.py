"""A worker that was lost is dead, or only out of reach and still at its tool.

On one host its death is proved by its lock, which its process tools hold too. Where leases run out
by time it is guessed, and one whose run was taken away by a kill lives. A check that says *not
done* then says so of this moment only: what was begun may still happen, until its timeout has
passed. That is counted from the moment at which the worker was found to be lost: it began nothing
after that, and a little before it everything may have begun.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from midflight.kernel.state import LOST, WORKER_LOST, Attempt
from midflight.tools.supervised import OVERTIME_S

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

SLACK_S: Final = 1.0  # in which a supervisor that is late ends its tool


def may_act_for(driver: Driver, attempt: Attempt) -> float:
    """For how many seconds a lost worker may still be at this attempt; a thread has no limit."""
    dead = attempt.why == WORKER_LOST and driver.lease.proven
    if dead or attempt.why not in LOST:
        return 0.0
    begun = driver.replay.begun(attempt.position).event
    if begun.in_thread:
        return math.inf
    over_at = driver.replay.lost_at[attempt.position] + begun.timeout + OVERTIME_S + SLACK_S
    return max(0.0, over_at - driver.time_of_the_store())
