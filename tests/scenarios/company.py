"""What stories about several runs need: processes that die, and a look into journals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from midflight.control import Control
from midflight.journal import events as e
from midflight.journal.record import Recorded, Usage
from midflight.journal.state import RunState
from midflight.journal.threads.thread import Said
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import Committed, Draft, Store, Submit, View
from midflight.stores.sqlite import SqliteStore
from midflight.stores.sqlite.sqlite_ledger import delete


class Freezes:
    """The store of a process that freezes at one of its requests, before or after it is written."""

    def __init__(self, store: Store, at: Callable[[Submit], bool], *, written: bool) -> None:
        self._store = store
        self._at = at
        self._written = written
        self.frozen = anyio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def submit(self, request: Submit) -> Committed:
        if not self._at(request):
            return await self._store.submit(request)
        if self._written:
            await self._store.submit(request)
        self.frozen.set()
        await anyio.sleep_forever()
        raise AssertionError


async def journal(store: Store, name: str) -> list[Recorded]:
    found: list[Recorded] = []
    while page := await store.read(name, after=len(found)):
        found += page
    return found


async def events(store: Store, name: str, kind: type[Any]) -> list[Any]:
    return [r.event for r in await journal(store, name) if isinstance(r.event, kind)]


async def said(control: Control, run: str, kind: str = "text") -> list[str]:
    """What a run has said in its thread."""
    thread = (await control.state(run)).thread
    words: list[Said] = await events(control.store, thread, Said)
    return [spoken.text for spoken in words if spoken.run == run and spoken.kind == kind]


async def child_of(control: Control, run: str, number: int = 0) -> str:
    with anyio.fail_after(10):
        state = await control.until(run, lambda state: len(state.children) > number)
    return list(state.children)[number]


async def lose(store: Store, run: str) -> None:
    """Take a run out of the store, as a purge of an older version did."""
    if isinstance(store, MemoryStore):
        store._drop(run)
    else:
        assert isinstance(store, SqliteStore)
        await store._writer.do(delete, [run])


async def spend(control: Control, run: str, usage: Usage) -> None:
    """A model was paid, as its adapter reports it."""

    def decided(view: View) -> Draft:
        state = view.states[run]
        assert isinstance(state, RunState)
        return Draft({run: (e.UsageSpent(epoch=state.epoch, usage=usage),)})

    await control.store.submit(Submit(f"spend-{run}-{usage}", (run,), decided))
