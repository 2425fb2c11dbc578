"""A run that is let go is gone: nothing of it waits for the collector, which stops the loop."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from midflight.agents import Agent
from midflight.control import local
from midflight.conversation import Choice, Triage, TriageView
from midflight.errors import Refused
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.record import Event
from midflight.journal.state import RunState
from midflight.journal.threads.thread import MessageTriaged
from midflight.run import Run
from midflight.runtime.driver import Driver
from midflight.stores.protocol import Store
from scenarios.conftest import Live, Open
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def drivers(but: tuple[Driver, ...] = ()) -> list[Driver]:
    """Those in memory; other stories may have some at work."""
    found = [each for each in gc.get_objects() if type(each) is Driver]
    return [each for each in found if not any(each is other for other in but)]


@pytest.mark.parametrize("how", ["done", "cancelled", "evicted"])
@pytest.mark.usefixtures("without_collector")
@pytest.mark.slow
async def test_a_run_that_is_let_go_leaves_nothing_to_the_collector(
    driving: Open, how: str
) -> None:
    stage = Stage(f"let-go-{how}")
    look, cue = stage.reader(), stage.gate("slow")

    async def read(run: Run) -> object:
        return await run.step("Read", look, "slow")

    clerk = Agent("clerk", read, evict_after=0.01)
    others = tuple(drivers())
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        assert len(drivers(others)) == 1
        if how == "evicted":
            await control.pause(run)
            await control.until(run, lambda s: s.phase is Phase.PAUSED and not s.driver)
        elif how == "cancelled":
            await control.cancel(run)
        else:
            cue.set()
        with anyio.fail_after(20):
            while drivers(others):  # noqa: ASYNC110 - nobody tells of an object that is no more
                await anyio.sleep(0.01)


async def test_a_driver_that_leaves_begins_nothing_more(driving: Open) -> None:
    """A task begun while its group ends would have no owner that waits for it."""
    stage = Stage("leaving")
    look, cue = stage.reader(), stage.gate("slow")

    async def read(run: Run) -> object:
        return await run.step("Read", look, "slow")

    clerk = Agent("clerk", read)
    others = tuple(drivers())
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        (driver,) = drivers(others)
        cue.set()
        await control.until(run, lambda s: s.phase is Phase.DONE)
        with anyio.fail_after(20):
            while hasattr(driver, "function"):  # at every turn of the loop until it is let go
                driver._fell_behind()
                await anyio.lowlevel.checkpoint()


async def speaks(run: Run) -> None:
    await run.say("hello")


async def takes(run: Run) -> None:
    await run.inbox()


async def spawns(run: Run) -> None:
    await run.spawn("helper", "help")


async def sits(run: Run) -> None:
    await anyio.sleep_forever()


async def puts_it_off(view: TriageView) -> list[Choice]:
    return [Choice(message.id, "defer") for message in view.messages]


@pytest.mark.parametrize(
    ("does", "kind", "triage"),
    [
        (speaks, e.Spoke, None),
        (takes, e.MessagesTaken, None),
        (spawns, e.ChildSpawned, None),
        (sits, MessageTriaged, puts_it_off),
    ],
    ids=["say", "inbox", "spawn", "triage"],
)
async def test_what_a_store_has_taken_is_decided_also_when_the_driver_has_left(
    living: Live,
    store: Store,
    does: Callable[[Run], Awaitable[None]],
    kind: type[Event],
    triage: Triage | None,
) -> None:
    """Whoever wants it may be cancelled at any time; a store ends what it has begun."""

    async def works(run: Run) -> None:
        lived.cord.take_requests()
        await does(run)

    clerk = Agent("late", works, converses=bool(triage), triage=triage, triage_after=0.01)
    async with living(clerk) as lived:
        run = await lived.control.start(clerk, "work")
        await lived.control.send(run, "one more thing")
        with anyio.fail_after(10):
            await lived.cord.reached.wait()
    (request,) = lived.cord.taken
    done = await store.submit(request)
    assert kind in [type(record.event) for record in done.records]


@pytest.mark.slow
async def test_a_refused_request_leaves_no_state_of_a_resting_run_in_memory(
    tmp_path: Path,
) -> None:
    stage = Stage("refused")
    look = stage.reader()
    stage.gate("slow")

    async def read(run: Run) -> object:
        return await run.step("Read", look, "slow")

    clerk = Agent("clerk", read, evict_after=0.01)
    async with local(tmp_path / "journals.db", clerk, workdir=tmp_path) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.pause(run)
        await control.until(run, lambda s: s.phase is Phase.PAUSED and not s.driver)
        refused = False
        try:
            await control.answer(run, 1, "nobody has asked")
        except Refused:  # dropped at once: its traceback knows the state that has refused
            refused = True

        await anyio.sleep(0.05)  # what woke us up knows it too
        gc.collect()
        assert refused
        states = [each for each in gc.get_objects() if type(each) is RunState]
        assert not [state for state in states if state.journal == run]
