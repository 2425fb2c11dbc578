"""A cancel with nothing to undo is two appends: the request, and everything that follows from it.

How the aborted calls ended is known before it is on record. It comes there with the run's end, and
without it nothing of the run comes on record any more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.journal import events as e
from midflight.journal.phases import Outcome, Phase, Role
from midflight.journal.record import Actor, Event
from midflight.run import Run
from midflight.runtime.journal_client import Kept
from midflight.stores.protocol import Store
from midflight.stores.sqlite.sqlite_store import SqliteStore
from midflight.stores.sqlite.transaction import Transaction
from midflight.tools.declaration import Tool, tool
from midflight.tools.progress import emit, spend
from scenarios.conftest import Live, Open
from scenarios.cord import Counted
from scenarios.rests import events_of
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio

Driving = Callable[[Agent], AbstractAsyncContextManager[tuple[Control, Counted]]]

OPERATOR = Actor("ops", Role.OPERATOR)
END = (e.RunFinished, e.DriverReleased)


@pytest.fixture
def counting(store: Store, tmp_path: Path) -> Driving:
    """Drive runs of an agent, and keep every append of their driver."""

    @asynccontextmanager
    async def open_control(clerk: Agent) -> AsyncIterator[tuple[Control, Counted]]:
        counted = Counted(store)
        opened = LocalEngine.open(cast("Store", counted), [clerk], workdir=tmp_path / "work")
        async with opened as engine:
            with anyio.fail_after(20):
                yield Control(store, engine), counted

    return open_control


def endless(stage: Stage, effect: Any, *, words: str = "", **declared: Any) -> Tool:
    """Begins and never ends by itself; says something before, if there are words."""

    async def work(idempotency_key: str = "") -> None:
        if words:
            emit(words)
            spend(tokens=7)
        stage.note(stage.begun, "work")
        await anyio.sleep_forever()

    return tool(effect=effect, name=f"{stage.name}.work", label="thing", **declared)(work)


def worker(stage: Stage, work: Tool) -> Agent:
    @agent(name=f"{stage.name}-clerk")
    async def clerk(run: Run) -> None:
        await run.step("Work", work)

    return clerk


ABORTED: dict[str, tuple[dict[str, Any], tuple[type[Event], ...]]] = {
    "a read": ({"effect": "read"}, END),
    "a read that has said something": (
        {"effect": "read", "words": "half a"},
        (e.UsageSpent, e.TextStreamed, e.WorkSaved, *END),
    ),
    "a model stream": (
        {"effect": "model", "words": "half a sentence"},
        (e.TextStreamed, e.AttemptSettled, e.WorkSaved, *END),
    ),
    "a write": ({"effect": "write"}, (e.AttemptSettled, e.WorkSaved, *END)),
    "an effect that is done once": ({"effect": "once"}, (e.AttemptSettled, e.WorkSaved, *END)),
}


@pytest.mark.parametrize("aborted", ABORTED)
async def test_what_was_aborted_comes_on_record_in_one_append_with_the_end(
    counting: Driving, aborted: str
) -> None:
    declared, last = ABORTED[aborted]
    stage = Stage(f"written-{aborted.replace(' ', '-')}")
    async with counting(worker(stage, endless(stage, **declared))) as (control, counted):
        run = await control.start(f"{stage.name}-clerk", "work")
        await stage.until_begun("work")
        counted.appends.clear()
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED

    assert [[type(event) for event in events] for events in counted.appends] == [[*last]]


@pytest.mark.parametrize("aborted", ABORTED)
async def test_a_cancel_with_nothing_to_undo_makes_two_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aborted: str
) -> None:
    commits, commit = [0], Transaction.commit

    def counted(transaction: Transaction) -> None:
        commits[0] += 1
        commit(transaction)

    stage = Stage(f"commits-{aborted.replace(' ', '-')}")
    clerk = worker(stage, endless(stage, **ABORTED[aborted][0]))
    async with (
        SqliteStore.open(tmp_path / "journals.db") as store,
        LocalEngine.open(store, [clerk], workdir=tmp_path / "work") as engine,
    ):
        control = Control(store, engine)
        run = await control.start(clerk, "work")
        await stage.until_begun("work")
        monkeypatch.setattr(Transaction, "commit", counted)
        await control.cancel(run)
        with anyio.fail_after(10):
            await control.ended(run)

    assert commits == [2]


async def test_the_thread_is_told_what_was_cut_though_that_is_not_on_record_yet(
    driving: Open,
) -> None:
    stage = Stage("written-cut")
    async with driving(worker(stage, endless(stage, "write", words="half a sentence"))) as control:
        run = await control.start(f"{stage.name}-clerk", "work")
        await stage.until_begun("work")
        await control.cancel(run)
        thread = (await control.ended(run)).thread
        (kept,) = [x.text for x in await control.transcript(thread) if x.said == "partial"]

    assert "Work: A person has cancelled the run and so stopped it after 0." in kept
    assert "Its output until then:\nhalf a sentence" in kept


async def test_what_failed_as_it_was_cancelled_is_not_told_as_cut(driving: Open) -> None:
    """The tool raised by itself, and nobody knows what it did."""
    stage = Stage("written-raised")

    async def work() -> None:
        stage.note(stage.begun, "work")
        await pressed.wait()
        raise OSError("the line is dead")

    pressed = anyio.Event()
    failing = tool(effect="once", name=f"{stage.name}.work", label="thing")(work)

    @agent(name=f"{stage.name}-clerk", mode="boundary")
    async def clerk(run: Run) -> None:
        await run.step("Work", failing)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("work")
        await control.cancel(run)
        pressed.set()
        ended = await control.ended(run)
        assert [(x.word, x.why) for x in (await control.receipt(run)).lines] == [
            ("unknown", "OSError: the line is dead")
        ]
        assert ended.saved == []


async def test_what_is_to_be_undone_is_on_record_before_the_undo_begins(counting: Driving) -> None:
    stage = Stage("written-undo")
    stage.gate("a")
    work = stage.writer(effect="write")

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        await run.step("Work", work, "a")

    async with counting(clerk) as (control, counted):
        run = await control.start(stage.name, "work")
        await stage.until_begun("a")
        counted.appends.clear()
        await control.cancel(run)
        await control.ended(run)

    kinds = [type(event) for events in counted.appends for event in events]
    assert kinds.index(e.AttemptSettled) < kinds.index(e.UndoStarted)
    assert stage.done == ["undone a"]


async def test_where_the_function_takes_its_time_the_outcome_is_on_record_meanwhile(
    driving: Open,
) -> None:
    stage, leaves = Stage("written-slowly"), anyio.Event()
    work = endless(stage, "write")

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        try:
            await run.step("Work", work)
        finally:
            await leaves.wait()

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("work")
        await control.cancel(run)
        state = await control.until(run, lambda state: not state.open)
        assert state.phase is Phase.CANCELLING
        leaves.set()
        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert len(await events_of(control, run, e.AttemptSettled)) == 1


async def test_a_kill_before_the_end_loses_nothing_that_is_known(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is not written any more, and what should have gone with it is told late."""
    monkeypatch.setattr(Kept, "look_soon", lambda _: None)  # the kill comes before that
    stage, leaves = Stage("written-killed"), anyio.Event()
    work = endless(stage, "write")

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        try:
            await run.step("Work", work)
        finally:
            stage.note(stage.done, "aborted")
            await leaves.wait()

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("work")
        await control.cancel(run)
        await stage.until_done("aborted")
        await control.kill("all", who=OPERATOR)
        leaves.set()
        state = await control.until(run, lambda state: not state.open)
        assert state.phase is Phase.KILLED
        assert [effect.outcome for effect in state.effects.values()] == [Outcome.UNKNOWN]
        assert [late.error for late in await events_of(control, run, e.LateOutcome)] == [
            "aborted: cancelled"
        ]


@pytest.mark.parametrize("unheard", [False, True], ids=["not written", "written, and unheard"])
@pytest.mark.parametrize("words", ["", "half a sentence"], ids=["silent", "speaking"])
async def test_a_crash_before_or_after_the_one_append_leads_to_the_same_end(
    living: Live, driving: Open, words: str, *, unheard: bool
) -> None:
    stage = Stage(f"written-crash-{len(words)}-{unheard}")
    clerk = worker(stage, endless(stage, "write", words=words))
    async with living(clerk) as lived:
        run = await lived.control.start(clerk, "work")
        await stage.until_begun("work")
        lived.cord.pull(after=1 if unheard else 0, unheard=unheard)
        await lived.control.cancel(run)
        with anyio.fail_after(10):
            await lived.cord.torn.wait()
    async with driving(clerk) as control:
        assert (await control.ended(run)).phase is Phase.CANCELLED
        lines = [(line.noun, line.word) for line in (await control.receipt(run)).lines]
        assert lines == [("thing", "unknown")]

    assert stage.begun == ["work"], "a cancel begins nothing"
