"""The memory of each chat, in one small file, and lookups of its thread, runs and questions."""

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

from midflight.control import Ack, Control
from midflight.errors import InvalidRequest, MidflightError
from midflight.interfaces.chat.channel import mark
from midflight.journal.events import QuestionOpened
from midflight.journal.status import status
from midflight.journal.threads.thread import ThreadState
from midflight.stores.lookup import question_at, thread_if_any
from midflight.stores.protocol import Query
from midflight.view.shown_values import short

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


RUNS_LOOKED_AT: Final = 500  # of a thread, for the run that an old button means

NOTHING: Final = (
    "nothing was ever started here, so there is nothing to steer and nothing was changed: write "
    "what is to be done, and a run begins."
)
NOT_KNOWN: Final = (
    "This button was made by another version of Midflight and means nothing to this one. Nothing "
    "was changed: use the buttons of a newer message."
)


class Finder:
    """Finds what the words and buttons of a chat are about."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def stands(self, memory: Memory, run_mark: str = "") -> str:
        """Return how a run of this chat stands, in one line; by default the run in front."""
        try:
            run = await self.run(memory, run_mark) if run_mark else await self.front(memory)
            state = await self._control.state(run)
        except MidflightError:
            return ""
        alone = await self._control.undriven_since(state) is not None
        return f"Now: {status(state, await self._control.store.now(), alone=alone)}."

    async def named(self, memory: Memory, accepted: Ack) -> str:
        """Return how the run stands, with the title of the work in it if the run is working."""
        if not accepted.doing:
            return accepted.status
        state = await self._control.state(await self.front(memory))
        about = short(state.title or state.brief, 60)
        return "; ".join(filter(None, [f"working on “{about}”: {accepted.doing}", accepted.note]))

    async def exists(self, memory: Memory) -> bool:
        """Return whether anything was ever said or started in the chat."""
        return await self.talk(memory.thread) is not None

    async def front(self, memory: Memory) -> str:
        """Return the run in front of this chat; raise ``InvalidRequest`` if there is none."""
        talk = await self.talk(memory.thread)
        if talk is None or not talk.front:
            raise InvalidRequest(NOTHING)
        return talk.front

    async def talk(self, thread: str) -> ThreadState | None:
        """Return a thread as it is now; None if nothing was ever said there."""
        return await thread_if_any(self._control.store, thread)

    async def run(self, memory: Memory, run_mark: str) -> str:
        """Return the run that a button means: only one of this chat's own thread is taken."""
        if not run_mark:
            raise InvalidRequest(NOTHING)
        before = ""
        for _ in range(RUNS_LOOKED_AT // 100):
            # layer button-reaches-only-into-own
            rows = await self._control.runs(Query(thread=memory.thread, before=before))
            found = next((row.journal for row in rows if mark(row.journal) == run_mark), "")
            if found or not rows:
                break
            before = rows[-1].journal
        else:
            found = ""
        if not found:
            raise InvalidRequest(
                "the run of this button is not in this chat's thread, or is too old to be found. "
                "Nothing was changed: use the buttons of a newer message, or a command such as "
                "/status."
            )
        return found

    async def question(self, run: str, position: int) -> QuestionOpened:
        """Return the question at a position of a run; raise ``InvalidRequest`` if there is none."""
        asked = await question_at(self._control.store, run, position)
        if asked is None:
            raise InvalidRequest(
                "the question of this button is not in the journal of its run. Nothing was "
                "answered: use the buttons of a newer message."
            )
        return asked
