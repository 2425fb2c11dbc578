"""A store that was closed refuses every verb, and says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from midflight.agents import agent
from midflight.audit import Deed
from midflight.control import Control
from midflight.errors import StoreUnavailable
from midflight.journal.events import PlanSet
from midflight.journal.stored_fold import FoldRows
from midflight.run import Run
from midflight.stores import open_store
from midflight.stores.protocol import Draft, Query, Store
from stores.backends import Open
from stores.runs import OLGA, RUN, answering, decision, running

pytestmark = pytest.mark.anyio


async def lease(store: Store) -> None:
    async with store.lease("d-2"):
        pass


async def first(watch: Any) -> None:
    async with watch as news:
        async for _ in news:
            return


VERBS: Final[dict[str, Callable[[Store], Awaitable[object]]]] = {
    "append": lambda s: s.append(decision(RUN, 3, PlanSet(epoch=1, steps=("a",)))),
    "submit": lambda s: s.submit(answering(Draft())),
    "read": lambda s: s.read(RUN),
    "load": lambda s: s.load(RUN),
    "fold": lambda s: s.fold(RUN),
    "keep_fold": lambda s: s.keep_fold(FoldRows(RUN, 3, 0.0, 0, ())),
    "rows": lambda s: s.rows(Query()),
    "row": lambda s: s.row(RUN),
    "due": lambda s: s.due(),
    "kill": lambda s: s.kill("all", OLGA),
    "release": lambda s: s.release("all", OLGA),
    "switches": lambda s: s.switches(),
    "lease": lease,
    "lease_gone": lambda s: s.lease_gone("d-1"),
    "blob": lambda s: s.blob("none"),
    "watch": lambda s: first(s.watch({RUN: 0})),
    "watch_live": lambda s: first(s.watch_live({RUN: 0})),
    "ready": lambda s: s.ready(),
    "now": lambda s: s.now(),
    "purge": lambda s: s.purge(0.0),
    "audit": lambda s: s.audit(Deed(id="d-1", action="login")),
    "audit_page": lambda s: s.audit_page(),
    "audit_head": lambda s: s.audit_head(),
}
HINTS: Final = {"clock_of", "movements", "voices", "wanting"}
"""They are in this process and touch no journal; a closed store only has nothing more to tell."""


def test_every_verb_of_the_protocol_is_tried() -> None:
    assert {name for name in vars(Store) if not name.startswith("_")} == VERBS.keys() | HINTS


async def test_a_closed_store_refuses_every_verb(open_store: Open) -> None:
    async with open_store() as store:
        await running(store)

    for verb in VERBS.values():
        with (
            pytest.raises(
                StoreUnavailable, match=r"the store is closed: open it again.* Nothing was "
            ),
            anyio.fail_after(5),
        ):
            await verb(store)


@pytest.mark.parametrize("address", ["memory:", "sqlite:journals.db"])
async def test_no_run_is_started_in_a_closed_store(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    @agent()
    async def clerk(run: Run) -> None:
        """Do nothing."""

    async with open_store(address) as store:
        control = Control(store)

    with pytest.raises(
        StoreUnavailable, match=r"the store is closed: open it again.* Nothing was appended\."
    ):
        await control.start(clerk, "work")
