"""Waiting for a run, or for its end, on a store that is open here."""

from __future__ import annotations

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.errors import JournalNotFound
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor, Recorded
from midflight.journal.state import RunState
from midflight.run import Run
from midflight.stores import lookup
from midflight.stores.memory import MemoryStore
from scenarios.conftest import Open

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

OLGA = Actor("olga", Role.OPERATOR)


@pytest.fixture
def control() -> Control:
    return Control(MemoryStore(), who=OLGA)


async def test_who_waits_for_the_end_gets_the_run_as_it_ended_also_if_it_came_back_at_once(
    driving: Open,
) -> None:
    @agent
    async def sleeper(run: Run) -> None:
        await anyio.sleep(3600)

    async with driving(sleeper) as control:
        run = await control.start(sleeper, "sleep")
        await control.until(run, lambda state: state.phase is Phase.RUNNING)
        found: list[RunState] = []

        async def wait() -> None:
            found.append(await control.ended(run))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            thread = (await control.row(run)).thread
            await control.kill(f"thread:{thread}", who=OLGA)
            await control.release(f"thread:{thread}", who=OLGA)
            await control.recover(run, who=OLGA)

        assert found[0].phase is Phase.KILLED
        assert (await control.state(run)).phase is Phase.PAUSED


async def test_nothing_is_folded_for_who_waits_until_the_end_has_come(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await control.start("nobody", "wait")
    folded: list[str] = []

    def counted(_: RunState, record: Recorded) -> None:
        folded.append(record.event.stored_name())

    monkeypatch.setattr(lookup, "advance", counted)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(control.ended, run)
        await anyio.wait_all_tasks_blocked()
        await control.pause(run)
        await control.resume(run)
        await control.cancel(run)  # it had not begun, and is over at once

    assert folded == []
    assert (await control.ended(run)).phase is Phase.CANCELLED


async def test_an_error_of_who_waits_is_theirs_and_the_verb_is_done(control: Control) -> None:
    run = await control.start("nobody", "wait")

    def ready(state: RunState) -> bool:
        if state.phase is Phase.PAUSED:
            raise ZeroDivisionError
        return False

    with pytest.RaisesGroup(ZeroDivisionError):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(control.until, run, ready)
            await anyio.wait_all_tasks_blocked()
            await control.pause(run)

    assert (await control.state(run)).phase is Phase.PAUSED


async def test_a_thread_is_no_run_that_could_be_cancelled(control: Control) -> None:
    run = await control.start("nobody", "wait")
    thread = (await control.row(run)).thread

    with pytest.raises(JournalNotFound):
        await control.cancel(thread)
