"""Time and chance, which are inputs: real ones for programs, fixed ones for tests and replay.

This module also has the names by which a machine knows itself.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Final

Clock = Callable[[], float]
"""Seconds since the epoch."""

Ids = Callable[[], str]
"""A new id at each call; later ids sort after earlier ones."""

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
"""Names of this machine that no other machine can be asked for by."""

wall_clock: Final[Clock] = time.time  # noqa: TID251 - the one place where the world's time comes in


if sys.platform == "linux":
    steady: Clock = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
else:
    steady: Clock = time.monotonic
"""Seconds that also pass while the machine sleeps: a lease does not wait for a lid to open."""


def new_id() -> str:
    """Give an id of 28 hexadecimal digits that sorts by time: neighbours in time stay neighbours.

    Random ids would touch a random page of the append-id index in every commit; these touch its
    right edge.
    """
    return (int(wall_clock() * 1000).to_bytes(6) + os.urandom(8)).hex()


def counted_ids(prefix: str = "") -> Ids:
    """Ids in counting order, for tests and golden journals."""
    count = 0

    def next_id() -> str:
        nonlocal count
        count += 1
        return f"{prefix}{count:06d}"

    return next_id
