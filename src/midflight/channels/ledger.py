"""The memory of each chat, in one small file, for the next process.

It holds the chat's thread, how far the chat has been told, which message shows the status, which
messages were heard and which presses are not answered yet. If the file is lost, only our place in
the chat is lost; what was said is in the journal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Final

import anyio
import msgspec
from anyio import to_thread
from msgspec import Struct

HEARD_KEPT: Final = 512  # ids of messages; a chat delivers the same one twice within minutes
CARDS_KEPT: Final = 64
CURSORS_KEPT: Final = 512  # of runs; one that is older has ended long ago


class Pending(Struct, frozen=True):
    """A press that was taken and is not answered yet, and how it can still be answered."""

    code: str
    by: str
    role: str
    at: float
    way: str
    fields: dict[str, str] = {}


class Memory(Struct):
    """One chat. ``cursors`` are the positions up to which its journals were shown."""

    chat: str
    thread: str
    mentions_only: bool = False
    since: str = ""  # messages before this one were not for us
    told_from: float = 0.0  # earlier events of a run without a cursor are not told
    gone: bool = False
    cursors: dict[str, int] = {}
    posting: dict[str, int] = {}  # the cursors as they will be after the posts in flight
    heard: list[str] = []
    status_run: str = ""
    status_message: str = ""
    cards: dict[str, str] = {}
    pending: dict[str, Pending] = {}


class Ledger:
    """The files of one channel's chats."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._lock = anyio.Lock()
        self.chats: dict[str, Memory] = {}
        for path in sorted(self._folder.glob("*.json")):
            found = _read(path)
            if found is not None:
                self.chats[found.chat] = found

    async def keep(self, memory: Memory, change: Callable[[Memory], None]) -> None:
        """Change what is remembered; when this returns it is on the disk."""
        async with self._lock:
            change(memory)
            del memory.heard[:-HEARD_KEPT]
            for card in list(memory.cards)[:-CARDS_KEPT]:
                del memory.cards[card]
            runs = [journal for journal in memory.cursors if journal != memory.thread]
            for run in runs[:-CURSORS_KEPT]:
                del memory.cursors[run]
            self.chats[memory.chat] = memory
            body = msgspec.json.encode(memory)
            await to_thread.run_sync(_write, self._folder, _file(memory.chat), body)


def _file(chat: str) -> str:
    plain = re.fullmatch(r"[A-Za-z0-9_-]{1,64}", chat)
    return f"{chat if plain else blake2b(chat.encode(), digest_size=16).hexdigest()}.json"


def _read(path: Path) -> Memory | None:
    """Read a file; one that cannot be read is renamed and kept, and counts as missing."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Memory)
    except (OSError, msgspec.MsgspecError):
        path.replace(path.with_suffix(".unreadable"))
        return None


def _write(folder: Path, name: str, body: bytes) -> None:
    """Replace a file in one move. Only its owner may read it: it may hold tokens for answers."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = folder / f"{name}.new"
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / name)
