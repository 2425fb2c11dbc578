"""News of appends between the processes on one SQLite file.

``Nudges`` are datagrams to each process that watches: sub-millisecond, and nobody waits for them.
They are only hints: a process that misses one finds the change by polling ``data_version``
(``News``). Other letters tell the processes that drive of runs that may want a driver; a driver
that misses one finds the run when it looks by itself.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

import anyio
import msgspec

from midflight.errors import StoreError
from midflight.inputs import Ids
from midflight.journal.fold import BULK
from midflight.stores.hints import ANY, Movements
from midflight.stores.hub import Hub
from midflight.stores.protocol import Committed, Killing
from midflight.stores.sqlite.sqlite_file import FAULTS, translate

POLL_S: Final = 0.1  # the fallback when a nudge is lost; with it a watcher is never later
POLL_ALONE_S: Final = 0.02  # where there are no nudges at all
DATAGRAM_MAX: Final = 32 * 1024
LAST: Final = (1 << 63) - 1  # "up to the end": a kill does not say how far it moved each journal
EVERYTHING: Final = b"{}"  # too much to list: look at all you watch

_decoder: Final = msgspec.json.Decoder(dict[str, int])


class Done(Protocol):
    """A job of the writer that is over; without an error it is on the disk."""

    result: Any
    error: BaseException | None


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

    def send(self, heads: Mapping[str, int]) -> None:
        """Tell every other process, if there are any. Only a hint: it may fail."""
        try:
            changed_at = os.stat(self._folder).st_mtime_ns
            if changed_at != self._peers_at:
                self._peers = [name for name in os.listdir(self._folder) if name != self._name]
                self._peers_at = changed_at
        except OSError:
            return  # a folder that is gone has no boxes
        if self._peers:  # layer sqlite-nudges
            self._send(heads)

    def _send(self, heads: Mapping[str, int]) -> None:
        letter = self._letter(heads)
        delivered = True
        for peer in self._peers:
            try:
                self._out.sendto(letter, self._address(peer))
            except BlockingIOError:
                # layer did-not-fit-into-full
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
            self._owed = None  # layer letters-owed-do-not-pile
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

    def _address(self, name: str) -> str:
        # A socket's path may have a hundred bytes or so; through the folder's handle it has.
        path = str(self._path / name)
        return path if len(path) < 100 else f"/proc/self/fd/{self._folder}/{name}"

    def _remove(self, name: str) -> None:
        with suppress(OSError):  # somebody else was quicker
            os.unlink(name, dir_fd=self._folder)


class Letters:
    """All that one process writes to others: to those that watch, and to those that drive."""

    def __init__(self, folder: Path, ids: Ids) -> None:
        self.nudges = Nudges(folder / "watchers", ids())
        self._bell = Nudges(folder / "bells", ids())
        self._box: socket.socket | None = None  # in which the bell of others is heard
        self._wanting: set[Movements] = set()

    def announce(self, jobs: Iterable[Done]) -> None:
        """Tell the other processes as soon as it is on the disk.

        Those that drive are told of runs that were moved by more than steps: a step makes no run
        want a driver.
        """
        moved: dict[str, int] = {}
        wanting: dict[str, int] = {}
        for job in jobs:
            done = None if job.error is not None else job.result
            if isinstance(done, Committed):
                for record in done.records:
                    moved[record.journal] = record.position
                    if type(record.event) not in BULK:
                        wanting[record.journal] = record.position
            elif isinstance(done, Killing):
                moved.update(dict.fromkeys([*done.killed, *done.revoked], LAST))
        if moved:
            self.nudges.send(moved)
        if wanting:  # layer drives-told-of-runs-others-have
            self._bell.send(wanting)

    def hear(self, movements: Movements) -> None:
        """Note in ``movements`` every run of which the drivers' bell tells."""
        if not self._wanting and (box := self._bell.open_box()) is not None:
            self._box = box
            asyncio.get_running_loop().add_reader(box, self._bell.receive, self._rung)
        self._wanting.add(movements)

    def hear_no_more(self, movements: Movements) -> None:
        """Note nothing in it any more."""
        self._wanting.discard(movements)
        if not self._wanting and self._box is not None:
            asyncio.get_running_loop().remove_reader(self._box)
            self._bell.close_box()
            self._box = None

    def _rung(self, heads: Mapping[str, int]) -> None:
        for movements in self._wanting:
            for journal in heads or (ANY,):
                movements.note(journal)

    def close(self) -> None:
        """Write and receive nothing any more."""
        self._bell.close()
        self.nudges.close()


class Reader(Protocol):
    """Reads the store, in a thread."""

    def select(self, name: str, arguments: Any) -> Awaitable[list[Any]]:
        """Read the rows that a statement finds."""


class News:
    """Tells the watchers here of what other processes append: by nudge, and by polling anyway."""

    def __init__(
        self, path: Path, nudges: Nudges, pulse: sqlite3.Cursor, reader: Reader, hub: Hub
    ) -> None:
        self._path = path
        self._nudges = nudges
        self._pulse = pulse
        self._reader = reader
        self._hub = hub
        self._looked = -1  # the last event that was there when all journals were looked at

    async def listen(self) -> None:
        """Hear of other processes' appends, for as long as the store is open."""
        loop = asyncio.get_running_loop()
        box = self._nudges.open_box()
        if box is not None:
            loop.add_reader(box, self._nudges.receive, self._nudged)
        seen = -1
        try:
            while True:
                await anyio.sleep(POLL_S if box is not None else POLL_ALONE_S)
                if self._hub.watched or self._hub.movements:
                    with suppress(StoreError):  # read again a moment later
                        seen = await self._poll(seen)
        finally:
            if box is not None:
                loop.remove_reader(box)

    def _nudged(self, heads: Mapping[str, int]) -> None:
        self._hub.moved(heads or dict.fromkeys(self._hub.watched))

    async def _poll(self, seen: int) -> int:
        try:  # on the loop: it looks at shared memory and takes microseconds
            ((version,),) = self._pulse.execute("PRAGMA data_version").fetchall()
        except FAULTS as error:
            raise translate(self._path, error) from error
        if version != seen:  # layer polling-where-nudge-lost
            watched = msgspec.json.encode(self._hub.watched).decode()
            heads = await self._reader.select("heads", (watched,))
            self._hub.moved(dict(heads))
            await self._look_everywhere()
        return int(version)

    async def _look_everywhere(self) -> None:
        """Name the journals that have moved since the last look, for lists of runs.

        Events lie in the order in which they came, so only what is new is read. A purge may take
        the last of them away; then everything is looked at once more.
        """
        if not self._hub.movements:
            self._looked = -1
            return
        ((last,),) = await self._reader.select("last_event", ())
        if self._looked < 0:
            self._looked = last  # a watcher that comes now has read the list
            return
        since = self._looked if last >= self._looked else 0
        self._looked = last
        for (journal,) in (
            await self._reader.select("moved_since", (since,)) if last > since else ()
        ):
            for everywhere in self._hub.movements:
                everywhere.note(journal, more=False)  # or somebody was told at once
