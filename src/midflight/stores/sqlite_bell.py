"""Tells the drivers on the same SQLite file, in whatever process, which runs may want a driver.

It rings the letter boxes of the processes that drive. It is only a hint, as every nudge: a driver
that misses one finds the run when it looks by itself.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from midflight.kernel.fold import BULK
from midflight.stores.base import Committed
from midflight.stores.movements import ANY, Movements
from midflight.stores.sqlite_nudge import Nudges


class DriversBell:
    """A bell that the writer rings, and that drivers hear on their event loops."""

    def __init__(self, folder: Path, name: str) -> None:
        self._nudges = Nudges(folder, name)
        self._box: socket.socket | None = None
        self._wanting: set[Movements] = set()

    def ring(self, done: Iterable[object]) -> None:
        """Tell which runs were moved by more than steps. A step makes no run want a driver."""
        if self._nudges.nobody_listens():
            return
        records = [r for result in done if isinstance(result, Committed) for r in result.records]
        heads = {r.journal: r.position for r in records if type(r.event) not in BULK}
        if heads:
            with suppress(OSError):
                self._nudges.send(heads)

    def hear(self, movements: Movements) -> None:
        """Note in ``movements`` every run of which the bell tells."""
        if not self._wanting and (box := self._nudges.open_box()) is not None:
            self._box = box
            asyncio.get_running_loop().add_reader(box, self._nudges.receive, self._rung)
        self._wanting.add(movements)

    def hear_no_more(self, movements: Movements) -> None:
        """End what ``hear`` began."""
        self._wanting.discard(movements)
        if not self._wanting and self._box is not None:
            asyncio.get_running_loop().remove_reader(self._box)
            self._nudges.close_box()
            self._box = None

    def _rung(self, heads: Mapping[str, int]) -> None:
        for movements in self._wanting:
            for journal in heads or (ANY,):
                movements.note(journal)

    def close(self) -> None:
        """Ring and hear no more."""
        self._nudges.close()
