"""Time that passes in a moment, so that no test needs a quick machine to be in time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import anyio
import pytest

from midflight.stores.postgres import postgres_lease
from midflight.stores.postgres.postgres_lease import RowLease

RENEWED_S = 8.0  # a renewal that is answered at all is answered in this time


def let_pass(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """For this process: its timers, and what it believes of its leases."""
    for where, name in (
        (asyncio.get_running_loop(), "time"),
        (time, "monotonic"),
        (postgres_lease, "steady"),
    ):
        monkeypatch.setattr(where, name, _later(getattr(where, name), seconds))


def _later(clock: Callable[[], float], seconds: float) -> Callable[[], float]:
    return lambda: clock() + seconds


async def is_renewed(lease: RowLease, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether it is held throughout a time that is longer than it lasts."""
    for _ in range(4):
        renewed = lease._renewed
        let_pass(monkeypatch, lease._ttl / 3)
        with anyio.move_on_after(RENEWED_S):
            while lease.held and lease._renewed == renewed:  # noqa: ASYNC110 - nobody is told of it
                await anyio.sleep(0.01)
        if not lease.held or lease._renewed == renewed:
            return False
    return True
