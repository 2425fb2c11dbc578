"""A long run is taken up from its stored fold: only what follows is read, and nothing is redone."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from typing_extensions import override

from midflight.agents import Agent
from midflight.journal.record import Recorded
from midflight.journal.stored_fold import FoldRows
from midflight.run import Run
from midflight.runtime.replay import stored_history
from midflight.stores.protocol import PAGE, Store
from midflight.tools.declaration import Tool, tool
from scenarios.conftest import Open

pytestmark = pytest.mark.anyio

STEPS, EVERY = 500, 300


class World:
    """Keeps what was done, and holds the last step until it is let go."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.began, self.let_go = anyio.Event(), anyio.Event()
        self.put = self._put()

    def result(self, number: int) -> Any:
        return {"number": number}

    def _put(self) -> Tool:
        async def put(number: int) -> Any:
            if number == STEPS:
                self.began.set()
                await self.let_go.wait()
            self.done.append(number)
            return self.result(number)

        return tool(effect="write", name=f"taken-up.{id(self)}")(put)

    def agent(self) -> Agent:
        async def clerk(run: Run) -> list[Any]:
            found = [await run.step("Put", self.put, n) for n in range(STEPS + 1)]
            return [each and each["number"] for each in found]

        return Agent("clerk", clerk)


@pytest.fixture
def reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """After which positions drivers read pages of journals."""
    found: list[int] = []
    read = store.read

    async def reading(journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        page = await read(journal, after, limit)
        found.extend([after] if journal.startswith("r-") else [])
        return page

    monkeypatch.setattr(store, "read", reading)
    monkeypatch.setattr(stored_history, "EVERY", EVERY)
    return found


@pytest.fixture
def kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> anyio.Event:
    """Set when a fold has been stored."""
    found, keep = anyio.Event(), store.keep_fold

    async def keeping(fold: FoldRows) -> bool:
        is_kept = await keep(fold)
        found.set()
        return is_kept

    monkeypatch.setattr(store, "keep_fold", keeping)
    return found


async def crashed(world: World, crashing: Open, kept: anyio.Event) -> str:
    """A run whose driver is gone while its last step is under way, with a stored fold."""
    async with crashing(world.agent()) as control:
        run: str = await control.start("clerk", "go")
        with anyio.fail_after(20):
            await world.began.wait()
            await kept.wait()
    return run


async def ends_well(world: World, run: str, driving: Open) -> None:
    world.let_go.set()
    async with driving(world.agent()) as control:
        assert await control.result(run) == list(range(STEPS + 1))
    assert world.done[:STEPS] == list(range(STEPS)), "no step on record was done again"


async def test_what_a_stored_fold_holds_is_not_read_again(
    store: Store, driving: Open, crashing: Open, reads: list[int], kept: anyio.Event
) -> None:
    world = World()
    run = await crashed(world, crashing, kept)
    fold = await store.fold(run)
    assert fold is not None
    assert fold.position >= EVERY
    reads.clear()

    await ends_well(world, run, driving)
    assert 0 in reads, "the first page shows that the run is long"
    assert all(after == 0 or after >= fold.position for after in reads)


async def test_a_run_is_taken_up_without_its_fold_when_that_is_damaged(
    store: Store, driving: Open, crashing: Open, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, kept = store.keep_fold, anyio.Event()

    async def damage(fold: FoldRows) -> bool:
        body = fold.rows[0].body
        damaged = replace(fold.rows[0], body=body[:-1] + bytes([body[-1] ^ 1]))
        assert await keep(replace(fold, rows=(damaged, *fold.rows[1:])))
        kept.set()
        return True

    monkeypatch.setattr(store, "keep_fold", damage)
    world = World()
    run = await crashed(world, crashing, kept)
    assert await store.fold(run) is None
    reads.clear()

    await ends_well(world, run, driving)
    assert PAGE in reads, "the journal is read whole"


class Letters(World):
    """Only its first step has a result to be shown, which is large."""

    @override
    def result(self, number: int) -> Any:
        return {"number": 0, "letter": "Dear guests. " * 2000} if number == 0 else None


async def test_a_cancel_shows_a_large_result_that_is_not_in_the_fold(
    store: Store, driving: Open, crashing: Open, reads: list[int], kept: anyio.Event
) -> None:
    world = Letters()
    run = await crashed(world, crashing, kept)
    assert await store.fold(run) is not None
    world.began = anyio.Event()

    async with driving(world.agent()) as control:
        with anyio.fail_after(20):
            await world.began.wait()
        await control.cancel(run)
        thread = (await control.ended(run)).thread
        (saved,) = [x.text for x in await control.transcript(thread) if x.said == "partial"]
    assert "Dear guests. Dear guests." in saved
