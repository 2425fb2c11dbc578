"""What each lock of the Postgres store is for: transactions stopped half-way, and who must wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from uuid import uuid4

import anyio
import pytest
from msgspec import Raw

from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.requests import scopes
from midflight.stores.postgres import PostgresStore, links, postgres_server
from midflight.stores.protocol import Decide, Draft, Killing, Purged, Submit, View
from stores.halfway import by_hand, half_way, not_committed, stores_wait
from stores.passing import is_renewed
from stores.runs import (
    ANN,
    OLGA,
    RUN,
    THREAD,
    ask,
    claim,
    created,
    names,
    open_thread,
    outcome,
    pause,
    read_all,
    running,
    start,
    tell,
)

pytestmark = [pytest.mark.postgres, pytest.mark.anyio]


@pytest.fixture
def schema() -> str:
    return f"test_{uuid4().hex}"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits here waits until it is let go, however long this machine takes for that."""
    monkeypatch.setitem(postgres_server.SETTINGS, "lock_timeout", "1min")
    monkeypatch.setattr(links, "MIND_S", 1000.0)
    monkeypatch.setattr(links, "PATIENCE_S", 1000.0)


@pytest.fixture
async def here(postgres_address: str, schema: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        yield store


@pytest.fixture
async def there(postgres_address: str, schema: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        yield store


# ── heads ────────────────────────────────────────────────────────────────────────────────────


def unless_changed(mine: str, other: str) -> Decide:
    """Pause one run, unless something has happened to the other one."""

    def decide(view: View) -> Draft:
        if view.states[other].head > 3:
            return Draft(note="the other was quicker")
        return Draft({mine: (e.PauseRequested(who=ANN),)})

    return decide


@pytest.mark.parametrize("within", [(), ("all",)], ids=["decided here", "decided under lock"])
async def test_a_request_waits_for_one_that_changes_a_run_it_only_looks_at(
    here: PostgresStore,
    there: PostgresStore,
    postgres_address: str,
    schema: str,
    within: tuple[str, ...],
) -> None:
    """Each looks at both runs and changes one: no place in a journal is wanted twice."""
    await running(here, "r-a", driver="d-a")
    await running(here, "r-b", driver="d-b")
    both = ("r-a", "r-b")
    theirs = Submit("theirs", both, unless_changed("r-b", other="r-a"), scopes=within)
    ours = Submit("ours", both, unless_changed("r-a", other="r-b"), scopes=within)
    notes: dict[str, object] = {}

    async def send(store: PostgresStore, request: Submit) -> None:
        notes[request.id] = (await store.submit(request)).note

    async with anyio.create_task_group() as tasks, half_way(postgres_address, schema, "r-b", 4):
        tasks.start_soon(send, there, theirs)
        assert await stores_wait(postgres_address, 1)
        tasks.start_soon(send, here, ours)
        await stores_wait(postgres_address, 2, patience_s=1)

    assert notes == {"theirs": None, "ours": "the other was quicker"}
    assert [(await here.row(run)).head for run in both] == [3, 4]


async def test_a_request_is_not_decided_on_a_run_that_has_changed_elsewhere(
    here: PostgresStore, there: PostgresStore
) -> None:
    """The server alone can know, and nothing but its comparison of heads tells."""
    await running(here, "r-a", driver="d-a")
    await running(here, "r-b", driver="d-b")
    await pause(there, "r-b")

    done = await here.submit(Submit("ours", ("r-a", "r-b"), unless_changed("r-a", other="r-b")))

    assert (done.note, done.records) == ("the other was quicker", ())


# ── the kill switch ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("known", [True, False], ids=["a known scope", "a scope never heard of"])
async def test_a_kill_waits_for_a_claim_that_has_read_the_switch(
    here: PostgresStore, there: PostgresStore, postgres_address: str, schema: str, known: bool
) -> None:
    """Else the run would have a driver in a scope whose operator was told that all has stopped."""
    await ask(here, created(), RUN, new=(RUN,), within=scopes("clerk", THREAD) if known else ())
    killings: list[Killing] = []

    async def kill() -> None:
        killings.append(await here.kill("all", OLGA))

    async with anyio.create_task_group() as tasks, half_way(postgres_address, schema, RUN, 2):
        tasks.start_soon(claim, there)
        assert await stores_wait(postgres_address, 1)
        tasks.start_soon(kill)
        await stores_wait(postgres_address, 2, patience_s=1)

    assert killings[0].revoked == (RUN,)
    assert (await here.row(RUN)).driver == ""


async def test_a_kill_waits_for_an_append_that_is_half_way_and_ends_the_run_after_it(
    here: PostgresStore, there: PostgresStore, postgres_address: str, schema: str
) -> None:
    driving = await running(there)
    killings: list[Killing] = []

    async def kill() -> None:
        killings.append(await here.kill("all", OLGA))

    async with anyio.create_task_group() as tasks, half_way(postgres_address, schema, RUN, 4):
        tasks.start_soon(driving.begins)
        assert await stores_wait(postgres_address, 1)
        tasks.start_soon(kill)
        await stores_wait(postgres_address, 2, patience_s=1)

    assert killings[0].killed == {RUN: (4,)}
    assert names(await read_all(here, after=3)) == ["attempt.started", "run.killed"]


async def test_a_release_waits_for_a_kill_of_its_scope_that_is_under_way(
    here: PostgresStore, there: PostgresStore, postgres_address: str, schema: str
) -> None:
    """Else the operator would be told that all has stopped when the switch is off already."""
    driving = await running(here)
    question = await driving.asks()
    await driving.waits()
    await here.kill("all", OLGA)
    await ask(here, e.QuestionAnswered(who=ANN, question=question))  # it moves, without a driver
    done: list[str] = []

    async def kill_again() -> None:
        await here.kill("all", OLGA)
        done.append("killed")

    async def release() -> None:
        await there.release("all", OLGA)
        done.append("released")

    lock = "SELECT FROM journals FOR UPDATE"
    async with (
        anyio.create_task_group() as tasks,
        not_committed(postgres_address, schema, lock),
    ):
        tasks.start_soon(kill_again)
        assert await stores_wait(postgres_address, 1)
        tasks.start_soon(release)
        await stores_wait(postgres_address, 2, patience_s=1)
        assert done == []

    assert sorted(done) == ["killed", "released"]
    assert await here.switches() == []


# ── leases and the clock ─────────────────────────────────────────────────────────────────────

RUN_OUT = "UPDATE leases SET expires_at = clock() - 1"
RENEW = "UPDATE leases SET expires_at = clock() + 60"


async def test_a_claim_waits_for_the_old_driver_who_is_renewing_its_lease(
    here: PostgresStore, there: PostgresStore, postgres_address: str, schema: str
) -> None:
    epochs: list[int] = []

    async def take_over() -> None:
        epochs.append(await claim(here, driver="d-2"))

    async with there.lease("d-1"), by_hand(postgres_address, schema) as connection:
        await running(there, driver="d-1")
        await connection.execute(RUN_OUT)
        async with (
            anyio.create_task_group() as tasks,
            not_committed(postgres_address, schema, RENEW, keep=True),
        ):
            tasks.start_soon(take_over)
            await stores_wait(postgres_address, 1, patience_s=1)

    assert epochs == [0]


async def test_a_driver_that_lives_renews_its_lease_while_somebody_waits_to_claim_its_run(
    there: PostgresStore,
    postgres_address: str,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever holds the run's head may be frozen: that takes one run's time, and nobody's lease."""
    locked = ("SELECT FROM journals WHERE journal = $1 FOR UPDATE", RUN)
    async with (
        PostgresStore.open(postgres_address, schema=schema) as living,
        living.lease("d-1") as lease,
    ):
        await running(living, driver="d-1")
        async with (
            anyio.create_task_group() as tasks,
            not_committed(postgres_address, schema, *locked),
        ):
            tasks.start_soon(partial(claim, there, driver="d-2"))
            assert await stores_wait(postgres_address, 1)
            assert await is_renewed(lease, monkeypatch)
        assert (await living.row(RUN)).driver == "d-1"


async def test_a_driver_renews_its_lease_while_all_its_connections_wait_for_others(
    postgres_address: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill over a slow line holds up every request in its scope, and not the workers' leases."""
    runs, waiting = [f"r-{n}" for n in range(6)], 4
    locked = "SELECT FROM journals WHERE kind = 'run' FOR UPDATE"
    async with PostgresStore.open(postgres_address, schema=schema, connections=waiting) as store:
        for run in runs:
            await start(store, run)
        async with (
            store.lease("d-1") as lease,
            anyio.create_task_group() as tasks,
            not_committed(postgres_address, schema, locked),
        ):
            for run in runs:
                tasks.start_soon(partial(claim, store, run, driver="d-1"))
            assert await stores_wait(postgres_address, waiting)
            assert await is_renewed(lease, monkeypatch)


async def test_a_request_that_had_to_wait_is_decided_at_the_time_at_which_it_could(
    here: PostgresStore, postgres_address: str, schema: str
) -> None:
    """A deadline that passed meanwhile has passed."""
    await start(here)
    decided_at: list[float] = []

    def decide(view: View) -> Draft:
        decided_at.append(view.now)
        return Draft()

    lock = "SELECT FROM journals FOR UPDATE"
    async with (
        anyio.create_task_group() as tasks,
        not_committed(postgres_address, schema, lock),
    ):
        tasks.start_soon(here.submit, Submit("a-1", (RUN,), decide, scopes=("all",)))
        assert await stores_wait(postgres_address, 1)
        await anyio.sleep(0.05)
        free_from = await here.now()

    assert decided_at[-1] >= free_from


# ── purging ──────────────────────────────────────────────────────────────────────────────────

LARGE = Raw(b'"' + b"x" * 70_000 + b'"')


async def test_a_run_that_is_being_recovered_is_not_purged(
    here: PostgresStore, there: PostgresStore, postgres_address: str, schema: str
) -> None:
    await running(here)
    await here.kill("all", OLGA)
    later, purged = await here.now() + 60, list[Purged]()

    async def purge() -> None:
        purged.append(await here.purge(later))

    async with anyio.create_task_group() as tasks, half_way(postgres_address, schema, RUN, 5):
        tasks.start_soon(ask, there, e.Recovered(who=OLGA))
        assert await stores_wait(postgres_address, 1)
        tasks.start_soon(purge)
        await stores_wait(postgres_address, 2, patience_s=0.5)  # it has nothing to wait for

    assert purged == [Purged(0, 0, 0)]
    assert (await here.row(RUN)).phase == Phase.PAUSED


async def test_a_thread_in_which_a_run_is_being_started_is_not_purged(
    here: PostgresStore, there: PostgresStore, postgres_address: str, schema: str
) -> None:
    """Whoever starts a run there has the thread under lock, as Control does."""
    await open_thread(here)
    later, purged = await here.now() + 60, list[Purged]()
    begin = Submit(
        "a-1", (RUN, THREAD), lambda view: Draft({RUN: (created(),)}), new=(RUN,), scopes=("all",)
    )

    async def purge() -> None:
        purged.append(await here.purge(later))

    async with (
        anyio.create_task_group() as tasks,
        half_way(postgres_address, schema, RUN, 1),
    ):
        tasks.start_soon(there.submit, begin)
        assert await stores_wait(postgres_address, 1)
        tasks.start_soon(purge)
        await stores_wait(postgres_address, 2, patience_s=0.5)  # it has nothing to wait for

    assert purged == [Purged(0, 0, 0)]
    assert (await here.row(THREAD)).head == 1


async def test_a_thread_in_which_a_run_began_while_the_purge_was_looking_is_not_purged(
    here: PostgresStore, there: PostgresStore, postgres_address: str, schema: str
) -> None:
    """It looks at what was there when it began to look, so it has to look once more under lock."""
    await open_thread(here)
    later, purged = await here.now() + 60, list[Purged]()
    begin = Submit("a-1", (RUN, THREAD), lambda view: Draft({RUN: (created(),)}), new=(RUN,))

    async def purge() -> None:
        purged.append(await here.purge(later))

    async with (
        by_hand(postgres_address, schema) as connection,
        anyio.create_task_group() as tasks,
    ):
        await lingers_at_its_first_look(connection)
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext(current_schema()))")
            tasks.start_soon(purge)
            assert await stores_wait(postgres_address, 1)
            await there.submit(begin)

    assert purged == [Purged(0, 0, 0)]
    assert (await here.row(THREAD)).head == 1


async def lingers_at_its_first_look(connection: Any) -> None:
    """Have the purge wait in the middle of its search for threads, for whoever holds a lock."""
    await connection.execute(
        "CREATE FUNCTION linger() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM pg_advisory_xact_lock(hashtext(current_schema())); RETURN true; END $$"
    )
    purge = "'purge(double precision, bigint)'::regprocedure"
    body = await connection.fetchval(f"SELECT pg_get_functiondef({purge})")
    look = "WHERE kind = 'thread' AND"
    assert body.count(look) == 1
    await connection.execute(body.replace(look, f"{look} linger() AND"))


async def test_a_value_that_is_being_referred_to_anew_is_not_purged(
    here: PostgresStore, there: PostgresStore, postgres_address: str, schema: str
) -> None:
    done = await running(here, "r-done")
    await done.settles(await done.begins(), result=LARGE)
    await done.finishes()
    living = await running(there, "r-living", driver="d-2")
    attempt = await living.begins()
    later = await here.now() + 60
    async with by_hand(postgres_address, schema) as connection:
        digest = await connection.fetchval("SELECT hash FROM blobs")

    use = "INSERT INTO blob_uses (hash, journal) VALUES ($1, 'r-living')"
    async with (
        anyio.create_task_group() as tasks,
        not_committed(postgres_address, schema, use, digest),
    ):
        tasks.start_soon(tell, there, outcome(attempt, result=LARGE), "r-living")
        assert await stores_wait(postgres_address, 1)
        tasks.start_soon(here.purge, later)
        await stores_wait(postgres_address, 2, patience_s=1)

    assert await here.blob(digest) == bytes(LARGE)
