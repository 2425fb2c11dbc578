"""Follows every run of a store that moves, and makes spans of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final

import anyio
from opentelemetry.context import Context
from opentelemetry.trace import (
    Tracer,
    TracerProvider,
    get_current_span,
    get_tracer,
    set_span_in_context,
)

from midflight.client import Client, control_of
from midflight.control import Control
from midflight.errors import JournalNotFound, StoreError
from midflight.stores.protocol import RUN_PREFIX
from midflight.stores.watch.movements import Movements
from midflight.tasks import owned_tasks
from midflight.telemetry.spans import RunSpans, Told
from midflight.tools.secret import clean_logger

log: Final = clean_logger(__name__)
SETTLE_S: Final = 2.0  # what the last look may take
AGAIN_S: Final = 1.0  # before a store that is out of reach is asked again


@asynccontextmanager
async def tracing(
    client: Client | Control, *, provider: TracerProvider | None = None
) -> AsyncIterator[None]:
    """Send spans of every run of a store that moves while the block is open.

    ``client`` is one of ``midflight.open``. Spans go to ``provider``, or to the one that the
    program has set. Runs are children of the span that is current here, if there is one. Call it in
    one process of those that share a store, or each of them sends the same spans.
    """
    control = control_of(client)
    tracer = get_tracer("midflight", version("midflight"), provider)
    above = set_span_in_context(get_current_span(), Context())
    follower = Follower(control, tracer, above, since=await control.store.now())
    async with control.store.movements() as movements, owned_tasks() as tasks:
        tasks.start_soon(follower.follow, movements)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(SETTLE_S):
                await follower.finish(movements)


class Follower:
    """The runs of which spans are being made, and how far that has come for ended runs."""

    def __init__(self, control: Control, tracer: Tracer, above: Context, *, since: float) -> None:
        self._store = control.store
        self._tracer, self._above, self._since = tracer, above, since
        self._open: dict[str, RunSpans] = {}
        self._told: dict[str, Told] = {}  # a run that has ended may still be undone
        self._lock = anyio.Lock()

    async def follow(self, movements: Movements) -> None:
        """Follow the runs that move, until cancelled."""
        while True:
            await movements.wait()
            await self._look(movements)

    async def finish(self, movements: Movements) -> None:
        """Tell what has moved last, and close the spans of runs that live on."""
        await self._look(movements)
        now = await self._store.now()
        for spans in self._open.values():
            spans.end(now)
        self._open.clear()

    async def _look(self, movements: Movements) -> None:
        async with self._lock:
            moved = [name for name in movements.take() if name.startswith(RUN_PREFIX)]
            try:
                while moved:
                    await self._catch_up(moved[-1])
                    moved.pop()
            except JournalNotFound:
                moved.pop()  # purged meanwhile
            except StoreError:
                await anyio.sleep(AGAIN_S)
            except Exception:  # no run may end because it cannot be told
                run = moved.pop()
                log.warning("Not told", exc_info=True, extra={"action": "not_told", "run": run})
            finally:
                for name in moved:  # is looked at again
                    movements.note(name)

    async def _catch_up(self, run: str) -> RunSpans:
        """Tell what is new of a run."""
        told = self._told.get(run)
        spans = self._open.get(run) or RunSpans(self._tracer, run, since=self._since, told=told)
        while records := await self._store.read(run, after=spans.state.head):
            for record in records:
                spans.take(record)
                if record.position == 1 and told is None:
                    spans.begin(await self._above_of(spans.state.parent))
            self._open[run] = spans
        if not spans.state.alive:
            spans.end(spans.state.at)
            self._told[run] = spans.told
            self._open.pop(run, None)
        return spans

    async def _above_of(self, parent: str) -> Context:
        """Return the context for a run's span: its parent's, or the one that was current here."""
        if not parent:
            return self._above
        return (self._open.get(parent) or await self._catch_up(parent)).context
