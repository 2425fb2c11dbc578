"""The time in which an attempt in doubt may still take effect: "not done" proves nothing yet.

Two things may still act. A worker that was lost is dead, or only out of reach and still at its
tool. On one host its death is proved by its lock, which its process tools hold too. Where leases
run out by time it is guessed, and one whose run was taken away by a kill lives. It may go on until
its timeout has passed, counted from the moment at which it was found to be lost: it began nothing
after that, and a little before it everything may have begun.

And whatever an attempt has sent may still arrive, also when the attempt was aborted, has failed, or
its worker is dead: ``settles_within`` says how long a provider may take to act on it.
"""

from __future__ import annotations

import math
from typing import Final

from midflight.executor.host import Host
from midflight.kernel.state import LOST, WORKER_LOST, Attempt
from midflight.tools.base import Tool
from midflight.tools.supervised import OVERTIME_S

SLACK_S: Final = 1.0  # in which a supervisor that is late ends its tool


def may_act_for(host: Host, attempt: Attempt) -> float:
    """For how many seconds a lost worker may still be at this attempt; a thread has no limit."""
    return _left(host, attempt, _worker_has(host, attempt))


def may_arrive_for(host: Host, attempt: Attempt, tool: Tool) -> float:
    """For how many seconds this attempt may still take effect, by its worker or by what it sent."""
    return _left(host, attempt, _worker_has(host, attempt) + tool.settles_within)


def _left(host: Host, attempt: Attempt, bound: float) -> float:
    if not bound:
        return 0.0
    return max(0.0, bound - host.journal.clock.age(host.history.unknown_at[attempt.position]))


def _worker_has(host: Host, attempt: Attempt) -> float:
    """The seconds from when it was found to be lost, in which a worker may be at it."""
    if attempt.at_work:
        return math.inf
    dead = attempt.why == WORKER_LOST and host.lease.proven
    if dead or attempt.why not in LOST:
        return 0.0
    begun = host.history.begun(attempt.position).event
    return math.inf if begun.in_thread else begun.timeout + OVERTIME_S + SLACK_S
