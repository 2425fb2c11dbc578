"""Letters between the processes on one SQLite file: they wake the watchers that wait for an append.

``Nudges`` are datagrams to each process that watches: sub-millisecond, and nobody waits for them.
They are only hints; a process that misses one finds the change by polling ``data_version``.
``DriversBell`` nudges the processes that drive, about runs that may want a driver; a driver that
misses it finds the run when it looks by itself.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from midflight.inputs import Ids
from midflight.journal.fold import BULK
from midflight.stores.protocol import Committed, Killing
from midflight.stores.watch.hints import ANY, Movements

DATAGRAM_MAX: Final = 32 * 1024
LAST: Final = (1 << 63) - 1  # "up to the end": a kill does not say how far it moved each journal
EVERYTHING: Final = b"{}"  # too much to list: look at all you watch

_decoder: Final = msgspec.json.Decoder(dict[str, int])


class Done(Protocol):
    """A job of the writer that is on the disk."""

    result: Any


class Nudges:
    """The letter box of this process, and the way to the others'."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._path = folder
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name = name
        self._peers: list[str] = []
        self._peers_at = -1
        self._owed: dict[str, int] | None = {}  # None: more than a letter holds
        self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._out.setblocking(False)
        self._box: socket.socket | None = None

    def open_box(self) -> socket.socket | None:
        """Start to receive; None where this file system has no sockets."""
        box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        box.setblocking(False)
        try:
            box.bind(self._address(self._name))
        except OSError:
            box.close()
            return None
        self._box = box
        return box

    def receive(self, moved: Callable[[Mapping[str, int]], None]) -> None:
        """Pass on everything that lies in the box; an empty map means "anything"."""
        assert self._box is not None
        while True:
            try:
                letter = self._box.recv(DATAGRAM_MAX)
            except BlockingIOError:
                return
            try:
                moved(_decoder.decode(letter))
            except msgspec.DecodeError:
                moved({})  # not ours to trust, but a hint costs only a look

    def nobody_listens(self) -> bool:
        """Return whether there is no other process to tell; a folder that is gone has none."""
        try:
            if os.stat(self._folder).st_mtime_ns == self._peers_at:
                return not self._peers
            return not self._others()
        except OSError:
            return True

    def send(self, heads: Mapping[str, int]) -> None:
        """Tell every other process. Called by the writer thread after a commit."""
        peers = self._others()
        if not peers:
            return
        letter = self._letter(heads)
        delivered = True
        for peer in peers:
            try:
                self._out.sendto(letter, self._address(peer))
            except BlockingIOError:
                delivered = False  # its box is full: it is told with the next one
            except OSError:
                self._remove(peer)  # nobody behind it any more
        if delivered:
            self._owed = {}

    def _letter(self, heads: Mapping[str, int]) -> bytes:
        """Return the letter with all heads that peers have not got yet.

        A peer that never empties its box must not make the letter ever longer.
        """
        if self._owed is not None:
            self._owed.update(heads)
            letter = msgspec.json.encode(self._owed)
            if len(letter) <= DATAGRAM_MAX:
                return letter
            self._owed = None
        return EVERYTHING

    def close(self) -> None:
        """Take the box down, and send nothing any more."""
        self.close_box()
        self._out.close()
        os.close(self._folder)

    def close_box(self) -> None:
        """Receive nothing any more."""
        if self._box is not None:
            self._box.close()
            self._remove(self._name)
            self._box = None

    def _others(self) -> list[str]:
        changed_at = os.stat(self._folder).st_mtime_ns
        if changed_at != self._peers_at:
            self._peers = [name for name in os.listdir(self._folder) if name != self._name]
            self._peers_at = changed_at
        return self._peers

    def _address(self, name: str) -> str:
        # A socket's path may have a hundred bytes or so; through the folder's handle it has.
        path = str(self._path / name)
        return path if len(path) < 100 else f"/proc/self/fd/{self._folder}/{name}"

    def _remove(self, name: str) -> None:
        with suppress(OSError):  # somebody else was quicker
            os.unlink(name, dir_fd=self._folder)


class DriversBell:
    """A bell that the writer rings, and that drivers hear on their event loops."""

    def __init__(self, folder: Path, name: str) -> None:
        self._nudges = Nudges(folder, name)
        self._box: socket.socket | None = None
        self._wanting: set[Movements] = set()

    def ring(self, jobs: Iterable[Done]) -> None:
        """Tell which runs were moved by more than steps. A step makes no run want a driver."""
        if self._nudges.nobody_listens():
            return
        results = [job.result for job in jobs]
        records = [r for done in results if isinstance(done, Committed) for r in done.records]
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


class Letters:
    """All that one process writes to others: to those that watch, and to those that drive."""

    def __init__(self, folder: Path, ids: Ids) -> None:
        self.nudges = Nudges(folder / "watchers", ids())
        self.bell = DriversBell(folder / "bells", ids())

    def announce(self, jobs: Collection[Done]) -> None:
        """Tell the other processes as soon as it is on the disk. Only a hint: it may fail."""
        self.bell.ring(jobs)
        if self.nudges.nobody_listens():
            return
        heads: dict[str, int] = {}
        for job in jobs:
            if isinstance(job.result, Committed):
                heads.update((r.journal, r.position) for r in job.result.records)
            elif isinstance(job.result, Killing):
                heads.update(dict.fromkeys([*job.result.killed, *job.result.revoked], LAST))
        with suppress(OSError):
            self.nudges.send(heads)

    def close(self) -> None:
        """Write and receive nothing any more."""
        self.bell.close()
        self.nudges.close()
