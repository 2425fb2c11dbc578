"""What must be true of a store after the power of its process was cut, and of its runs later."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from hashlib import blake2b
from pathlib import Path

import anyio

from midflight.audit import Checker
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.errors import StoreError
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase
from midflight.journal.record import Recorded
from midflight.journal.state import RunState
from midflight.stores.protocol import Query
from midflight.stores.sqlite import SqliteStore
from scenarios import powered
from scenarios.powered import Known, digest

REST_S = 20.0
ENDS = {Phase.DONE, Phase.CANCELLED}
TIMES = {"once": 1, "write": 2, "undo": 2}
"""How often an effect may be done: the last write, and the last undo, are repeated by their key."""


class Aftermath:
    """A store as it was found after the cut, and all that had been said until then."""

    def __init__(self, folder: Path, said: Sequence[Known]) -> None:
        self.folder = folder
        self.said = said
        self.found: dict[str, list[Recorded]] = {}

    async def faults(self) -> list[str]:
        """Everything that is wrong: with the store, and with what becomes of its runs."""
        try:
            return await self._faults()
        except (sqlite3.Error, StoreError) as error:
            return [repr(error)]

    async def _faults(self) -> list[str]:
        faults = self._damage()
        async with SqliteStore.open(self.folder / "journals.db") as store:
            for kind in ("run", "thread"):
                for row in await store.rows(Query(kind=kind)):
                    self.found[row.journal] = await store.read(row.journal)
                    if row.head != len(self.found[row.journal]):
                        faults.append(f"{row.journal} has {row.head} events in its row")
            faults += [*self._lost(), *self._not_begun(), *await self._blobs(store)]
            checker = Checker()
            for link in await store.audit_page():
                faults += map(str, checker.take(link))
            if not faults:
                faults += await self._later(store)
        return faults

    def _damage(self) -> list[str]:
        """Look at the database as SQLite sees it, when no process has it open."""
        with closing(sqlite3.connect(self.folder / "journals.db")) as db:
            return [str(row) for row in db.execute("PRAGMA integrity_check") if row != ("ok",)]

    def _lost(self) -> list[str]:
        """What was acknowledged and is not on record as it was, at its place."""
        lost = []
        for known in self.said:
            records = self.found.get(known.about, [])
            if known.kind != "effect" and known.position > len(records):
                lost.append(f"{known.kind} {known.position} of {known.about} is lost")
            elif known.kind == "record" and digest(records[known.position - 1]) != known.what:
                lost.append(f"record {known.position} of {known.about} is another one")
        return lost

    def _not_begun(self) -> list[str]:
        """Effects whose start is not on record."""
        events = [record.event for records in self.found.values() for record in records]
        keys = {one.idempotency_key for one in events if isinstance(one, e.AttemptStarted)}
        undos = (one.idempotency_key for one in events if isinstance(one, e.UndoStarted))
        begun = keys | {f"undo {key.removesuffix(':undo')}" for key in undos}
        return [
            f"{known.about} was done and is not on record as begun"
            for known in self.said
            if known.kind == "effect" and known.about not in begun
        ]

    async def _blobs(self, store: SqliteStore) -> list[str]:
        events = [record.event for records in self.found.values() for record in records]
        blobs = {event.blob for event in events if getattr(event, "blob", None)}
        damaged = []
        for blob in blobs:
            body = await store.blob(blob.hash)
            if len(body) != blob.size or blake2b(body, digest_size=20).hexdigest() != blob.hash:
                damaged.append(f"blob {blob.hash} is damaged")
        return damaged

    async def _later(self, store: SqliteStore) -> list[str]:
        """Drive the runs on, and compare how they end with what was said before and after."""
        later: list[Known] = []
        faults = []
        async with driven(store, self.folder / "work", later) as control:
            for run in self.found:
                if not run.startswith("r-"):
                    continue
                with anyio.move_on_after(REST_S):
                    state = await control.until(run, rests)
                    faults += self._wrong(state)
                    continue
                faults.append(f"{run} is still {(await control.state(run)).phase}")
        done = Counter((k.what, k.about) for k in [*self.said, *later] if k.kind == "effect")
        faults += [
            f"{key} was done {times} times"
            for (effect, key), times in done.items()
            if times > TIMES[effect]
        ]
        return faults

    def _wrong(self, state: RunState) -> list[str]:
        """A run that does not stand as it was said that it would."""
        events = [record.event for record in self.found[state.journal]]
        asked = [x for x in events if isinstance(x, ASKED)]
        last = asked[-1] if asked else None
        in_doubt = state.phase is Phase.WAITING and {q.kind for q in state.questions.values()}
        if any(isinstance(x, e.CancelRequested) for x in asked):
            right = state.phase is Phase.CANCELLED
        elif isinstance(last, e.PauseRequested) and state.phase is not Phase.DONE:
            right = state.phase is Phase.PAUSED
        else:
            right = state.phase in ENDS or in_doubt == {"doubt"}
        return [] if right else [f"{state.journal} is {state.phase} after {last}"]


ASKED = (e.PauseRequested, e.ResumeRequested, e.CancelRequested, e.RedirectRequested)


def rests(state: RunState) -> bool:
    """Nothing happens in it any more until a person wants it."""
    held = state.phase is Phase.PAUSED and Cause.USER in state.holds
    return not state.alive or held or (state.phase is Phase.WAITING and bool(state.questions))


@asynccontextmanager
async def driven(store: SqliteStore, workdir: Path, later: list[Known]) -> AsyncIterator[Control]:
    """Drive the runs when the power is back; what lingers goes on."""
    before, powered.world = powered.world, powered.World()
    powered.world.say = later.append
    powered.world.goes_on.set()
    try:
        async with LocalEngine.open(store, powered.AGENTS, workdir=workdir, sweep_s=0.02) as engine:
            yield Control(store, engine)
    finally:
        powered.world = before
