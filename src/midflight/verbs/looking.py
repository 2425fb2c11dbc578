"""Looking at runs and waiting for them: what ``Control`` and ``RemoteControl`` have in common.

Whatever is shown is folded from the journal, here as on the server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from midflight.errors import InvalidRequest
from midflight.kernel.decide import ASIDE
from midflight.kernel.phases import LIVE
from midflight.kernel.preview import Offer
from midflight.kernel.receipt import Receipt, receipt
from midflight.kernel.state import RunState
from midflight.kernel.timing import needs_driver, undriven_since
from midflight.stores.lookup import Journals, run_state, until
from midflight.stores.protocol import Query, Row
from midflight.verbs.covering import offers, runs_below

ROWS: Final = 500  # a page of them


def scope_of(scope: str) -> tuple[str, str]:
    """Split the scope of a kill switch into kind and name; ``InvalidRequest`` if it is not one."""
    kind, _, name = str(scope).partition(":")
    if scope != "all" and not (kind in {"agent", "thread"} and name):
        raise InvalidRequest(
            f"{scope!r} is not a scope; use all, agent:NAME or thread:ID. Nothing was changed."
        )
    return kind, name


def cursors_of(watched: str | Mapping[str, int], after: int) -> Mapping[str, int]:
    """The position after which each is watched, of one or of several; ``after`` is for the one."""
    return {watched: after} if isinstance(watched, str) else watched


class Looking:
    """The part of a control that changes nothing."""

    store: Journals

    async def state(self, run: str) -> RunState:
        """The run as it is now."""
        return await run_state(self.store, run)

    async def preview(self, run: str) -> dict[str, Offer]:
        """Tell for each verb whether it can be pressed, and what it would do now, also below."""
        state = await self.state(run)
        return offers(state, await runs_below(self.store, state))

    async def receipt(self, run: str) -> Receipt:
        """Return the receipt of a run: it tells what became of every effect."""
        return receipt(await self.state(run))

    async def runs(self, query: Query | None = None) -> list[Row]:
        """The runs there are, newest first."""
        return await self._with_drivers(await self.store.rows(query or Query()))

    async def row(self, run: str) -> Row:
        """One run as it stands in the list of runs."""
        return (await self._with_drivers([await self.store.row(run)]))[0]

    async def undriven_since(self, state: RunState) -> float | None:
        """Return the time since which a run lacks the driver that it needs; None if it does not."""
        if not needs_driver(state):
            return None
        row = await self.row(state.journal)
        return undriven_since(state, gone=row.undriven, now=await self.store.now())

    async def _with_drivers(self, rows: list[Row]) -> list[Row]:
        """Mark those that nobody drives; over HTTP the server has done it."""
        return rows

    async def in_scope(self, scope: str) -> list[Row]:
        """All live runs that a kill of this scope would stop, or would keep from moving."""
        kind, name = scope_of(scope)
        agents = (name, f"{name}{ASIDE}") if kind == "agent" else ("",)
        thread = name if kind == "thread" else ""
        found: list[Row] = []
        for agent in agents:
            before = ""
            while True:
                query = Query(phases=LIVE, agent=agent, thread=thread, before=before, limit=ROWS)
                page = await self.store.rows(query)
                found += page
                if len(page) < ROWS:
                    break
                before = page[-1].journal
        return found

    async def ended(self, run: str) -> RunState:
        """Wait for the end of a run."""
        return await self.until(run, lambda state: not state.alive)

    async def until(self, run: str, ready: Callable[[RunState], bool]) -> RunState:
        """Wait until the run's state is as wanted."""
        return await until(self.store, run, ready)
