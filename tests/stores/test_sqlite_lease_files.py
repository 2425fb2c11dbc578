"""Leases as files, for systems without locks on bytes: one that is held is never reported gone."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from midflight.stores.sqlite import sqlite_lease
from midflight.stores.sqlite.sqlite_lease import FolderLeases as Leases

TIMES = 1000


@pytest.mark.slow
def test_a_lease_is_not_reported_gone_while_others_look_and_tidy_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_lease, "TRIES_MAX", 10_000)  # who looks may be stopped as it does
    mine, theirs = Leases(tmp_path / "drivers"), Leases(tmp_path / "drivers")
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            theirs.gone("d-1")

    def tidy_up() -> None:
        while not over.is_set():
            Leases(tmp_path / "drivers")

    others = [threading.Thread(target=look), threading.Thread(target=tidy_up)]
    for other in others:
        other.start()
    gone = 0
    try:
        for _ in range(TIMES):
            with mine.hold("d-1"):
                gone += theirs.gone("d-1")
    finally:
        over.set()
        for other in others:
            other.join()

    assert gone == 0


@pytest.fixture
def before_the_next_lock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Let something happen between the moment a file is opened and the moment it is locked."""
    lock, waiting = fcntl.flock, list[Callable[[], None]]()

    def flock(handle: int, how: int) -> None:
        while waiting:
            waiting.pop()()
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    return waiting.append


def test_a_driver_whose_file_was_cleared_away_as_it_began_takes_a_new_one(
    tmp_path: Path, before_the_next_lock: Callable[[Callable[[], None]], None]
) -> None:
    folder = tmp_path / "drivers"
    mine, theirs = Leases(folder), Leases(folder)
    before_the_next_lock((folder / "d-1.lock").unlink)

    with mine.hold("d-1"):
        assert not theirs.gone("d-1")


def test_who_clears_away_a_dead_drivers_file_leaves_that_of_a_namesake_who_has_just_begun(
    tmp_path: Path, before_the_next_lock: Callable[[Callable[[], None]], None]
) -> None:
    folder = tmp_path / "drivers"
    mine, theirs = Leases(folder), Leases(folder)
    (folder / "d-1.lock").touch()  # of a driver that was killed
    with ExitStack() as living:

        def begin() -> None:
            (folder / "d-1.lock").unlink()  # somebody else was quicker to clear it away
            living.enter_context(mine.hold("d-1"))

        before_the_next_lock(begin)
        Leases(folder)

        assert not theirs.gone("d-1")


def test_the_file_of_a_dead_driver_is_cleared_away(tmp_path: Path) -> None:
    folder = tmp_path / "drivers"
    Leases(folder)
    (folder / "dead.lock").touch()

    Leases(folder)

    assert list(folder.iterdir()) == []


def test_the_file_of_a_living_driver_is_not_cleared_away(tmp_path: Path) -> None:
    folder = tmp_path / "drivers"
    with Leases(folder).hold("d-1"):
        newcomer = Leases(folder)

        assert [path.name for path in folder.iterdir()] == ["d-1.lock"]
        assert not newcomer.gone("d-1")


def test_a_name_that_leads_out_of_the_folder_is_looked_for_nowhere(tmp_path: Path) -> None:
    leases = Leases(tmp_path / "drivers")
    with (tmp_path / "outside.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        assert leases.gone("../outside")
