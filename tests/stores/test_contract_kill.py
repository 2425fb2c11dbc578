"""The operator's switch: when a kill has returned, everything in its scope has stopped."""

from __future__ import annotations

from contextlib import suppress

import anyio
import pytest

from midflight.errors import (
    IllegalEvent,
    InvalidRequest,
    JournalConflict,
    NotAllowed,
    ScopeStopped,
)
from midflight.journal import events as e
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.journal.requests import Switch
from midflight.stores.protocol import Query, Store
from stores.backends import DURABLE, Open
from stores.runs import (
    ANN,
    OLGA,
    RUN,
    ask,
    cancel,
    claim,
    drive,
    ended,
    names,
    pause,
    read_all,
    resume,
    run_state,
    running,
    start,
)

pytestmark = pytest.mark.anyio


# ── what it does to a run ────────────────────────────────────────────────────────────────────


async def test_a_kill_ends_what_is_in_motion_and_lists_what_was_in_flight(store: Store) -> None:
    driver = await running(store)
    attempts = (await driver.begins("send"), await driver.begins("print"))

    killing = await store.kill("all", OLGA, "wrong customer")

    assert (killing.killed, killing.revoked) == ({RUN: attempts}, ())
    assert (killing.switch.scope, killing.switch.by, killing.switch.reason) == (
        "all",
        "olga",
        "wrong customer",
    )
    (killed,) = await read_all(store, after=5)
    assert killed.event == e.Killed(who=OLGA, scope="all", in_flight=attempts)
    row = await store.row(RUN)
    assert (row.phase, row.driver, row.head) == (Phase.KILLED, "", 6)


async def test_a_kill_ends_runs_that_are_pausing_or_cancelling(store: Store) -> None:
    await running(store, "r-pausing")
    await pause(store, "r-pausing")
    await running(store, "r-cancelling")
    await cancel(store, "r-cancelling")

    killing = await store.kill("all", OLGA)

    assert killing.killed == {"r-cancelling": (), "r-pausing": ()}


async def test_runs_that_rest_keep_their_phase_and_lose_their_driver(store: Store) -> None:
    await start(store, "r-claimed")
    await drive(store, "r-claimed")
    paused = await running(store, "r-paused")
    await pause(store, "r-paused")
    await paused.pauses()
    waiting = await running(store, "r-waiting")
    await waiting.asks()
    await waiting.waits()

    killing = await store.kill("all", OLGA)

    assert (killing.killed, sorted(killing.revoked)) == (
        {},
        ["r-claimed", "r-paused", "r-waiting"],
    )
    phases = {run: (await store.row(run)).phase for run in killing.revoked}
    assert phases == {"r-claimed": "queued", "r-paused": "paused", "r-waiting": "waiting"}
    for run in killing.revoked:
        row = await store.row(run)
        assert (row.driver, row.epoch) == ("", 2)
        assert names(await read_all(store, run))[-1] == "driver.revoked"


async def test_a_kill_leaves_alone_what_nobody_drives_and_what_has_ended(store: Store) -> None:
    await start(store, "r-queued")
    done = await ended(store, "r-done")
    await done.leaves()

    killing = await store.kill("all", OLGA)

    assert (killing.killed, killing.revoked) == ({}, ())
    assert [(await store.row(run)).head for run in ("r-queued", "r-done")] == [1, 5]


async def test_after_a_kill_its_old_driver_decides_nothing(store: Store) -> None:
    driver = await running(store)
    await store.kill("all", OLGA)

    with pytest.raises(JournalConflict):
        await driver.begins()
    await driver.reads_again()
    with pytest.raises(IllegalEvent):
        await driver.begins()


async def test_a_kill_that_fails_half_way_has_stopped_nothing_and_set_no_switch(
    store: Store,
) -> None:
    await running(store)
    unsayable = Actor(by="olga", role=Role.OPERATOR, channel="\ud800")  # no event can hold it

    with pytest.raises(InvalidRequest, match="surrogates not allowed"):
        await store.kill("all", unsayable)

    assert await store.switches() == []
    assert (await store.row(RUN)).phase == Phase.RUNNING
    assert set((await store.kill("all", OLGA)).killed) == {RUN}


async def test_a_revoked_driver_cannot_go_on_by_reading_again(store: Store) -> None:
    driver = await running(store)
    question = await driver.asks()
    await driver.waits()
    await store.kill("all", OLGA)

    await ask(store, e.QuestionAnswered(who=ANN, question=question))
    await driver.reads_again()

    assert driver.state.phase is Phase.RUNNING
    with pytest.raises(IllegalEvent):
        await driver.begins()


async def test_a_kill_of_an_agent_stops_who_answers_aside_for_it(store: Store) -> None:
    await running(store, "r-works", agent="report")
    await running(store, "r-answers", agent="report.aside")
    await running(store, "r-other", agent="reports")
    await start(store, "r-asked", agent="report.aside")

    killing = await store.kill("agent:report", OLGA)

    assert sorted(killing.killed) == ["r-answers", "r-works"]
    with pytest.raises(ScopeStopped):
        await claim(store, "r-asked")


# ── what it forbids, where, and for how long ─────────────────────────────────────────────────


async def paused_run(store: Store, run: str = RUN, **fields: str) -> None:
    driver = await running(store, run, **fields)
    await pause(store, run)
    await driver.pauses()


async def test_in_a_stopped_scope_nothing_starts_resumes_or_is_claimed(store: Store) -> None:
    await paused_run(store, "r-paused")
    await start(store, "r-queued")
    await store.kill("all", OLGA, "fire drill")

    with pytest.raises(ScopeStopped) as stopped:
        await start(store, "r-new")
    with pytest.raises(ScopeStopped):
        await resume(store, "r-paused")
    with pytest.raises(ScopeStopped):
        await claim(store, "r-queued")

    assert (stopped.value.scope, stopped.value.by) == ("all", "olga")
    assert sorted(row.journal for row in await store.rows(Query())) == ["r-paused", "r-queued"]
    assert (await store.row("r-paused")).phase == Phase.PAUSED


async def test_in_a_stopped_scope_stops_are_still_taken(store: Store) -> None:
    await start(store, "r-queued")
    await start(store, "r-other")
    await store.kill("all", OLGA)

    assert (await pause(store, "r-queued")).position("r-queued") == 2
    assert (await cancel(store, "r-other")).records[0].position == 2


async def test_a_release_lets_the_scope_move_again(store: Store) -> None:
    await paused_run(store)
    await store.kill("all", OLGA)

    assert await store.release("all", OLGA)

    await resume(store)
    assert await claim(store, driver="d-2") == 3
    await running(store, "r-new")
    assert await store.switches() == []


async def test_only_an_operator_stops_or_releases(store: Store) -> None:
    await running(store)

    with pytest.raises(NotAllowed, match="ann is a controller and kill needs"):
        await store.kill("all", ANN)
    await store.kill("all", OLGA)
    with pytest.raises(NotAllowed, match="ann is a controller and release needs"):
        await store.release("all", ANN)

    assert [switch.scope for switch in await store.switches()] == ["all"]


async def test_releasing_what_was_not_stopped_says_so(store: Store) -> None:
    await store.kill("agent:clerk", OLGA)

    assert not await store.release("all", OLGA)
    assert not await store.release("agent:painter", OLGA)
    assert await store.release("agent:clerk", OLGA)
    assert not await store.release("agent:clerk", OLGA)


SCOPES = {
    "all": {"r-clerk-1", "r-clerk-2", "r-painter-1", "r-painter-2"},
    "agent:clerk": {"r-clerk-1", "r-clerk-2"},
    "thread:t-2": {"r-clerk-2", "r-painter-2"},
    "agent:nobody": set(),
}


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_kill_reaches_its_scope_and_nothing_else(store: Store, scope: str) -> None:
    for agent in ("clerk", "painter"):
        for number in (1, 2):
            run = f"r-{agent}-{number}"
            await running(store, run, agent=agent, thread=f"t-{number}")

    killing = await store.kill(scope, OLGA)

    assert set(killing.killed) == SCOPES[scope]
    killed = {row.journal for row in await store.rows(Query(phases=(Phase.KILLED,)))}
    assert killed == SCOPES[scope]


async def test_outside_a_stopped_scope_everything_moves(store: Store) -> None:
    await paused_run(store, "r-painter", agent="painter", thread="t-2")
    clerk = await running(store, "r-clerk", agent="clerk", thread="t-1")

    await store.kill("agent:painter", OLGA)

    await clerk.begins()
    await clerk.leaves()
    assert await claim(store, "r-clerk", driver="d-2") == 2
    await running(store, "r-new", agent="clerk", thread="t-2")
    with pytest.raises(ScopeStopped):
        await start(store, "r-other", agent="painter", thread="t-1")


async def test_scopes_are_released_one_by_one(store: Store) -> None:
    await store.kill("agent:clerk", OLGA)
    await store.kill("thread:t-1", OLGA)
    await store.release("agent:clerk", OLGA)

    with pytest.raises(ScopeStopped):
        await start(store)

    await store.release("thread:t-1", OLGA)
    await start(store)


async def test_switches_lists_what_is_on(store: Store) -> None:
    before = await store.now()
    await store.kill("agent:clerk", OLGA, "too eager")
    await store.kill("all", OLGA)

    on = {switch.scope: switch for switch in await store.switches()}

    assert set(on) == {"agent:clerk", "all"}
    switch = on["agent:clerk"]
    assert switch == Switch("agent:clerk", "olga", switch.at, "too eager")
    assert before - 5 <= switch.at <= await store.now() + 5


async def test_a_second_kill_of_a_scope_finds_nothing_and_keeps_the_first_switch(
    store: Store,
) -> None:
    await running(store)
    first = await store.kill("all", OLGA, "first")

    second = await store.kill("all", OLGA, "second")

    assert (second.killed, second.revoked) == ({}, ())
    assert second.switch == first.switch
    assert await store.switches() == [first.switch]
    assert len(await read_all(store)) == 4


@DURABLE
async def test_a_kill_from_elsewhere_stops_what_is_driven_here(open_store: Open) -> None:
    async with open_store() as here, open_store() as there:
        driver = await running(here)

        killing = await there.kill("all", OLGA)

        assert killing.killed == {RUN: ()}
        with pytest.raises(JournalConflict):
            await driver.begins()
        with pytest.raises(ScopeStopped):
            await start(here, "r-new")
        await here.release("all", OLGA)
        await start(there, "r-new")


# ── recovery ─────────────────────────────────────────────────────────────────────────────────


async def test_a_killed_run_comes_back_paused_and_moves_only_after_the_release(
    store: Store,
) -> None:
    driver = await running(store)
    await driver.begins()
    await store.kill("all", OLGA)

    await ask(store, e.Recovered(who=OLGA))

    assert (await run_state(store)).phase is Phase.PAUSED
    with pytest.raises(ScopeStopped):
        await resume(store)
    await store.release("all", OLGA)
    await resume(store)
    assert (await drive(store, driver="d-2")).epoch == 3


# ── races ────────────────────────────────────────────────────────────────────────────────────


async def heads(store: Store) -> dict[str, int]:
    return {row.journal: row.head for row in await store.rows(Query(limit=10_000))}


async def keep_starting(store: Store, name: str, busy: anyio.Event) -> None:
    """Start run after run, and something in each of them, until an operator stops it."""
    number = 0
    while True:
        number += 1
        if number == 4:
            busy.set()
        try:
            driver = await running(store, f"r-{name}-{number:04}", driver=f"d-{name}")
            await driver.begins("first")
            await driver.begins("second")
        except ScopeStopped:
            return
        except (JournalConflict, IllegalEvent):
            pass  # killed in the middle of it: the next one must be refused
        await anyio.lowlevel.checkpoint()


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["all", "agent:clerk"])
async def test_nothing_begins_after_a_kill_has_returned(store: Store, scope: str) -> None:
    for number in range(30):
        await running(store, f"r-idle-{number:04}")
    busy = anyio.Event()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(keep_starting, store, str(number), busy)
            await busy.wait()
            killing = await store.kill(scope, OLGA)
            acknowledged = await heads(store)

    assert await heads(store) == acknowledged
    for row in await store.rows(Query(limit=10_000)):
        assert (row.phase, row.driver) in {("killed", ""), ("queued", "")}
        journal = names(await read_all(store, row.journal))
        assert journal.count("run.killed") == (row.phase == "killed")
        assert row.phase == "queued" or journal[-1] == "run.killed"
        assert (row.journal in killing.killed) == (row.phase == "killed")
    assert len(killing.killed) >= 30


@DURABLE
async def test_nothing_begins_anywhere_after_a_kill_has_returned(open_store: Open) -> None:
    async with open_store() as here, open_store() as there:
        busy = anyio.Event()
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for number in range(3):
                    tasks.start_soon(keep_starting, here, f"here-{number}", busy)
                    tasks.start_soon(keep_starting, there, f"there-{number}", anyio.Event())
                await busy.wait()
                await there.kill("all", OLGA)
                acknowledged = await heads(there)

        assert await heads(here) == acknowledged


async def test_a_kill_beside_decisions_either_ends_them_or_comes_first(store: Store) -> None:
    drivers = [await running(store, f"r-{number:02}") for number in range(20)]
    began: dict[str, int] = {}
    killed: dict[str, tuple[int, ...]] = {}

    async def begin(number: int) -> None:
        with suppress(JournalConflict):
            began[drivers[number].run] = await drivers[number].begins()

    async def stop() -> None:
        killed.update((await store.kill("all", OLGA)).killed)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(begin, number)
            if number == 10:
                tasks.start_soon(stop)

    assert killed == {d.run: (began[d.run],) if d.run in began else () for d in drivers}
