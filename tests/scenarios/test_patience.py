"""While a driver waits for the store: what it still hears, what time does, what ends the wait."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from typing_extensions import override

from engines.link import BACK, THERE
from engines.ways import way_to
from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.errors import StoreError, StoreReplaced
from midflight.journal import events as e
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.journal.threads.thread import Said
from midflight.run import Run, Stopped
from midflight.runtime import children
from midflight.stores.memory import MemoryStore
from midflight.stores.postgres import PostgresStore
from midflight.stores.protocol import Append, Committed, Row, Store
from scenarios.away import Away, neighbour
from scenarios.conftest import failed_drivers
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(60)]

OLGA = Actor("olga", Role.OPERATOR)
AWAY_S = 0.9
TIME_S = 0.6  # for a person; less than the store is away
SOON_S = 0.2


@asynccontextmanager
async def driving(
    store: Store, tmp_path: Path, *agents: Agent, drain_s: float = 1.0
) -> AsyncIterator[Control]:
    async with LocalEngine.open(
        store, agents, workdir=tmp_path / "work", sweep_s=0.05, drain_s=drain_s
    ) as engine:
        with anyio.fail_after(20):
            yield Control(store, engine)


# ── what time does ───────────────────────────────────────────────────────────────────────────────


async def test_people_have_the_whole_time_for_an_answer_from_when_they_can_see_the_question(
    tmp_path: Path,
) -> None:
    store, ready = Away(), anyio.Event()

    @agent()
    async def clerk(run: Run) -> Any:
        await ready.wait()
        return (await run.ask("Which colour?", expires_in=TIME_S)).payload

    async with driving(store, tmp_path, clerk) as control:
        run = await control.start(clerk, "")
        await control.until(run, lambda state: state.phase is Phase.RUNNING)
        async with store.is_away(readable=True):
            ready.set()
            await anyio.sleep(AWAY_S)
        await control.until(run, lambda state: bool(state.questions) or not state.alive)
        await anyio.sleep(SOON_S)
        for question in (await control.state(run)).questions:
            await control.answer(run, question, "blue")

        assert await control.result(run) == "blue"


async def test_the_window_before_an_effect_is_open_in_full_after_the_store_was_away(
    tmp_path: Path,
) -> None:
    store, stage, ready = Away(), Stage("window"), anyio.Event()
    send = stage.writer(irreversible=True, undo=None, approval=False, undo_window=TIME_S)

    @agent()
    async def clerk(run: Run) -> Any:
        await ready.wait()
        return await run.step("Send", send, "mail")

    async with driving(store, tmp_path, clerk) as control:
        run = await control.start(clerk, "")
        await control.until(run, lambda state: state.phase is Phase.RUNNING)
        async with store.is_away(readable=True):
            ready.set()
            await anyio.sleep(AWAY_S)
        await control.until(run, lambda state: bool(state.windows) or bool(state.effects))
        await anyio.sleep(SOON_S)
        await control.cancel(run)
        await control.ended(run)

    assert stage.done == []


class LeavesInAnUndo(Away):
    """Is away as soon as the first undo is on record."""

    left = False

    @override
    async def append(self, decision: Append) -> Committed:
        done = await super().append(decision)
        undoes = any(isinstance(record.event, e.UndoStarted) for record in done.records)
        if undoes and not self.left:
            self.left = self.away = True
        return done


async def test_a_child_has_its_whole_time_to_undo_from_when_it_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or its parent would say that it was not undone, and leave it at work."""
    monkeypatch.setattr(children, "UNDO_S", TIME_S)
    store, stage = LeavesInAnUndo(), Stage("asked-late")
    make, look = stage.writer(), stage.reader()
    stage.gate("slow")

    @agent("below")
    async def below(run: Run) -> None:
        await run.step("Make", make, "thing")
        await run.step("Look", look, "slow")

    @agent("above")
    async def above(run: Run) -> None:
        await (await run.spawn("below", "")).result()

    async with driving(store, tmp_path, below, above) as control:
        run = await control.start(above, "")
        await stage.until_begun("slow")
        await control.cancel(run)
        while not store.away:  # noqa: ASYNC110 - nobody is told
            await anyio.sleep(0.01)
        await anyio.sleep(AWAY_S)
        store.away = False
        await control.ended(run)
        lines = (await control.receipt(run)).lines

    assert [line.word for line in lines] == ["undone"]
    assert stage.done == ["thing", "undone thing"]


# ── what is heard meanwhile ──────────────────────────────────────────────────────────────────────


@pytest.mark.postgres
@pytest.mark.parametrize("stop", ["cancel", "kill"])
async def test_a_run_whose_thread_is_locked_by_a_frozen_neighbour_can_be_stopped(
    tmp_path: Path,
    postgres_address: str,
    impatient: None,
    caplog: pytest.LogCaptureFixture,
    stop: str,
) -> None:
    """``run.say`` waits for the thread. Its run is not locked, and hears of the stop at once."""
    stage, schema = Stage(f"locked-{stop}"), f"test_{uuid4().hex}"
    make, ready = stage.writer(), anyio.Event()
    stage.gate("beside")
    stopped = anyio.Event()

    @agent("speaker")
    async def speaker(run: Run) -> None:
        await run.step("Make", make, "first")
        await ready.wait()

        async def beside() -> None:
            with suppress(Stopped):  # or it would end what is said
                await run.step("Make", make, "beside")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(beside)
            try:
                await run.say("I am at it")
            except Stopped:
                stopped.set()
                raise

    async with (
        PostgresStore.open(postgres_address, schema=schema) as store,
        driving(store, tmp_path, speaker) as control,
    ):
        run = await control.start(speaker, "", thread="t-locked")
        await control.until(run, lambda state: len(state.effects) == 1 and not state.open)
        async with neighbour("rows", postgres_address, schema, "t-locked", frozen=True):
            ready.set()
            await stage.until_begun("beside")
            while not waits(caplog):  # noqa: ASYNC110 - a log tells nobody
                await anyio.sleep(0.02)
            with anyio.fail_after(4):  # a function that does not hear of it is cancelled after 5 s
                if stop == "cancel":
                    await control.cancel(run)
                    await stage.until_done("undone first")
                else:
                    await control.kill("thread:t-locked", who=OLGA)
                await stopped.wait()
        state = await control.ended(run)

        assert state.phase is (Phase.CANCELLED if stop == "cancel" else Phase.KILLED)
        assert "beside" not in stage.done
        assert failed_drivers(caplog) == []


@pytest.mark.postgres
async def test_a_driver_that_lost_its_run_while_it_waited_says_nothing_twice(
    tmp_path: Path, postgres_address: str, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    """One process is cut off in ``run.say`` for longer than its lease, and another takes over."""
    schema, at_it, ready = f"test_{uuid4().hex}", list[str](), anyio.Event()

    def speaker(name: str) -> Agent:
        @agent("speaker")
        async def speaks(run: Run) -> str:
            at_it.append(name)
            await ready.wait()
            await run.say("once")
            return name

        return speaks

    async with (
        way_to(postgres_address, tmp_path / "way") as (link, cut),
        PostgresStore.open(cut, schema=schema, lease_s=1.0) as far,
        PostgresStore.open(postgres_address, schema=schema, lease_s=10.0) as near,
        driving(far, tmp_path, speaker("far")) as control,
    ):
        run = await control.start("speaker", "", thread="t-said")
        await control.until(run, lambda state: state.phase is Phase.RUNNING)
        link.swallow(THERE, BACK)
        ready.set()
        async with driving(near, tmp_path, speaker("near")) as other:
            assert await other.result(run) == "near"
            link.swallow()
            link.reset()
            await anyio.sleep(1.0)  # what the cut-off driver had to write has come through
            said = [r for r in await near.read("t-said") if isinstance(r.event, Said)]

    assert at_it == ["far", "near"]
    assert len(said) == 1
    assert failed_drivers(caplog) == []


# ── what is waited for, and what is not ──────────────────────────────────────────────────────────


async def test_a_claim_waits_for_the_store_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Away()

    @agent()
    async def clerk(run: Run) -> str:
        return "done"

    async with driving(store, tmp_path, clerk) as control:
        run = await control.start(clerk, "")
        async with store.is_away():  # before the claim: nothing was awaited since the start
            await anyio.sleep(0.3)
        assert await control.result(run) == "done"
        claimed = [r for r in await store.read(run) if isinstance(r.event, e.DriverClaimed)]

    assert len(claimed) == 1
    assert failed_drivers(caplog) == []
    assert len(waits(caplog)) == 1


class Replaced(StoreError):
    """An error of the store that no waiting mends."""


class Broken(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.broken = False

    @override
    async def submit(self, request: Any) -> Any:
        if self.broken:
            raise Replaced("it is not the store that was opened. Nothing was changed.")
        return await super().submit(request)


async def test_an_error_that_nobody_can_mend_is_raised_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, ready, heard = Broken(), anyio.Event(), list[BaseException]()
    told = anyio.Event()

    @agent()
    async def speaker(run: Run) -> None:
        await ready.wait()
        try:
            await run.say("hello")
        except StoreError as error:
            heard.append(error)
            told.set()

    async with driving(store, tmp_path, speaker) as control:
        run = await control.start(speaker, "")
        await control.until(run, lambda state: state.phase is Phase.RUNNING)
        store.broken = True
        ready.set()
        with anyio.fail_after(2):
            await told.wait()
        store.broken = False

    assert [type(error) for error in heard] == [Replaced]
    assert waits(caplog) == []


async def test_a_process_leaves_in_time_although_the_store_is_away(tmp_path: Path) -> None:
    store, ready = Away(), anyio.Event()

    @agent()
    async def speaker(run: Run) -> None:
        await ready.wait()
        await run.say("hello")

    async with store.is_away():
        store.away = False
        async with driving(store, tmp_path, speaker, drain_s=0.2) as control:
            for run in [await control.start(speaker, str(n)) for n in range(3)]:
                await control.until(run, lambda state: state.phase is Phase.RUNNING)
            store.away = True
            ready.set()
            await anyio.sleep(0.3)
            leaving = time.monotonic()
        assert time.monotonic() - leaving < 2


class Odd(MemoryStore):
    """Fails its sweeps in a way that nobody has thought of."""

    def __init__(self) -> None:
        super().__init__()
        self.odd = 3

    @override
    async def due(self, limit: int = 100) -> list[Row]:
        if self.odd:
            self.odd -= 1
            raise RuntimeError("nobody has thought of this")
        return await super().due(limit)


async def test_a_sweep_that_fails_does_not_end_the_engine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Odd()

    @agent()
    async def clerk(run: Run) -> str:
        return "done"

    async with driving(store, tmp_path, clerk) as control:
        while store.odd:  # noqa: ASYNC110 - nobody is told
            await anyio.sleep(0.02)
        assert await control.result(await control.start(clerk, "")) == "done"

    failed = [r for r in caplog.records if getattr(r, "action", "") == "sweep_failed"]
    assert len(failed) == 3
    assert all(r.levelno == logging.ERROR and r.exc_info for r in failed)


class TakenAway(Odd):
    @override
    async def due(self, limit: int = 100) -> list[Row]:
        try:
            return await super().due(limit)
        except RuntimeError:
            raise StoreReplaced("another file is in its place") from None


async def test_a_store_that_was_replaced_is_not_told_as_a_sweep_that_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = TakenAway()
    async with driving(store, tmp_path):
        while store.odd:  # noqa: ASYNC110 - nobody is told
            await anyio.sleep(0.02)
    assert not [r for r in caplog.records if getattr(r, "action", "") == "sweep_failed"]


def waits(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [r for r in caplog.records if getattr(r, "action", "") == "store_awaited"]
    return [record.getMessage() for record in told]
