"""The files of a post: texts that go as files, and files of a run's folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from midflight import store_files
from midflight.channels.shapes import Post

FILE_BYTES_MAX: Final = 8_000_000


def attached(post: Post) -> list[tuple[str, bytes]]:
    """Return names and contents; a file that cannot be read is replaced by a text that says why."""
    return [*((name, text.encode()) for name, text in post.texts), *map(_read, post.files)]


def _read(path: str) -> tuple[str, bytes]:
    name = Path(path).name
    try:
        return name, _content(Path(path))
    except OSError as error:
        return f"{name}.txt", f"{name} cannot be read here: {error.strerror}.".encode()


def _content(path: Path) -> bytes:
    """Read a plain file of that very folder; a run may have put a link or a device there since."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if store_files.is_open(os.stat(path.name, dir_fd=folder, follow_symlinks=False)):
            raise OSError(0, f"it {store_files.WHY}")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        handle = os.open(path.name, flags, dir_fd=folder)
    finally:
        os.close(folder)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "it is not a file")
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise OSError(0, f"it has more than {FILE_BYTES_MAX:,} bytes")
    return data
