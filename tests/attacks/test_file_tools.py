"""Hostile files in a workspace: reading them takes bounded work, whatever they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from midflight.tools.declaration import ToolRefused
from midflight.tools.files import Workspace

MB = 1_000_000


def bytes_read() -> int:
    """Return how many bytes this process has read so far, from files of any kind."""
    lines = Path("/proc/self/io").read_text(encoding="utf-8").splitlines()
    return int(lines[0].removeprefix("rchar: "))


def fill(path: Path, size: int, begins: bytes = b"\xff") -> None:
    """Write a file that takes no room on the disk and has many bytes all the same."""
    path.write_bytes(begins)
    os.truncate(path, size)


def test_a_search_gives_up_among_many_large_files_that_are_no_text(tmp_path: Path) -> None:
    for number in range(60):
        fill(tmp_path / f"{number}.bin", 9 * MB)
    space = Workspace(tmp_path, name="attack-many")
    before = bytes_read()

    found = space.search_files("secret")

    assert bytes_read() - before < 250 * MB
    assert "given up" in found.note


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    fill(tmp_path / "huge.txt", 100_000 * MB, b"x")
    space = Workspace(tmp_path, name="attack-huge")
    before = bytes_read()

    with pytest.raises(ToolRefused, match="has 100,000,000,000 bytes"):
        space.read_file("huge.txt")
    assert bytes_read() - before < MB


@pytest.mark.parametrize("kind", ["pipe", "link to a device", "link out", "folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "space"
    place.mkdir()
    if kind == "pipe":
        os.mkfifo(place / "x")
    elif kind == "link to a device":
        (place / "x").symlink_to("/dev/zero")
    elif kind == "link out":
        (tmp_path / "secret").write_text("secret")
        (place / "x").symlink_to(tmp_path / "secret")
    else:
        (place / "x").mkdir()
    space = Workspace(place, name=f"attack-{kind}")

    with pytest.raises(ToolRefused):
        space.read_file("x")
    assert space.search_files("secret").lines == []
