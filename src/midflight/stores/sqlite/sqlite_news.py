"""News of the appends of other processes to the same SQLite file."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import anyio
import msgspec

from midflight.errors import StoreError
from midflight.stores.sqlite.open_files import OpenFiles
from midflight.stores.sqlite.sqlite_file import FAULTS, translate
from midflight.stores.sqlite.sqlite_reader import SqliteReader
from midflight.stores.watch.hub import Hub

POLL_S: Final = 0.1  # the fallback when a nudge is lost; with it a watcher is never later
POLL_ALONE_S: Final = 0.02  # where there are no nudges at all


class News:
    """Tells the watchers here of what other processes append: by nudge, and by polling anyway."""

    def __init__(self, files: OpenFiles, reader: SqliteReader, hub: Hub) -> None:
        self._path = files.path
        self._nudges = files.letters.nudges
        self._pulse = files.pulse
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
        if version != seen:
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
