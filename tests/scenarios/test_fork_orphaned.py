"""A fork whose source is not in the store any more: it cannot go on, and says so.

A purge spares the sources of live forks, but older ones did not, and a backup may lack one.
"""

from __future__ import annotations

import pytest
from msgspec import Raw

from midflight.agents import agent
from midflight.errors import InvalidRequest, NoResult
from midflight.journal import events as e
from midflight.journal.phases import Cause, Outcome, Phase
from midflight.journal.record import Event
from midflight.run import Run
from midflight.stores.protocol import Store
from midflight.tools.declaration import tool
from midflight.tools.options import EffectRecord
from scenarios.conftest import Open
from stores.runs import cancel, pause, resume, running, start

pytestmark = pytest.mark.anyio

FORK, GONE = "r-fork", "r-gone"
taken_back: list[str] = []


async def take_back(performed: EffectRecord) -> None:
    taken_back.append(performed.key)


@tool(effect="write", name="orphaned.make", label="thing", undo=take_back)
async def make(what: str) -> str:
    raise AssertionError("it has no business to be called")


@agent("orphaned")
async def clerk(run: Run) -> object:
    return await run.step("Make", make, "a thing")


async def kinds(store: Store) -> list[type[Event]]:
    return [type(record.event) for record in await store.read(FORK)]


async def test_it_fails_and_names_the_run_that_is_missing(
    store: Store, driving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    await start(store, FORK, agent=clerk.name, fork_of=GONE, fork_at=3)

    async with driving(clerk) as control:
        with pytest.raises(NoResult, match=GONE):
            await control.result(FORK)
        state = await control.state(FORK)

    assert state.phase is Phase.FAILED
    assert "was purged" in state.error
    assert "Start a new run" in state.error
    assert e.AttemptStarted not in await kinds(store)
    (told,) = [r for r in caplog.records if vars(r).get("action") == "source_gone"]
    assert (vars(told)["run"], vars(told)["source"]) == (FORK, GONE)


async def test_so_does_a_fork_of_a_fork_whose_first_run_is_missing(
    store: Store, driving: Open
) -> None:
    between = await running(store, "r-between", agent=clerk.name, fork_of=GONE, fork_at=3)
    await between.finishes()
    await start(store, FORK, agent=clerk.name, fork_of="r-between", fork_at=2)

    async with driving(clerk) as control:
        with pytest.raises(NoResult, match=GONE):
            await control.result(FORK)


@pytest.mark.parametrize("at", [2, "Something"])
async def test_nobody_can_fork_it_for_that_fork_could_only_fail_too(
    store: Store, driving: Open, at: int | str
) -> None:
    before = await running(store, FORK, agent=clerk.name, fork_of=GONE, fork_at=3)
    await before.settles(await before.begins("Something"), Outcome.DONE)
    await before.leaves()

    async with driving(clerk) as control:
        await control.ended(FORK)
        with pytest.raises(
            InvalidRequest, match=rf"builds on work of run {GONE}.*Nothing was changed"
        ):
            await control.fork(FORK, at)
        assert [row.journal for row in await control.runs()] == [FORK]


async def test_one_that_had_worked_fails_too_and_nobody_is_asked_whether_its_code_has_changed(
    store: Store, driving: Open
) -> None:
    before = await running(store, FORK, agent=clerk.name, fork_of=GONE, fork_at=3)
    await before.settles(await before.begins("Something"), Outcome.DONE)
    await before.leaves()

    async with driving(clerk) as control:
        with pytest.raises(NoResult, match=GONE):
            await control.result(FORK)

    assert e.QuestionOpened not in await kinds(store)


async def test_one_that_is_paused_fails_when_it_is_resumed(store: Store, driving: Open) -> None:
    await start(store, FORK, agent=clerk.name, fork_of=GONE, fork_at=3)
    await pause(store, FORK)

    async with driving(clerk) as control:
        assert (await control.state(FORK)).phase is Phase.PAUSED
        await resume(store, FORK)
        with pytest.raises(NoResult, match=GONE):
            await control.result(FORK)


async def test_one_that_was_redirected_fails_with_the_new_brief_untried(
    store: Store, driving: Open
) -> None:
    await start(store, FORK, agent=clerk.name, fork_of=GONE, fork_at=3)
    await pause(store, FORK)

    async with driving(clerk) as control:
        await control.redirect(FORK, "another thing", resume=True)
        with pytest.raises(NoResult, match=GONE):
            await control.result(FORK)

    assert e.AttemptStarted not in await kinds(store)


async def test_one_that_asked_whether_to_fork_has_nothing_to_begin_from(
    store: Store, driving: Open
) -> None:
    before = await running(store, FORK, agent=clerk.name, fork_of=GONE, fork_at=3)
    about = Raw(b'{"enum": ["fork"], "x-about": {"fork_of": "r-gone", "fork_at": 2}}')
    await before.decides(e.HoldPlaced(cause=Cause.STALE, why="prices have changed"))
    asked = e.QuestionOpened(epoch=1, kind="stale", message="Go on?", schema=about, step="stale:4")
    question = (await before.decides(asked)).position(FORK)
    await before.pauses()
    await before.leaves()

    async with driving(clerk) as control:
        await control.answer(FORK, question, "fork")
        with pytest.raises(NoResult, match=GONE):
            await control.result(FORK)
        assert [row.journal for row in await control.runs()] == [FORK]


async def test_it_can_still_be_cancelled_and_what_it_did_is_undone(
    store: Store, driving: Open
) -> None:
    taken_back.clear()
    before = await running(store, FORK, agent=clerk.name, fork_of=GONE, fork_at=3)
    made = await before.begins("Make", tool="orphaned.make", undoable=True, noun="thing")
    await before.settles(made, Outcome.DONE)
    await before.leaves()
    await cancel(store, FORK)

    async with driving(clerk) as control:
        state = await control.ended(FORK)

    assert state.phase is Phase.CANCELLED
    assert taken_back == ["Make#1"]
