"""The files of stores that this process has open: nobody here may open them a second time.

SQLite locks its files with POSIX locks. The system drops all POSIX locks that a process has on a
file as soon as the process closes *any* descriptor of that file. So a tool or a guard that reads
such a file takes the store's locks away. Tools and guards therefore ask here before they open one.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

Ident = tuple[int, int]
"""A file, whatever its names are: the device and the number that it has there."""

WHY: Final = "is a file of the store that this process has open, and is not opened a second time"

_open: Final = Counter[Ident]()


def ident(about: os.stat_result) -> Ident:
    """Return which file it is."""
    return about.st_dev, about.st_ino


def note(file: Ident) -> None:
    """Note that a store of this process has this file open."""
    _open[file] += 1


def forget(file: Ident) -> None:
    """Take one such note back."""
    _open[file] -= 1
    if _open[file] <= 0:
        del _open[file]


def is_open(about: os.stat_result) -> bool:
    """Return whether this is a file of a store that this process has open."""
    return (about.st_dev, about.st_ino) in _open


def is_open_at(path: str | os.PathLike[str]) -> bool:
    """Return the same for the file that a path leads to; False if it leads to none."""
    try:
        return is_open(os.stat(path))
    except (OSError, ValueError):
        return False
