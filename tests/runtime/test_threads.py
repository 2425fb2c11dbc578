"""Blocking functions in threads of their own."""

from __future__ import annotations

import asyncio
import gc

from midflight.runtime.steps import bounds


async def call_in_thread() -> int:
    return int(await bounds.in_thread(lambda: 7, lambda: False, lambda result, error: None))


def test_a_loop_that_is_gone_leaves_no_limit_behind_for_the_next_one() -> None:
    """A new loop may get the place in memory of a dead one, and must not get its limit."""
    gc.collect()
    before = len(bounds._limiters)
    for _ in range(3):
        assert asyncio.run(call_in_thread()) == 7
    gc.collect()

    assert len(bounds._limiters) == before
