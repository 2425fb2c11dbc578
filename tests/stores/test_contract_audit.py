"""The audit of a store: one chain, one record for each deed, also if several write at once."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import anyio
import pytest

from midflight.audit import (
    BEFORE_ALL,
    Checker,
    Deed,
    Head,
    Link,
    Visit,
    digest_of,
    visiting,
)
from midflight.errors import InvalidRequest
from midflight.inputs import new_id
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.requests import decide, scopes
from midflight.stores.postgres import PostgresStore
from midflight.stores.protocol import Draft, Store, Submit, View
from stores.backends import DURABLE, Open
from stores.halfway import by_hand
from stores.runs import ANN, OLGA, RUN, THREAD, cancel, running

pytestmark = pytest.mark.anyio


async def chain(store: Store) -> list[Link]:
    found: list[Link] = []
    while page := await store.audit_page(found[-1].number if found else 0, 7):
        found += page
    return found


async def records(store: Store) -> list[dict[str, Any]]:
    return [json.loads(link.record) for link in await chain(store)]


def is_whole(links: list[Link], head: Head | None = None) -> bool:
    checker = Checker(head)
    faults = [fault for link in links for fault in checker.take(link)] + checker.end()
    return not faults


def pausing(**about: Any) -> Submit:
    """A pause of the run, with its record."""

    def answer(view: View) -> Draft:
        verdict = decide(view.states[RUN], e.PauseRequested(who=ANN))
        assert isinstance(verdict, tuple)
        return Draft({RUN: verdict})

    request_id = new_id()
    asked = Deed(id=request_id, action="pause", target=RUN, by="ann", about=about)
    return Submit(request_id, (RUN,), answer, scopes=scopes("clerk", THREAD), audit=asked)


async def test_a_new_store_has_an_empty_chain(store: Store) -> None:
    assert await store.audit_page() == []
    assert await store.audit_head() == Head(0, BEFORE_ALL)


async def test_each_record_carries_the_digest_of_the_one_before(store: Store) -> None:
    for number in range(10):
        await store.audit(Deed(id=f"d-{number}", action="login", by="ann"))

    links = await chain(store)
    assert [link.number for link in links] == list(range(1, 11))
    assert links[0].previous == BEFORE_ALL
    for before, link in pairwise(links):
        assert link.previous == before.digest
    for link in links:
        assert link.digest == digest_of(link.previous, link.number, link.record)
    assert await store.audit_head() == Head(10, links[-1].digest)


async def test_a_deed_is_recorded_once_however_often_it_is_written(store: Store) -> None:
    once, twice = Deed(id="d-1", action="login"), Deed(id="d-2", action="logout")
    await store.audit(once)
    await store.audit(once, twice, twice)
    await store.audit(twice)

    assert [record["id"] for record in await records(store)] == ["d-1", "d-2"]


async def test_a_request_is_recorded_with_what_it_appends(store: Store) -> None:
    await running(store)
    done = await store.submit(pausing(scope="tree"))

    (record,) = await records(store)
    assert record["action"] == "pause"
    assert record["outcome"] == "done"
    assert record["about"] == {"position": done.position(RUN), "scope": "tree"}


async def test_a_repeated_request_is_recorded_once(store: Store) -> None:
    await running(store)
    request = pausing()
    await store.submit(request)
    assert (await store.submit(request)).repeated

    assert len(await records(store)) == 1


async def test_a_request_that_is_refused_leaves_no_record_that_it_was_done(store: Store) -> None:
    await running(store)

    def refuse(view: View) -> Draft:
        raise InvalidRequest("not now")

    with pytest.raises(InvalidRequest):
        await store.submit(Submit(new_id(), (RUN,), refuse, audit=Deed(id="d", action="pause")))
    assert await records(store) == []


@pytest.mark.parametrize("scope", ["all", "agent:nobody"])
async def test_a_kill_and_a_release_are_recorded_also_if_nothing_was_stopped(
    store: Store, scope: str
) -> None:
    await running(store)
    with visiting(Visit("http", "192.0.2.7")):
        await store.kill(scope, OLGA, "fire")
        await store.release(scope, OLGA)
        await store.release(scope, OLGA)

    killed, released, again = await records(store)
    assert (killed["action"], killed["target"], killed["by"]) == ("kill", scope, "olga")
    assert (killed["door"], killed["address"]) == ("http", "192.0.2.7")
    assert killed["outcome"] == ("done" if scope == "all" else "nothing")
    assert killed["about"]["stopped"] == (1 if scope == "all" else 0)
    assert "fire" not in json.dumps(killed)
    assert [released["outcome"], again["outcome"]] == ["done", "nothing"]


async def test_a_purge_is_recorded_and_leaves_the_chain_whole(store: Store) -> None:
    await running(store)
    await store.submit(pausing())
    await store.kill("all", OLGA)
    before = await chain(store)
    assert (await store.row(RUN)).phase in {Phase.KILLED, Phase.PAUSED}
    await store.release("all", OLGA)
    await cancel_if_alive(store)

    purged = await store.purge(await store.now() + 60)

    assert purged.runs == 1
    links = await chain(store)
    assert is_whole(links)
    assert links[: len(before)] == before
    last = json.loads(links[-1].record)
    assert (last["action"], last["about"]["runs"]) == ("purge", 1)


async def cancel_if_alive(store: Store) -> None:
    if (await store.row(RUN)).phase != Phase.KILLED:
        await cancel(store)


async def test_many_who_write_at_once_make_one_chain(store: Store) -> None:
    async def write(who: str) -> None:
        for number in range(20):
            await store.audit(Deed(id=f"{who}-{number}", action="login", by=who))

    async with anyio.create_task_group() as tasks:
        for who in ("ann", "bob", "cyd", "dan"):
            tasks.start_soon(write, who)

    links = await chain(store)
    assert len(links) == 80
    assert is_whole(links, await store.audit_head())
    for who in ("ann", "bob", "cyd", "dan"):
        mine = [r["id"] for link in links if (r := json.loads(link.record))["by"] == who]
        assert mine == [f"{who}-{number}" for number in range(20)]


@DURABLE
async def test_two_stores_on_the_same_journals_make_one_chain(open_store: Open) -> None:
    async def write(store: Store, who: str) -> None:
        for number in range(30):
            await store.audit(Deed(id=f"{who}-{number}", action="login", by=who))

    async with open_store() as one, open_store() as other, anyio.create_task_group() as tasks:
        tasks.start_soon(write, one, "ann")
        tasks.start_soon(write, other, "bob")
    async with open_store() as store:
        links = await chain(store)
        assert len(links) == 60
        assert is_whole(links, await store.audit_head())


async def test_names_are_cut_and_halved_characters_do_not_stop_a_record(store: Store) -> None:
    await store.audit(Deed(id="d", action="login", by="\ud800" + "x" * 1_000, why="\0"))

    (record,) = await records(store)
    assert len(record["by"]) == 200
    assert record["why"] == "\0"


@pytest.mark.postgres
async def test_postgres_chains_what_a_process_wrote_that_died_before_it_could(
    postgres_address: str,
) -> None:
    schema = f"test_{new_id()}"
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        await store.audit(Deed(id="d-1", action="login"))
        before = await store.audit_head()
    async with by_hand(postgres_address, schema) as connection:
        await connection.execute(f"INSERT INTO {schema}.audit (id, record) VALUES ('d-2', '{{}}')")

    async with PostgresStore.open(postgres_address, schema=schema) as store:
        links = await chain(store)
        assert [link.record for link in links[1:]] == [b"{}"]
        assert links[1].previous == before.digest
        assert is_whole(links, await store.audit_head())


@pytest.mark.postgres
async def test_controls_of_postgres_do_not_wait_for_somebody_who_chains(
    postgres_address: str,
) -> None:
    schema = f"test_{new_id()}"
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        await running(store)
        async with by_hand(postgres_address, schema) as connection, connection.transaction():
            lock = "SELECT pg_advisory_xact_lock(hashtext('midflight audit'), hashtext($1))"
            await connection.execute(lock, schema)
            with anyio.fail_after(1.5):  # less than any wait for a lock
                await store.submit(pausing())
        assert [record["action"] for record in await records(store)] == ["pause"]
