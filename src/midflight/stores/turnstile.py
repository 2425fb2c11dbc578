"""A fair queue for the writers of one SQLite file, across processes.

SQLite has no queue: a process that commits back to back starves another for seconds (16.8 s were
seen). Two locks make one. A process that waits for the gate holds the door, so a process that has
just left the gate must get in line behind it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from midflight.stores.descriptors import close, open_alone
from midflight.stores.locks import FileLock, Lock


class Turnstile:
    """One per store in a process; used only while the writer's desk is held."""

    def __init__(self, door: Lock, gate: Lock) -> None:
        self._door = door
        self._gate = gate

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Wait for one's turn. The locks go with the process, however it ends."""
        self._enter(wait=True)
        try:
            yield
        finally:
            self.leave()

    def enter_at_once(self) -> bool:
        """Take one's turn if nobody else is there or waits; then the caller must ``leave``."""
        return self._enter(wait=False)

    def _enter(self, *, wait: bool) -> bool:
        if not self._door.take(wait=wait):
            return False
        try:
            return self._gate.take(wait=wait)
        finally:
            self._door.free()

    def leave(self) -> None:
        """Let the next one in."""
        self._gate.free()


@contextmanager
def turnstile_of_files(folder: Path) -> Iterator[Turnstile]:
    """Give a turnstile of two files in a folder, for systems without locks on bytes."""
    door = open_alone(folder / "door", os.O_RDWR | os.O_CREAT)
    gate = open_alone(folder / "gate", os.O_RDWR | os.O_CREAT)
    try:
        yield Turnstile(FileLock(door), FileLock(gate))
    finally:
        close(door)
        close(gate)
