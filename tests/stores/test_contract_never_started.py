"""A run that never started is cancelled by whoever cancels it: no driver is needed for that."""

from __future__ import annotations

import pytest
from typing_extensions import override

from midflight.agents import agent
from midflight.control import Control
from midflight.engines.local_engine import NoEngine
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.stores.protocol import Store

pytestmark = pytest.mark.anyio


@agent("never-started")
async def clerk(run: Run) -> None:
    raise AssertionError("nobody drives it")


@pytest.mark.parametrize("held", [False, True])
async def test_a_run_that_never_started_is_cancelled_with_the_acknowledgement(
    store: Store, held: bool
) -> None:
    control = Control(store)
    run = await control.start(clerk, "work")
    if held:
        await control.pause(run)
    accepted = await control.cancel(run)

    state = await control.state(run)
    assert (state.phase, state.driver, state.wants_driver) == (Phase.CANCELLED, "", False)
    assert state.deliveries[accepted.position].status == "applied"
    assert (await control.receipt(run)).lines == ()
    row = await store.row(run)
    assert (row.phase, row.wants_driver) == (Phase.CANCELLED, False)
    assert await store.due() == []


async def test_the_same_cancel_asked_again_is_answered_as_before(store: Store) -> None:
    control = Control(store)
    run = await control.start(clerk, "work")
    first = await control.cancel(run, key="once")
    assert await control.cancel(run, key="once") == first


async def test_what_comes_next_in_its_thread_begins_in_the_same_append(store: Store) -> None:
    """Its run never began, and somebody has written meanwhile: the message is not left behind."""

    @agent("never-started-host", converses=True)
    async def host(run: Run) -> None:
        raise AssertionError("nobody drives it")

    control = Control(store)
    run = await control.start(host, "work")
    thread = (await store.row(run)).thread
    await control.send(thread, "something else please")
    await control.cancel(run)

    talk = await store.load(thread)
    assert talk.front != run  # type: ignore[union-attr]
    begun = await control.state(talk.front)  # type: ignore[union-attr]
    assert (begun.phase, begun.brief) == (Phase.QUEUED, "something else please")
    said = [r.event for r in await store.read(thread) if isinstance(r.event, e.MessagesTaken)]
    assert len(said) == 1


async def test_a_run_that_a_driver_has_claimed_is_left_to_it(store: Store) -> None:
    from midflight.journal.facts import claim
    from midflight.stores.protocol import Draft, Submit

    control = Control(store)
    run = await control.start(clerk, "work")
    async with store.lease("worker") as lease:
        await store.submit(
            Submit(
                "claim",
                (run,),
                lambda view: Draft(
                    {run: claim(view.states[run], lease.driver, lease_gone=False)}  # type: ignore[arg-type]
                ),
            )
        )
        await control.cancel(run)
        assert (await control.state(run)).phase is Phase.CANCELLING


class Told(NoEngine):
    """An engine that notes what it is asked to drive."""

    def __init__(self) -> None:
        self.journals: list[str] = []

    @override
    async def ensure(self, run: str) -> None:
        """See ``Engine.ensure``."""
        self.journals.append(run)


async def test_nobody_is_asked_to_drive_the_thread_of_a_run_that_was_cancelled(
    store: Store,
) -> None:
    @agent("never-started-told", converses=True)
    async def host(run: Run) -> None:
        pass

    engine = Told()
    control = Control(store, engine)
    run = await control.start(host, "work")
    await control.send((await store.row(run)).thread, "something else please")
    await control.cancel(run)

    assert [journal for journal in engine.journals if not journal.startswith("r-")] == []
