"""The server's clock as it is known here: late by a journey, and not set back by a slow one."""

from __future__ import annotations

import pytest

from midflight.stores.postgres.postgres_server import KEPT_S, ServerClock

APART = 100.0  # by which the server's clock is ahead of ours


class Machine:
    """Its own clock, and a server whose answers travel for as long as they are told to."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.apart = APART
        self.clock = ServerClock(lambda: self.time)

    def hears(self, *, travelled: float, after: float = 0.0) -> None:
        self.time += after
        self.clock.heard(self.time + self.apart - travelled)

    @property
    def late_by(self) -> float:
        return self.time + self.apart - self.clock.now()


@pytest.fixture
def here() -> Machine:
    machine = Machine()
    machine.hears(travelled=0.001)
    return machine


def test_it_is_late_by_the_time_that_the_fastest_answer_travelled(here: Machine) -> None:
    here.hears(travelled=0.0005, after=1)
    here.hears(travelled=0.3, after=1)

    assert here.late_by == pytest.approx(0.0005)


@pytest.mark.parametrize("silent", [KEPT_S + 1, 10 * KEPT_S])
def test_one_slow_answer_after_a_silence_does_not_set_it_back(here: Machine, silent: float) -> None:
    here.hears(travelled=3.0, after=silent)

    assert here.late_by == pytest.approx(0.001)


def test_nor_does_one_slow_answer_now_and_then(here: Machine) -> None:
    for _ in range(5):
        for travelled in (3.0, 0.001):
            here.hears(travelled=travelled, after=KEPT_S + 1)

            assert here.late_by == pytest.approx(0.001)


def test_a_server_whose_clock_goes_slower_is_followed(here: Machine) -> None:
    here.apart -= 0.5
    for _ in range(4):
        here.hears(travelled=0.001, after=KEPT_S * 0.6)

    assert here.late_by == pytest.approx(0.001)


def test_a_server_whose_clock_goes_faster_is_followed_at_once(here: Machine) -> None:
    here.apart += 0.5
    here.hears(travelled=0.001)

    assert here.late_by == pytest.approx(0.001)


@pytest.mark.parametrize("jump", [7.0, -7.0])
def test_once_it_is_mistrusted_the_next_answer_counts_whatever_it_says(
    here: Machine, jump: float
) -> None:
    here.apart += jump
    here.clock.mistrust()
    here.hears(travelled=0.001)

    assert here.late_by == pytest.approx(0.001)
