"""Requests and facts: decided under lock by a pure function, so they never lose a race."""

from __future__ import annotations

import anyio
import pytest

from midflight.errors import (
    IllegalEvent,
    IllegalSignal,
    JournalConflict,
    KeyReused,
    Outdated,
    Refused,
)
from midflight.inputs import new_id
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.record import Limits
from midflight.journal.requests import Known
from midflight.journal.state import RunState
from midflight.stores.protocol import Draft, Store, Submit, View
from stores.backends import DURABLE, Open
from stores.runs import (
    ANN,
    OLGA,
    RUN,
    Driver,
    answering,
    ask,
    cancel,
    ended,
    pause,
    positions,
    read_all,
    resume,
    running,
    started,
)

pytestmark = pytest.mark.anyio


# ── requests ─────────────────────────────────────────────────────────────────────────────────


async def test_a_request_is_acknowledged_with_a_position(store: Store) -> None:
    await running(store)

    done = await pause(store)

    assert done.position(RUN) == 4
    assert await read_all(store, after=3) == list(done.records)


async def raise_limits(store: Store, key: str) -> int:
    request = e.LimitsRaised(who=ANN, key=key, limits=Limits(steps=1000))
    return (await ask(store, request)).position(RUN)


async def work_until(asked: anyio.Event, driver: Driver) -> list[int]:
    """Append decisions without a break, as a driver with many short steps does."""
    written: list[int] = []
    while not asked.is_set():
        await driver.reads_again()
        guard = e.GuardSet(epoch=1, name="file", kind="file", fingerprint=str(len(written)))
        try:
            written.append((await driver.decides(guard)).position(RUN))
        except JournalConflict:
            continue
        finally:
            await anyio.lowlevel.checkpoint()  # a store in memory answers without a pause
    return written


async def test_no_request_is_lost_beside_a_busy_driver(store: Store) -> None:
    driver = await running(store)
    answered: dict[int, str] = {}
    asked, decided = anyio.Event(), list[int]()

    async def person(number: int) -> None:
        for turn in range(25):
            key = f"{number}/{turn}"
            answered[await raise_limits(store, key)] = key

    async def work() -> None:
        decided.extend(await work_until(asked, driver))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        async with anyio.create_task_group() as people:
            for number in range(8):
                people.start_soon(person, number)
        asked.set()

    journal = await read_all(store)
    raised = {r.position: r.event.key for r in journal if isinstance(r.event, e.LimitsRaised)}
    guarded = [r.position for r in journal if isinstance(r.event, e.GuardSet)]
    assert len(raised) == 200
    assert raised == answered
    assert guarded == decided
    assert positions(journal) == list(range(1, len(journal) + 1))


@DURABLE
async def test_no_request_from_elsewhere_is_lost_beside_a_busy_driver(open_store: Open) -> None:
    async with open_store() as here, open_store() as there:
        driver = await running(here)
        answered: list[int] = []
        asked = anyio.Event()

        async def person() -> None:
            answered.extend([await raise_limits(there, str(turn)) for turn in range(20)])
            asked.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work_until, asked, driver)
            tasks.start_soon(person)

        journal = await read_all(here)
        assert [r.position for r in journal if isinstance(r.event, e.LimitsRaised)] == answered
        assert positions(journal) == list(range(1, len(journal) + 1))


async def test_a_refusal_leaves_no_trace(store: Store) -> None:
    driver = await ended(store)
    before, row = await store.load(RUN), await store.row(RUN)

    with pytest.raises(IllegalSignal) as refusal:
        await pause(store)

    assert (refusal.value.run, refusal.value.phase, refusal.value.signal) == (RUN, "done", "pause")
    assert (await store.load(RUN), await store.row(RUN)) == (before, row)
    assert (await driver.leaves()).position(RUN) == 5


async def test_any_refusal_of_the_deciding_function_reaches_the_caller(store: Store) -> None:
    await running(store)

    class TooLate(Refused): ...

    def refuse(view: View) -> Draft:
        raise TooLate("the shop is closed. Nothing was changed.")

    with pytest.raises(TooLate):
        await store.submit(Submit(new_id(), (RUN,), refuse))

    assert (await pause(store)).position(RUN) == 4


async def test_an_illegal_draft_is_stopped_as_a_decision_would_be(store: Store) -> None:
    await running(store)
    before = await store.load(RUN)
    slip = Draft({RUN: (e.PauseRequested(who=ANN), started("send"))})

    with pytest.raises(IllegalEvent):
        await store.submit(answering(slip))

    assert await store.load(RUN) == before
    assert (await pause(store)).position(RUN) == 4


async def test_it_is_decided_on_the_state_as_it_is_under_lock(store: Store) -> None:
    driver = await running(store)
    seen: list[tuple[int, Phase, int]] = []

    def look(view: View) -> Draft:
        state = view.states[RUN]
        assert isinstance(state, RunState)
        seen.append((state.head, state.phase, len(state.open)))
        return Draft()

    for _ in range(2):
        await store.submit(Submit(new_id(), (RUN,), look))
        await driver.begins(f"step-{len(seen)}")
        await pause(store)
        await driver.reads_again()
        await store.submit(Submit(new_id(), (RUN,), look))
        await resume(store)
        await driver.reads_again()

    assert seen == [
        (3, Phase.RUNNING, 0),
        (5, Phase.PAUSING, 1),
        (6, Phase.RUNNING, 1),
        (8, Phase.PAUSING, 2),
    ]


@DURABLE
async def test_it_is_decided_on_what_others_have_written_meanwhile(open_store: Open) -> None:
    async with open_store() as here, open_store() as there:
        await running(here)
        await pause(there)
        await resume(here)

        assert (await cancel(there)).position(RUN) == 6
        with pytest.raises(IllegalSignal):
            await pause(here)


async def test_a_request_sees_the_clock_and_switches_and_leases_it_asked_for(store: Store) -> None:
    await running(store)
    await store.kill("agent:painter", OLGA, "too many greens")
    views: list[View] = []

    def look(view: View) -> Draft:
        views.append(view)
        return Draft()

    async with store.lease("d-alive"):
        await store.submit(
            Submit(
                new_id(),
                (RUN,),
                look,
                scopes=("all", "agent:painter"),
                leases=("d-alive", "d-dead"),
            )
        )

    (view,) = views
    assert set(view.states) == {RUN}
    assert [switch.scope for switch in view.switches] == ["agent:painter"]
    assert view.gone == {"d-dead"}
    assert abs(view.now - await store.now()) < 5


async def test_an_empty_draft_appends_nothing(store: Store) -> None:
    await running(store)

    for draft in (Draft(), Draft({RUN: ()}, note="nothing to do")):
        done = await store.submit(answering(draft))
        assert (done.records, done.note, done.repeated) == ((), draft.note, False)

    assert (await store.row(RUN)).head == 3


async def test_a_note_goes_to_the_caller_and_not_into_the_journal(store: Store) -> None:
    await running(store)
    draft = Draft({RUN: (e.PauseRequested(who=ANN),)}, note={"was": "running"})

    done = await store.submit(answering(draft))

    assert (done.note, done.position(RUN)) == ({"was": "running"}, 4)


# ── keys and expectations ─────────────────────────────────────────────────────────────────────


async def test_a_key_comes_back_with_its_first_position(store: Store) -> None:
    await running(store)
    press = e.PauseRequested(who=ANN, key="k-1")
    first = await ask(store, press)

    again = await ask(store, press)

    assert (again.records, again.note) == ((), Known(first.position(RUN)))
    with pytest.raises(KeyReused):
        await ask(store, e.PauseRequested(who=ANN, key="k-1", scope="this"))


async def test_a_request_that_was_decided_on_an_older_state_is_refused(store: Store) -> None:
    driver = await running(store)
    seen = driver.state.head
    await driver.asks()

    with pytest.raises(Outdated):
        await ask(store, e.RedirectRequested(who=ANN, text="Only the drafts"), expect=seen)

    assert (await ask(store, e.PauseRequested(who=ANN), expect=seen)).position(RUN) == 5


async def test_a_slip_harms_no_request_that_is_decided_beside_it(store: Store) -> None:
    await running(store)
    slip = Draft({RUN: (e.LimitsRaised(who=ANN, limits=Limits()), started("s"), started("s"))})
    answered: list[int] = []
    slips: list[IllegalEvent] = []

    async def request(number: int) -> None:
        try:
            if number % 3:
                answered.append(await raise_limits(store, str(number)))
            else:
                await store.submit(answering(slip))
        except IllegalEvent as illegal:
            slips.append(illegal)

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(request, number)

    assert len(slips) == 10
    assert sorted(answered) == positions(await read_all(store, after=3)) == list(range(4, 24))
