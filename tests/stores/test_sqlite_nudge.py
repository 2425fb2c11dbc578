"""Letters between processes on one SQLite file: only hints, and never more than fit in one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from midflight.stores.sqlite.sqlite_news import DATAGRAM_MAX, Nudges


@pytest.fixture
def us(tmp_path: Path) -> Iterator[Nudges]:
    nudges = Nudges(tmp_path / "watchers", "us")
    yield nudges
    nudges.close()


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Nudges]:
    """Another process, which does not look into its box unless it is told to."""
    nudges = Nudges(tmp_path / "watchers", "peer")
    assert nudges.open_box() is not None
    yield nudges
    nudges.close()


def letters(peer: Nudges) -> list[dict[str, int]]:
    found: list[dict[str, int]] = []
    peer.receive(lambda heads: found.append(dict(heads)))
    return found


def fill_the_box(us: Nudges, peer: Nudges) -> None:
    """As many letters as the system keeps for a reader who does not read."""
    while us._owed == {}:
        us.send({"r-0": 1})


def test_what_did_not_fit_into_a_full_box_comes_with_the_next_letter(
    us: Nudges, peer: Nudges
) -> None:
    fill_the_box(us, peer)
    us.send({"r-1": 7})
    letters(peer)

    us.send({"r-2": 9})

    assert letters(peer) == [{"r-0": 1, "r-1": 7, "r-2": 9}]


def test_a_box_that_nobody_empties_costs_us_no_more_than_one_letter(
    us: Nudges, peer: Nudges
) -> None:
    fill_the_box(us, peer)
    for number in range(5000):
        us.send({f"r-{number:020}": number})

    assert len(str(us._owed)) <= 2 * DATAGRAM_MAX
    letters(peer)
    us.send({"r-1": 1})
    us.send({"r-2": 2})
    assert letters(peer) == [{}, {"r-2": 2}]  # look at everything; then as ever
