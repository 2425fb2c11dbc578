"""What a run relies on outside itself: noticed when it has changed, and asked about."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from midflight.agents import agent
from midflight.errors import StepFailed
from midflight.guards import Age, FileContent, Fingerprint, SqlRow
from midflight.journal.phases import Cause, Phase
from midflight.run import Run
from midflight.runtime.replay import staleness
from scenarios.conftest import Open
from scenarios.hours import Hours
from scenarios.rests import (
    WAYS,
    asked,
    held_back,
    impatient,
    let_go,
    never_asked,
    relying_on,
    rested,
    times_asked,
)
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


# ── coming back ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", WAYS)
async def test_what_has_changed_while_the_run_rested_is_asked_about_and_go_on_accepts_it(
    driving: Open, crashing: Open, prices: Path, way: str
) -> None:
    stage = Stage(f"guard-{way}")
    clerk = relying_on(stage, lambda: FileContent(prices, "prices"))

    async with rested(
        way, clerk, stage, (driving, crashing), lambda: prices.write_bytes(b"tea 4\n")
    ) as (control, run):
        question = await asked(control, run)
        assert question.message == "What this run relies on has changed: prices has changed. Go on?"
        held = await control.until(run, lambda state: state.phase is Phase.PAUSED)
        assert (held.holds, stage.done) == ({Cause.STALE}, [])
        await control.answer(run, question.position, "go on")

        assert await control.result(run) == "made offer"
        assert stage.done == ["slow", "offer"]


async def test_what_others_change_once_a_run_is_paused_is_never_taken_for_its_own(
    driving: Open,
) -> None:
    stage, world = Stage("guard-late"), ["as it was"]
    make, looks, seen = stage.writer(), stage.gate("look"), [anyio.Event() for _ in range(3)]

    async def look() -> str:
        number = sum(event.is_set() for event in seen)
        if number < len(seen):
            seen[number].set()
        if number == 2:  # noted, before the effect, and now after it: did the effect change it?
            await looks.wait()
        return world[0]

    @agent(name="guard-late")
    async def clerk(run: Run) -> object:
        await run.guard(Fingerprint("prices", look))
        await run.step("Make", make, "offer")
        return await run.step("Make", make, "another")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await seen[2].wait()
        await control.pause(run)
        await anyio.sleep(0.05)
        assert (await control.state(run)).phase is Phase.PAUSING
        looks.set()
        await control.until(run, lambda state: state.phase is Phase.PAUSED)
        world[0] = "as others have made it"
        await control.resume(run)

        assert "prices has changed" in (await asked(control, run)).message
        assert stage.done == ["offer"]
        await control.cancel(run)
        await control.ended(run)


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_as_it_was_is_not_asked_about(
    driving: Open, crashing: Open, prices: Path, way: str
) -> None:
    stage = Stage(f"guard-same-{way}")
    clerk = relying_on(stage, lambda: FileContent(prices), relies_on=[str(prices)])

    async with rested(way, clerk, stage, (driving, crashing), prices.touch) as (control, run):
        assert await control.result(run) == "made offer"
        assert await never_asked(control, run)


def gone(path: Path) -> None:
    path.unlink()


def unreadable(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("there", "happens", "words"),
    [
        (True, gone, "is gone"),
        (False, lambda path: path.write_bytes(b"tea 3\n"), "is there now"),
        (True, unreadable, "cannot be checked (IsADirectoryError: "),
    ],
)
async def test_a_file_is_told_in_words_what_became_of_it(
    driving: Open,
    crashing: Open,
    prices: Path,
    there: bool,
    happens: Callable[[Path], None],
    words: str,
) -> None:
    stage = Stage("guard-file")
    clerk = relying_on(stage, lambda: FileContent(prices, "prices"), relies_on=["prices"])
    if not there:
        prices.unlink()

    async with rested("live", clerk, stage, (driving, crashing), lambda: happens(prices)) as (
        control,
        run,
    ):
        question = await asked(control, run)
        assert question.message.startswith(f"What this run relies on has changed: prices {words}")
        await control.answer(run, question.position, "go on")

        assert await control.result(run) == "made offer"
        assert await times_asked(control, run) == 1


async def test_a_row_of_a_database_is_looked_at_in_a_file_or_through_any_connection(
    driving: Open, crashing: Open, tmp_path: Path
) -> None:
    path = tmp_path / "shop.db"

    def write(*sql: str) -> None:
        with sqlite3.connect(path) as connection:
            for statement in sql:
                connection.execute(statement)
        connection.close()

    write("CREATE TABLE price (what TEXT, euro INT)", "INSERT INTO price VALUES ('tea', 3)")
    query = "SELECT euro FROM price WHERE what = ?"
    for name, database in (("file", path), ("factory", lambda: sqlite3.connect(path))):
        stage = Stage(f"guard-sql-{name}")
        clerk = relying_on(stage, lambda: SqlRow("price of tea", database, query, ("tea",)))  # noqa: B023
        async with rested(
            "live",
            clerk,
            stage,
            (driving, crashing),
            lambda: write("UPDATE price SET euro = euro + 1", "INSERT INTO price VALUES ('x', 9)"),
        ) as (control, run):
            question = await asked(control, run)
            assert "price of tea has changed" in question.message
            await control.answer(run, question.position, "go on")
            assert await control.result(run) == "made offer"

        stage = Stage(f"guard-sql-{name}-same")
        clerk = relying_on(stage, lambda: SqlRow("price of tea", database, query, ("tea",)))  # noqa: B023
        async with rested(
            "live",
            clerk,
            stage,
            (driving, crashing),
            lambda: write("UPDATE price SET euro = 0 WHERE what = 'x'"),
        ) as (control, run):
            assert await control.result(run) == "made offer"
            assert await never_asked(control, run)


@pytest.mark.parametrize("kind", ["sync", "async", "lambda of async"])
async def test_a_fingerprint_is_whatever_a_function_says(
    driving: Open, crashing: Open, kind: str
) -> None:
    version = ["v1"]

    async def ask() -> dict[str, object]:
        return {"version": version[0], "parts": {1, 2}}

    functions: dict[str, Callable[[], Any]] = {
        "sync": lambda: version[0],
        "async": ask,
        "lambda of async": lambda: ask(),
    }
    for now in ("v1", "v2"):
        stage = Stage(f"guard-call-{now}")
        clerk = relying_on(stage, lambda: Fingerprint("deploy", functions[kind]))
        version[0] = "v1"
        async with rested(
            "live",
            clerk,
            stage,
            (driving, crashing),
            lambda: version.__setitem__(0, now),  # noqa: B023
        ) as (control, run):
            if now == "v2":
                question = await asked(control, run)
                assert "deploy has changed" in question.message
                await control.answer(run, question.position, "go on")
            assert await control.result(run) == "made offer"


@pytest.mark.slow
async def test_what_is_known_may_be_used_for_so_long_and_go_on_counts_from_the_answer(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("guard-age")
    clerk = relying_on(
        stage, lambda: Age(0.3, "the exchange rate"), relies_on=["the exchange rate"]
    )

    async with rested("live", clerk, stage, (driving, crashing), lambda: time.sleep(0.35)) as (
        control,
        run,
    ):
        question = await asked(control, run)
        assert re.fullmatch(
            r"What this run relies on has changed: "
            r"the exchange rate is \d+\.\d s old, more than 0\.3 s\. Go on\?",
            question.message,
        )
        await anyio.sleep(0.35)
        await control.answer(run, question.position, "go on")

        assert await control.result(run) == "made offer"
        assert await times_asked(control, run) == 1


@pytest.mark.slow
async def test_a_guard_that_the_function_does_not_name_any_more_counts_as_changed(
    driving: Open, crashing: Open, prices: Path
) -> None:
    stage = Stage("guard-unnamed")
    guards = [FileContent(prices, "prices")]
    make, look = stage.writer(relies_on=["prices"]), stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> object:
        for guard in guards:
            await run.guard(guard)
        await run.step("Read", look, "slow")
        return await run.step("Make", make, "offer")

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
    guards.clear()
    stage.gate("slow").set()
    async with driving(clerk) as control:
        question = await asked(control, run)
        assert "prices cannot be checked here" in question.message
        await control.answer(run, question.position, "go on")

        assert await control.result(run) == "made offer"


@pytest.mark.slow
async def test_a_look_that_takes_too_long_counts_as_changed_and_holds_no_cancel_up(
    driving: Open, crashing: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage("guard-slow")
    slow: list[float] = []

    async def look() -> str:
        await anyio.sleep(slow[0] if slow else 0)
        return "same"

    monkeypatch.setattr(staleness, "LOOK_S", 60.0)
    clerk = relying_on(stage, lambda: Fingerprint("the crm", look), relies_on=["the crm"])
    async with rested("live", clerk, stage, (driving, crashing), lambda: slow.append(3600)) as (
        control,
        run,
    ):
        await anyio.sleep(0.1)
        with anyio.fail_after(20):
            await control.cancel(run)
            assert (await control.ended(run)).phase is Phase.CANCELLED

    monkeypatch.setattr(staleness, "LOOK_S", 0.05)
    slow.clear()
    stage = Stage("guard-slow-too")
    clerk = relying_on(stage, lambda: Fingerprint("the crm", look), relies_on=["the crm"])
    async with rested("live", clerk, stage, (driving, crashing), lambda: slow.append(3600)) as (
        control,
        run,
    ):
        question = await asked(control, run)
        assert "the crm cannot be checked (nothing seen within 0.05 s)" in question.message
        await control.answer(run, question.position, "go on")
        assert await control.result(run) == "made offer"


async def test_all_that_has_changed_is_named_in_one_question(
    driving: Open, crashing: Open, prices: Path, tmp_path: Path
) -> None:
    stage = Stage("guard-several")
    look, names = stage.reader(), ("a", "b", "c")
    for name in names:
        (tmp_path / name).write_bytes(b"1")

    @agent()
    async def clerk(run: Run) -> object:
        for name in names:
            await run.guard(FileContent(tmp_path / name, name))
        return await run.step("Read", look, "slow")

    def change() -> None:
        (tmp_path / "a").write_bytes(b"2")
        (tmp_path / "c").unlink()

    async with rested("live", clerk, stage, (driving, crashing), change) as (control, run):
        question = await asked(control, run)
        assert question.message == (
            "What this run relies on has changed: a has changed; c is gone. Go on?"
        )
        await control.answer(run, question.position, "go on")
        assert await control.result(run) == "SLOW"


async def test_a_read_that_is_repeated_for_its_age_does_not_hide_the_guards_named_after_it(
    driving: Open, crashing: Open, prices: Path
) -> None:
    stage = Stage("guard-fresh")
    slow, look = stage.reader(), Stage("guard-fresh-read").reader()
    look = msgspec.structs.replace(look, max_age=0.0)

    @agent()
    async def clerk(run: Run) -> object:
        await run.step("Rates", look, "rates")
        await anyio.sleep(0.05)
        await run.guard(FileContent(prices, "prices"))
        return await run.step("Read", slow, "slow")

    async with rested("crashed", clerk, stage, (driving, crashing), lambda: None) as (control, run):
        assert await control.result(run) == "SLOW"
        assert await never_asked(control, run)


@pytest.mark.parametrize("first", ["say", "inbox", "snapshot", "spawn", "guard", "plan"])
async def test_whatever_a_run_does_first_when_it_comes_back_the_world_is_looked_at_before_it(
    driving: Open, crashing: Open, prices: Path, first: str
) -> None:
    stage = Stage(f"guard-first-{first}")
    look = stage.reader()

    @agent(name=f"helper-{first}")
    async def helper(run: Run) -> str:
        return "helped"

    @agent(name=f"first-{first}")
    async def clerk(run: Run) -> object:
        await run.guard(FileContent(prices, "prices"))
        await run.step("Read", look, "a")
        answer = await run.ask("Ready?")
        match first:
            case "say":
                await run.say("Here I am")
            case "inbox":
                assert [message.text for message in await run.inbox()] == ["hello"]
            case "snapshot":
                await run.snapshot({"read": True})
            case "spawn":
                assert await (await run.spawn(helper, "help")).result() == "helped"
            case "guard":
                await run.guard(FileContent(prices, "prices"))
            case _:
                await run.plan("Finish")
        return answer.payload

    async with driving(impatient(clerk), helper) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        await let_go(control, run)
        await control.send(run, "hello")
        prices.write_bytes(b"tea 4\n")
        await control.answer(run, question.position, "yes")
        stale = await asked(control, run, after=question.position)
        assert "prices has changed" in stale.message
        await control.answer(run, stale.position, "go on")

        assert await control.result(run) == "yes"


# ── just before an effect ────────────────────────────────────────────────────────────────────


async def test_an_effect_that_relies_on_a_guard_looks_at_it_just_before_it_begins(
    driving: Open, prices: Path
) -> None:
    stage = Stage("guard-before")
    make = stage.writer(relies_on=["prices"])
    careless = Stage("guard-careless").writer()

    @agent()
    async def clerk(run: Run) -> list[object]:
        await run.guard(FileContent(prices, "prices"))
        prices.write_bytes(b"tea 4\n")
        first = await run.step("Note", careless, "note")
        return [first, await run.step("Make", make, "offer")]

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        assert "prices has changed" in question.message
        assert [effect.name for effect in (await control.state(run)).effects.values()] == ["Note"]
        await control.answer(run, question.position, "go on")

        assert await control.result(run) == ["made note", "made offer"]


@pytest.mark.slow
async def test_what_changes_while_an_effect_waits_for_approval_or_in_its_window_is_noticed(
    driving: Open, hours: Hours, prices: Path
) -> None:
    stage = Stage("guard-window")
    make = stage.writer(relies_on=["prices"], undo_window=10.0)

    @agent()
    async def clerk(run: Run) -> object:
        await run.guard(FileContent(prices, "prices"))
        return await run.step("Make", make, "offer")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        until = await held_back(control, run)
        prices.write_bytes(b"tea 4\n")
        hours.skip_to(until)
        question = await asked(control, run)
        assert stage.begun == []
        await control.answer(run, question.position, "go on")
        hours.skip_to(await held_back(control, run, after=until))

        assert await control.result(run) == "made offer"


async def test_a_tool_that_relies_on_what_was_never_guarded_fails_with_a_clear_word(
    driving: Open,
) -> None:
    stage = Stage("guard-never")
    make = stage.writer(relies_on=["prices", "rates"])

    @agent()
    async def clerk(run: Run) -> str:
        await run.guard(Fingerprint("rates", lambda: 1))
        try:
            await run.step("Make", make, "offer")
        except StepFailed as failed:
            return failed.error
        return "made"

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        assert await control.result(run) == (
            "relies on prices, never guarded: call run.guard before this step"
        )
        assert stage.begun == []


async def test_a_read_may_rely_on_a_guard_too(driving: Open, prices: Path) -> None:
    stage = Stage("guard-read")
    make = stage.writer(effect="read", undo=None, relies_on=["prices"])

    @agent()
    async def clerk(run: Run) -> object:
        await run.guard(FileContent(prices, "prices"))
        prices.write_bytes(b"tea 4\n")
        return await run.step("Look", make, "offer")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        assert stage.begun == []
        await control.answer(run, question.position, "go on")
        assert await control.result(run) == "made offer"


async def test_a_change_is_noticed_while_another_branch_waits_for_a_person(
    driving: Open, prices: Path
) -> None:
    stage = Stage("guard-beside")
    make = stage.writer(relies_on=["prices"])
    found: list[object] = []

    @agent()
    async def clerk(run: Run) -> None:
        async def ask() -> None:
            found.append((await run.ask("Blue or red?")).payload)

        async def work() -> None:
            await waiting.wait()
            found.append(await run.step("Make", make, "offer"))

        await run.guard(FileContent(prices, "prices"))
        async with anyio.create_task_group() as both:
            both.start_soon(ask)
            both.start_soon(work)

    waiting = anyio.Event()
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        colour = await asked(control, run)
        await control.until(run, lambda state: state.phase is Phase.WAITING)
        prices.write_bytes(b"tea 4\n")
        waiting.set()
        stale = await asked(control, run, after=colour.position)
        assert "prices has changed" in stale.message
        await control.answer(run, stale.position, "go on")
        await stage.until_begun("offer")
        await control.answer(run, colour.position, "blue")
        await control.result(run)

        assert sorted(map(str, found)) == ["blue", "made offer"]


# ── what the run does itself ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("way", WAYS)
async def test_our_own_effect_may_change_it_and_others_may_not(
    driving: Open, crashing: Open, prices: Path, way: str, others: bool
) -> None:
    stage = Stage(f"guard-own-{way}")
    make, look = stage.writer(relies_on=["prices"]), stage.reader()
    write = Stage(f"guard-own-write-{way}").writer()

    async def raise_prices(what: str, idempotency_key: str = "") -> str:
        prices.write_bytes(what.encode())
        return what

    raising = msgspec.structs.replace(write, function=raise_prices)

    @agent(name=f"own-{way}")
    async def clerk(run: Run) -> object:
        await run.guard(FileContent(prices, "prices"))
        await run.step("Raise", raising, "tea 5\n")
        await run.step("Read", look, "slow")
        return await run.step("Make", make, "offer")

    def meanwhile() -> None:
        assert prices.read_bytes() == b"tea 5\n"
        if others:
            prices.write_bytes(b"tea 6\n")

    async with rested(way, clerk, stage, (driving, crashing), meanwhile) as (control, run):
        if others:
            question = await asked(control, run)
            await control.answer(run, question.position, "go on")
        assert await control.result(run) == "made offer"
        assert await never_asked(control, run) is not others


@pytest.mark.slow
async def test_nothing_that_a_run_does_makes_its_knowledge_younger(driving: Open) -> None:
    stage = Stage("guard-age-effect")
    make = stage.writer(relies_on=["rates"])
    long_one = Stage("guard-age-long")
    slow = long_one.writer()
    long_one.gate("slow")

    @agent()
    async def clerk(run: Run) -> object:
        await run.guard(Age(0.2, "rates"))
        await run.step("Take long", slow, "slow")
        return await run.step("Make", make, "offer")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await long_one.until_begun("slow")
        await anyio.sleep(0.25)
        long_one.gate("slow").set()
        question = await asked(control, run)
        assert (question.kind, stage.begun) == ("stale", [])
        await control.answer(run, question.position, "go on")
        assert await control.result(run) == "made offer"


async def test_a_guard_that_our_own_effect_made_unreadable_is_asked_about_when_it_matters(
    driving: Open, prices: Path
) -> None:
    stage = Stage("guard-own-gone")
    make = stage.writer(relies_on=["prices"])
    base = Stage("guard-own-gone-write").writer()

    async def replace(what: str, idempotency_key: str = "") -> str:
        unreadable(prices)
        return what

    replacing = msgspec.structs.replace(base, function=replace)

    @agent()
    async def clerk(run: Run) -> list[object]:
        await run.guard(FileContent(prices, "prices"))
        first = await run.step("Replace", replacing, "done")
        return [first, await run.step("Make", make, "offer")]

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        assert "prices cannot be checked" in question.message
        await control.answer(run, question.position, "go on")
        assert await control.result(run) == ["done", "made offer"]
