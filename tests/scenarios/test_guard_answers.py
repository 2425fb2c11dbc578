"""What a person may answer when the world has changed, and how a guard is noted."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from midflight.agents import agent
from midflight.guards import FileContent, SqlRow
from midflight.journal.phases import Cause, Phase
from midflight.run import Redirected, Run
from midflight.runtime.replay import staleness
from midflight.tools.declaration import tool
from scenarios.conftest import Open
from scenarios.hours import Hours
from scenarios.rests import (
    WAYS,
    asked,
    impatient,
    let_go,
    never_asked,
    relying_on,
    rested,
    times_asked,
)
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


# ── the answers ──────────────────────────────────────────────────────────────────────────────


async def test_go_on_accepts_what_was_asked_about_and_a_later_change_is_asked_again(
    driving: Open, crashing: Open, prices: Path
) -> None:
    stage = Stage("guard-again")
    clerk = relying_on(stage, lambda: FileContent(prices, "prices"))

    async with rested(
        "live", clerk, stage, (driving, crashing), lambda: prices.write_bytes(b"tea 4\n")
    ) as (control, run):
        question = await asked(control, run)
        await control.applied(await control.pause(run))
        await control.answer(run, question.position, "go on")
        held = await control.until(run, lambda state: Cause.STALE not in state.holds)
        assert (held.phase, held.holds) == (Phase.PAUSED, {Cause.USER})
        prices.write_bytes(b"tea 5\n")
        await control.resume(run)

        again = await asked(control, run, after=question.position)
        assert stage.done == []
        await control.answer(run, again.position, "go on")
        assert await control.result(run) == "made offer"


async def test_an_answer_given_while_nobody_drives_is_acted_on_by_the_next_one(
    driving: Open, crashing: Open, prices: Path
) -> None:
    stage = Stage("guard-nobody")
    clerk = impatient(relying_on(stage, lambda: FileContent(prices, "prices")))

    async with rested(
        "crashed", clerk, stage, (driving, crashing), lambda: prices.write_bytes(b"tea 4\n")
    ) as (control, run):
        question = await asked(control, run)
        await let_go(control, run)
    await control.answer(run, question.position, "go on")
    assert (await control.state(run)).phase is Phase.PAUSED

    async with driving(clerk) as control:
        assert await control.result(run) == "made offer"
        assert await times_asked(control, run) == 1


async def test_a_crash_right_after_the_answer_does_not_ask_again(
    driving: Open, crashing: Open, prices: Path
) -> None:
    stage = Stage("guard-answer-crash")
    clerk = relying_on(stage, lambda: FileContent(prices, "prices"))
    stage.gate("offer")

    async with crashing(clerk) as control:
        stage.gate("slow")
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.applied(await control.pause(run))
        prices.write_bytes(b"tea 4\n")
        await control.resume(run)
        question = await asked(control, run)
        await control.answer(run, question.position, "go on")
        await stage.until_begun("slow", times=2)
    stage.gate("slow").set()
    stage.gate("offer").set()
    async with driving(clerk) as control:
        assert await control.result(run) == "made offer"
        assert await times_asked(control, run) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_cancel_undoes_what_was_done(
    driving: Open, crashing: Open, prices: Path, way: str
) -> None:
    stage = Stage(f"guard-cancel-{way}")
    make, look = stage.writer(), stage.reader()

    @agent(name=f"cancel-{way}")
    async def clerk(run: Run) -> None:
        await run.step("Make", make, "draft")
        await run.guard(FileContent(prices, "prices"))
        await run.step("Read", look, "slow")

    async with rested(
        way, clerk, stage, (driving, crashing), lambda: prices.write_bytes(b"tea 4\n")
    ) as (control, run):
        question = await asked(control, run)
        await control.answer(run, question.position, "cancel")

        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert stage.done == ["draft", "undone draft"]
        assert [line.text for line in (await control.receipt(run)).lines] == ["thing: undone"]


@pytest.mark.parametrize("way", WAYS)
async def test_fork_begins_a_new_run_where_the_guard_was_noted_and_the_old_one_undoes_nothing(
    driving: Open, crashing: Open, prices: Path, way: str
) -> None:
    stage = Stage(f"guard-fork-{way}")
    make, look = stage.writer(), stage.reader()

    @tool(effect="read", name=f"guard-fork-{way}.read")
    def read(path: str) -> str:
        return Path(path).read_bytes().decode()

    @agent(name=f"fork-{way}")
    async def clerk(run: Run) -> str:
        await run.step("Make", make, "draft")
        await run.guard(FileContent(prices, "prices"))
        price = str(await run.step("Price", read, str(prices)))
        await run.step("Note", make, price)
        await run.step("Read", look, "slow")
        return price

    async with rested(
        way, clerk, stage, (driving, crashing), lambda: prices.write_bytes(b"tea 4\n")
    ) as (control, run):
        question = await asked(control, run)
        await control.answer(run, question.position, "fork")
        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert [line.text for line in (await control.receipt(run)).lines] == [
            "thing: kept (undo skipped)",
            "thing: kept (undo skipped)",
        ]
        (new,) = [row.journal for row in await control.runs() if row.journal != run]
        about = await asked(control, new)
        assert about.message == (
            "The run that this is a fork of went on and did: thing. Undo it or keep it?"
        )
        await control.answer(new, about.position, "undo")

        assert await control.result(new) == "tea 4\n"
        assert stage.done.count("draft") == 1, "what came before the guard is taken over"
        assert stage.done.count("undone tea 3\n") == 1
        assert (await control.receipt(new)).inherited == ("thing",)
        assert [line.text for line in (await control.receipt(run)).lines] == [
            "thing: undone",
            "thing: kept (undo skipped)",
        ]


async def test_resume_does_not_lift_what_only_an_answer_lifts(
    driving: Open, crashing: Open, prices: Path
) -> None:
    stage = Stage("guard-resume")
    clerk = relying_on(stage, lambda: FileContent(prices, "prices"))

    async with rested(
        "live", clerk, stage, (driving, crashing), lambda: prices.write_bytes(b"tea 4\n")
    ) as (control, run):
        question = await asked(control, run)
        await control.until(run, lambda state: state.phase is Phase.PAUSED)
        await control.pause(run)
        await control.resume(run)
        assert (await control.state(run)).holds == {Cause.STALE}
        await control.pause(run)
        await control.answer(run, question.position, "go on")
        await control.until(run, lambda state: state.holds == {Cause.USER})
        assert stage.done == []
        await control.resume(run)

        assert await control.result(run) == "made offer"


@pytest.mark.slow
async def test_a_function_that_goes_astray_because_a_file_has_changed_is_asked_about_the_file(
    driving: Open, crashing: Open, prices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.runtime.driver.REPLAY_S", 0.3)
    stage = Stage("guard-astray")
    look = stage.reader()

    @agent()
    async def clerk(run: Run) -> object:
        await run.guard(FileContent(prices, "prices"))
        await run.step("Price", look, prices.read_bytes().decode())  # outside a step: careless
        return await run.step("Read", look, "slow")

    async with rested(
        "crashed", clerk, stage, (driving, crashing), lambda: prices.write_bytes(b"tea 4\n")
    ) as (control, run):
        first = await asked(control, run)
        assert "prices has changed" in first.message
        await control.answer(run, first.position, "go on")
        second = await asked(control, run, after=first.position)
        assert "Step Price has other arguments than before" in second.message
        await control.answer(run, second.position, "go on")

        assert await control.result(run) == "SLOW"
        assert stage.done == ["tea 3\n", "tea 4\n", "slow"]


@pytest.mark.parametrize("caught", [False, True])
async def test_a_redirect_while_it_is_held_is_heard_after_the_answer(
    driving: Open, crashing: Open, prices: Path, caught: bool
) -> None:
    stage = Stage("guard-redirect")
    look = stage.reader()

    @agent()
    async def clerk(run: Run) -> object:
        await run.guard(FileContent(prices, "prices"))
        try:
            await run.step("Read", look, "slow")
        except Redirected:
            if not caught:
                raise
        return await run.step("Read again", look, run.brief)

    async with rested(
        "live", clerk, stage, (driving, crashing), lambda: prices.write_bytes(b"tea 4\n")
    ) as (control, run):
        question = await asked(control, run)
        await control.until(run, lambda state: state.phase is Phase.PAUSED)
        await control.redirect(run, "another way")
        await anyio.sleep(0.05)
        assert (await control.state(run)).phase is Phase.PAUSED
        await control.answer(run, question.position, "go on")

        assert await control.result(run) == "ANOTHER WAY"


# ── noting ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", WAYS)
async def test_a_guard_set_again_on_purpose_stands_for_what_comes_after_it(
    driving: Open, crashing: Open, prices: Path, way: str
) -> None:
    stage = Stage(f"guard-twice-{way}")
    make, look = stage.writer(relies_on=["prices"]), stage.reader()
    changes = [b"tea 4\n"]

    @agent(name=f"twice-{way}")
    async def clerk(run: Run) -> object:
        await run.guard(FileContent(prices, "prices"))
        await run.step("First", look, "a")
        if changes:
            prices.write_bytes(changes.pop())
        await run.guard(FileContent(prices, "prices"))
        await run.step("Read", look, "slow")
        return await run.step("Make", make, "offer")

    async with rested(way, clerk, stage, (driving, crashing), lambda: None) as (control, run):
        assert await control.result(run) == "made offer"
        assert await never_asked(control, run)


@pytest.mark.slow
async def test_a_second_look_does_not_hide_what_changed_while_the_run_rested(
    driving: Open, crashing: Open, prices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.runtime.driver.REPLAY_S", 0.3)
    stage = Stage("guard-second")
    look = stage.reader()

    @agent()
    async def clerk(run: Run) -> object:
        await run.guard(FileContent(prices, "prices"))
        price = await run.step("Price", look, prices.read_bytes().decode())
        await run.ask("Ready?")
        await run.guard(FileContent(prices, "prices"))
        return price

    async with driving(impatient(clerk)) as control:
        run = await control.start(clerk, "work")
        ready = await asked(control, run)
        await let_go(control, run)
        prices.write_bytes(b"tea 4\n")
        await control.answer(run, ready.position, "yes")
        question = await asked(control, run, after=ready.position)
        assert question.kind == "stale"


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("way", WAYS)
async def test_a_guard_outlives_a_snapshot(
    driving: Open, crashing: Open, prices: Path, way: str, changed: bool
) -> None:
    stage = Stage(f"guard-snapshot-{way}")
    look = stage.reader()

    @agent(name=f"snapshot-{way}")
    async def clerk(run: Run) -> object:
        await run.guard(FileContent(prices, "prices"))
        if run.restored is None:
            await run.step("First", look, "a")
            await run.snapshot({"a": True})
        return await run.step("Read", look, "slow")

    def meanwhile() -> None:
        if changed:
            prices.write_bytes(b"tea 4\n")

    async with rested(way, clerk, stage, (driving, crashing), meanwhile) as (control, run):
        if changed:
            question = await asked(control, run)
            await control.answer(run, question.position, "go on")
        assert await control.result(run) == "SLOW"
        assert await never_asked(control, run) is not changed
        assert stage.done.count("a") == 1


async def test_what_cannot_be_looked_at_in_the_first_place_is_told_to_the_function(
    driving: Open, tmp_path: Path
) -> None:
    @agent()
    async def clerk(run: Run) -> str:
        try:
            await run.guard(SqlRow("row", tmp_path / "none.db", "SELECT 1"))
        except sqlite3.OperationalError as error:
            return str(error)
        return "guarded"

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        assert await control.result(run) == "unable to open database file"
        assert (await control.state(run)).guards == {}


@pytest.mark.parametrize("changed", [False, True])
async def test_a_fork_relies_on_what_the_run_before_it_relied_on(
    driving: Open, prices: Path, changed: bool
) -> None:
    stage = Stage("guard-on-fork")
    look = stage.reader()

    @agent()
    async def clerk(run: Run) -> list[str]:
        await run.guard(FileContent(prices, "prices"))
        price = str(await run.step("Price", look, "a"))
        return [price, str(await run.step("Read", look, "b"))]

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        if changed:
            prices.write_bytes(b"tea 4\n")
        new = await control.fork(run, "Read")
        if changed:
            question = await asked(control, new)
            assert "prices has changed" in question.message
            assert stage.done == ["a", "b"]
            await control.answer(new, question.position, "go on")
        assert await control.result(new) == ["A", "B"]
        assert await never_asked(control, new) is not changed
        assert stage.done == ["a", "b", "b"]


async def goes_on_unasked(
    driving: Open, crashing: Open, prices: Path, linger: Callable[[bool], Awaitable[None]]
) -> None:
    """A function names its guard beside a step, after a while; it crashes, and goes on."""
    stage = Stage("guard-beside")
    look = stage.reader()
    guarded = anyio.Event()

    @agent()
    async def clerk(run: Run) -> None:
        async def beside() -> None:
            await linger(guarded.is_set())
            await run.guard(FileContent(prices, "prices"))
            guarded.set()

        async with anyio.create_task_group() as both:
            both.start_soon(beside)
            both.start_soon(run.step, "Read", look, "slow")

    stage.gate("slow")
    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await guarded.wait()
    stage.gate("slow").set()
    async with driving(clerk) as control:
        assert (await control.ended(run)).phase is Phase.DONE
        assert await never_asked(control, run)


@pytest.mark.slow
async def test_a_branch_may_take_a_moment_to_name_its_guard_again(
    driving: Open, crashing: Open, prices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staleness, "NAMED_S", 10.0)

    async def linger(_again: bool) -> None:
        await anyio.sleep(0.1)

    await goes_on_unasked(driving, crashing, prices, linger)


async def test_a_worker_that_was_busy_gives_its_function_the_time_to_name_its_guard_again(
    driving: Open, crashing: Open, hours: Hours, prices: Path
) -> None:
    """Otherwise a person would be asked about a world that is as it was."""

    async def linger(again: bool) -> None:
        await anyio.sleep(0.01)
        if again:
            hours.skip(60)  # nothing else has moved meanwhile
        await anyio.sleep(0.01)

    await goes_on_unasked(driving, crashing, prices, linger)
