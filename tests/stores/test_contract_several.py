"""Several journals at once, and new ones: all of it or nothing, and nobody blocks another."""

from __future__ import annotations

import anyio
import pytest

from midflight.errors import IllegalEvent, JournalConflict, JournalNotFound, Refused
from midflight.inputs import new_id
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.record import Limits, Recorded
from midflight.journal.state import RunState
from midflight.journal.threads import thread as t
from midflight.stores.protocol import Append, Draft, Entry, Query, Store, Submit, View, Widen
from stores.runs import (
    ANN,
    RUN,
    THREAD,
    answering,
    created,
    decision,
    names,
    open_thread,
    pause,
    positions,
    read_all,
    run_state,
    running,
    say,
    start,
    thread_state,
)

pytestmark = pytest.mark.anyio


# ── decisions ────────────────────────────────────────────────────────────────────────────────


async def finish_and_free_the_front(store: Store, run_at: int, thread_at: int) -> list[Recorded]:
    done = await store.append(
        Append(
            new_id(),
            (
                Entry(RUN, run_at, (e.RunFinished(epoch=1, outcome="done"),)),
                Entry(THREAD, thread_at, (t.FrontChanged(run=""),)),
            ),
        )
    )
    return list(done.records)


async def test_a_decision_over_two_journals_is_in_both(store: Store) -> None:
    await open_thread(store)
    driver = await running(store)

    records = await finish_and_free_the_front(store, driver.state.head, 1)

    assert [(r.journal, r.position) for r in records] == [(RUN, 4), (THREAD, 2)]
    assert (await run_state(store)).phase is Phase.DONE
    assert (await thread_state(store)).head == 2


async def test_a_conflict_in_one_journal_leaves_the_other_as_it_was(store: Store) -> None:
    await open_thread(store)
    driver = await running(store)
    await say(store, "wait, one more thing")

    with pytest.raises(JournalConflict) as conflict:
        await finish_and_free_the_front(store, driver.state.head, 1)

    assert conflict.value.journal == THREAD
    assert (await run_state(store)).phase is Phase.RUNNING
    await finish_and_free_the_front(store, driver.state.head, 2)


async def test_an_illegal_event_in_one_journal_leaves_the_other_as_it_was(store: Store) -> None:
    await open_thread(store)
    driver = await running(store)
    plan = Entry(RUN, driver.state.head, (e.PlanSet(epoch=1, steps=("a",)),))
    slip = Entry(THREAD, 1, (t.TodoTaken(todo=99, run=RUN),))

    with pytest.raises(IllegalEvent):
        await store.append(Append(new_id(), (plan, slip)))

    assert (await run_state(store)).plan == ()
    assert (await store.row(RUN)).head == driver.state.head
    assert await driver.begins() == driver.state.head


async def test_decisions_over_two_journals_in_either_order_never_block_each_other(
    store: Store,
) -> None:
    for run in ("r-a", "r-b"):
        await running(store, run)

    async def guard_both(first: str, second: str) -> None:
        for number in range(10):
            guard = e.GuardSet(epoch=1, name=first, kind="file", fingerprint=str(number))
            while True:
                heads = {run: (await run_state(store, run)).head for run in (first, second)}
                entries = tuple(Entry(run, head, (guard,)) for run, head in heads.items())
                try:
                    await store.append(Append(new_id(), entries))
                except JournalConflict:
                    continue
                break

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(guard_both, "r-a", "r-b")
            tasks.start_soon(guard_both, "r-b", "r-a")

    for run in ("r-a", "r-b"):
        assert positions(await read_all(store, run)) == list(range(1, 24))


async def test_a_decision_can_begin_a_journal_and_only_once(store: Store) -> None:
    await store.append(decision("r-new", 0, created()))

    with pytest.raises(JournalConflict):
        await store.append(decision("r-new", 0, created()))
    with pytest.raises(IllegalEvent):
        await store.append(decision("r-new", 1, created()))

    assert names(await read_all(store, "r-new")) == ["run.created"]


# ── requests ─────────────────────────────────────────────────────────────────────────────────


async def test_a_request_may_begin_a_journal(store: Store) -> None:
    done = await start(store, "r-new")

    assert done.position("r-new") == 1
    assert (await store.row("r-new")).phase == Phase.QUEUED


async def test_a_request_about_an_unknown_journal_is_told_so(store: Store) -> None:
    await running(store)

    with pytest.raises(JournalNotFound) as missing:
        await pause(store, "r-unknown")

    assert missing.value.journal == "r-unknown"
    for look in (store.read, store.load, store.row):
        with pytest.raises(JournalNotFound):
            await look("r-unknown")
    assert [row.journal for row in await store.due()] == [RUN]
    await store.purge(ended_before=0.0)


async def test_a_new_journal_that_got_nothing_does_not_exist(store: Store) -> None:
    await store.submit(Submit(new_id(), ("r-new",), lambda view: Draft(), new=("r-new",)))

    with pytest.raises(JournalNotFound):
        await store.row("r-new")
    assert await store.due() == []


async def test_of_many_who_begin_the_same_journal_one_does(store: Store) -> None:
    begun, refused = [], []

    async def begin(brief: str) -> None:
        try:
            begun.append(await start(store, "r-new", brief=brief))
        except Refused as refusal:
            refused.append(refusal)

    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(begin, f"brief {number}")

    assert (len(begun), len(refused)) == (1, 5)
    assert await read_all(store, "r-new") == list(begun[0].records)


async def test_a_request_over_several_journals_is_in_all_of_them(store: Store) -> None:
    await open_thread(store)

    def begin(view: View) -> Draft:
        return Draft({"r-new": (created(),), THREAD: (t.FrontChanged(run="r-new"),)})

    done = await store.submit(Submit(new_id(), (THREAD, "r-new"), begin, new=("r-new",)))

    assert (done.position(THREAD), done.position("r-new")) == (2, 1)
    assert names(await read_all(store, THREAD)) == ["thread.created", "front.changed"]


async def test_a_request_over_several_journals_is_in_none_if_one_forbids_it(store: Store) -> None:
    await open_thread(store)

    def begin(view: View) -> Draft:
        return Draft({"r-new": (created(),), THREAD: (t.TodoTaken(todo=9, run="r-new"),)})

    with pytest.raises(IllegalEvent):
        await store.submit(Submit(new_id(), (THREAD, "r-new"), begin, new=("r-new",)))

    assert len(await read_all(store, THREAD)) == 1
    with pytest.raises(JournalNotFound):
        await store.read("r-new")
    assert (await say(store, "hello")).position(THREAD) == 2


def pause_tree(view: View) -> Draft:
    """Pause a run and all its descendants, as far as they are in view."""
    states = [state for state in view.states.values() if isinstance(state, RunState)]
    children = [child for state in states for child in state.children]
    if unseen := [child for child in children if child not in view.states]:
        raise Widen(*unseen)
    return Draft({state.journal: (e.PauseRequested(who=ANN),) for state in states})


async def test_a_request_may_widen_to_journals_it_did_not_know(store: Store) -> None:
    parent = await running(store)
    child = await running(store, "r-child", parent=RUN)
    await running(store, "r-grandchild", parent="r-child")
    await parent.decides(e.ChildSpawned(epoch=1, child="r-child", agent="clerk", brief="b"))
    await child.decides(e.ChildSpawned(epoch=1, child="r-grandchild", agent="clerk", brief="b"))

    done = await store.submit(Submit(new_id(), (RUN,), pause_tree))

    assert {r.journal for r in done.records} == {RUN, "r-child", "r-grandchild"}
    assert {row.phase for row in await store.rows(Query())} == {Phase.PAUSING}


async def test_requests_over_the_same_journals_in_either_order_never_block_each_other(
    store: Store,
) -> None:
    for run in ("r-a", "r-b"):
        await running(store, run)

    async def both(first: str, second: str) -> None:
        raised = (e.LimitsRaised(who=ANN, limits=Limits(steps=9)),)
        draft = Draft({first: raised, second: raised})
        for _ in range(10):
            await store.submit(answering(draft, first, second))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for order in (("r-a", "r-b"), ("r-b", "r-a")) * 2:
                tasks.start_soon(both, *order)

    for run in ("r-a", "r-b"):
        assert positions(await read_all(store, run)) == list(range(1, 44))
