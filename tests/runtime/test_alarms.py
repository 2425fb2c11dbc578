"""One timer rings for everything that has taken too long, and for nothing else."""

from __future__ import annotations

import anyio
import pytest

from midflight.runtime.steps.bounds import Alarms

pytestmark = pytest.mark.anyio


class Sleeper:
    """Notes that it was rung, and wants to be rung again as often as it is told to."""

    def __init__(self, *again_after: float) -> None:
        self.rung = 0
        self.again_after = list(again_after)
        self.awake = anyio.Event()

    def ring(self, now: float) -> float | None:
        self.rung += 1
        if self.again_after:
            return now + self.again_after.pop(0)
        self.awake.set()
        return None

    async def woken(self) -> None:
        with anyio.fail_after(20):
            await self.awake.wait()


def soon(alarms: Alarms, after: float) -> float:
    return alarms.loop.time() + after


async def test_what_is_due_rings_and_what_was_dropped_does_not() -> None:
    alarms, due, dropped, later = Alarms(), Sleeper(), Sleeper(), Sleeper()
    alarms.set(later, soon(alarms, 60))
    alarms.set(dropped, soon(alarms, 0.01))
    alarms.set(due, soon(alarms, 0.02))
    alarms.drop(dropped)

    await due.woken()

    assert (due.rung, dropped.rung, later.rung) == (1, 0, 0)


async def test_a_sooner_one_does_not_wait_for_a_later_one_which_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alarms, late, early = Alarms(), Sleeper(), Sleeper()
    now = alarms.loop.time
    alarms.set(late, soon(alarms, 600))
    alarms.set(early, soon(alarms, 300))

    monkeypatch.setattr(alarms.loop, "time", lambda: now() + 300)
    await early.woken()
    assert late.rung == 0
    monkeypatch.setattr(alarms.loop, "time", lambda: now() + 600)
    await late.woken()

    assert (early.rung, late.rung) == (1, 1)


async def test_who_wants_to_be_rung_again_is_until_it_wants_no_more() -> None:
    alarms, deaf = Alarms(), Sleeper(0.01, 0.01)
    alarms.set(deaf, soon(alarms, 0.01))

    await deaf.woken()
    await anyio.sleep(0.05)

    assert deaf.rung == 3


@pytest.mark.slow
async def test_ten_thousand_that_are_due_one_after_another_are_not_looked_at_each_time() -> None:
    alarms, crowd = Alarms(), [Sleeper() for _ in range(10_000)]
    looks = 0
    look = alarms._look

    def counted() -> None:
        nonlocal looks
        looks += 1
        look()

    alarms._look = counted  # type: ignore[method-assign]
    for number, sleeper in enumerate(crowd):
        alarms.set(sleeper, soon(alarms, 0.01 + number * 1e-5))

    await crowd[-1].woken()

    assert all(sleeper.rung == 1 for sleeper in crowd)
    assert looks < 100


async def test_after_the_end_nothing_rings() -> None:
    alarms, sleeper = Alarms(), Sleeper()
    alarms.set(sleeper, soon(alarms, 0.01))
    alarms.close()

    await anyio.sleep(0.05)

    assert sleeper.rung == 0
