"""The folder of the demo: readable by its owner alone, and used by one process at a time."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from midflight.demo.data import make_company
from midflight.errors import InvalidRequest
from midflight.inputs import Clock, wall_clock

MARK: Final = "demo.lock"  # its presence marks a folder as a demo's, its lock marks it as in use
COMPANY: Final = "company.db"
RUNS: Final = "runs.db"
OURS: Final = ("company.*", "runs.db*", "memos", "slides", "outbox", "work", "keys.*", "demo.log")
"""All that a demo ever writes; a fresh start removes this and nothing else."""


@contextmanager
def taken(folder: Path, *, fresh: bool = False, clock: Clock = wall_clock) -> Iterator[Path]:
    """Hold the folder, with a company in it; ``fresh`` begins with a new one."""
    made = _made(folder)
    with (made / MARK).open("a") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidRequest(
                f"a demo is running in {folder} already. Open the URL that it has printed, end it "
                "with Ctrl-C there, or name another folder with --folder. Nothing was changed."
            ) from None
        if fresh:
            _clear(made)
        if not (made / COMPANY).exists():
            make_company(made / COMPANY, clock=clock)
        yield made


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / MARK).exists():
            raise InvalidRequest(
                f"{folder} holds things that are not a demo's. Name another folder with --folder. "
                "Nothing was changed."
            )
        folder.chmod(0o700)
    except OSError as error:
        raise InvalidRequest(
            f"cannot use {folder}: {error.strerror}. Name another folder with --folder. "
            "Nothing was started."
        ) from None
    return folder.resolve()


def _clear(folder: Path) -> None:
    for pattern in OURS:
        for path in folder.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
