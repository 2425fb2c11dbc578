"""Lookups for a chat: its thread, the run in front, the run of a button, a question. Reads only."""

from __future__ import annotations

from typing import Final

from midflight.channels.ledger import Memory
from midflight.channels.shapes import mark
from midflight.control import Ack, Control
from midflight.errors import InvalidRequest, MidflightError
from midflight.kernel.events import QuestionOpened
from midflight.kernel.status import status
from midflight.kernel.thread import ThreadState
from midflight.stores.lookup import question_at, thread_if_any
from midflight.stores.protocol import Query
from midflight.view.summaries import short

RUNS_LOOKED_AT: Final = 500  # of a thread, for the run that an old button means

NOTHING: Final = "nothing was ever started here: write what is to be done."


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
            rows = await self._control.runs(Query(thread=memory.thread, before=before))
            found = next((row.journal for row in rows if mark(row.journal) == run_mark), "")
            if found or not rows:
                break
            before = rows[-1].journal
        else:
            found = ""
        if not found:
            raise InvalidRequest(
                "this button belongs to a run that is not known here any more. Nothing was changed."
            )
        return found

    async def question(self, run: str, position: int) -> QuestionOpened:
        """Return the question at a position of a run; raise ``InvalidRequest`` if there is none."""
        asked = await question_at(self._control.store, run, position)
        if asked is None:
            raise InvalidRequest("there is no such question. Nothing was changed.")
        return asked
