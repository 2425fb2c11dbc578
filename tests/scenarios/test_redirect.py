"""Redirect: a function that does not catch it is entered again, with the new brief."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import InvalidRequest, StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.run import Redirected, Run, Step
from midflight.tools.declaration import tool
from scenarios.conftest import Live, Open
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio

ledger: list[str] = []


async def write_down(what: str) -> str:
    ledger.append(what)
    return f"written {what}"


async def of_kind(control: Control, run: str, kind: type[Any]) -> list[Any]:
    records = await control.store.read(run)
    return [record.event for record in records if isinstance(record.event, kind)]


async def keys_of(control: Control, run: str) -> list[str]:
    return [begun.idempotency_key for begun in await of_kind(control, run, e.AttemptStarted)]


# ── what is reused ───────────────────────────────────────────────────────────────────────────


async def test_a_function_of_a_module_called_with_plain_data_is_not_called_again(
    driving: Open,
) -> None:
    stage, ledger[:] = Stage("reuse-module"), []
    stage.gate("a")

    @agent()
    async def clerk(run: Run) -> list[object]:
        return [
            await run.step("Note", write_down, "list"),
            await run.step("Read", stage.reader(), run.brief),
        ]

    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("a")
        await control.redirect(run, "b")

        assert await control.result(run) == ["written list", "B"]
        assert ledger == ["list"]
        (line,) = (await control.receipt(run)).lines
        assert line.text == "Note list: kept (no undo)", (
            "it was asked for again: not of an earlier brief"
        )


@pytest.mark.parametrize("key", ["", "one"])
async def test_a_closure_is_called_again_under_another_key_unless_its_step_has_one(
    driving: Open, key: str
) -> None:
    stage, made = Stage("reuse-closure"), list[str]()
    stage.gate("a")

    @agent()
    async def clerk(run: Run) -> object:
        brief = run.brief

        async def remember() -> str:
            made.append(brief)
            return brief

        done = await run.step(Step("Remember", key=key), remember)
        await run.step("Read", stage.reader(), run.brief)
        return done

    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("a")
        await control.redirect(run, "b")
        if not key:
            question = await the_question(control, run)
            await control.answer(run, question, "repeat")

        assert await control.result(run) == ("a" if key else "b")
        assert made == (["a"] if key else ["a", "b"])
        keys = await keys_of(control, run)
        assert len(set(keys)) == len(keys) == len(made)


async def test_a_lambda_is_done_anew(driving: Open) -> None:
    stage, made = Stage("reuse-lambda"), list[str]()
    stage.gate("a")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Remember", lambda: made.append("x"))
        await run.step("Read", stage.reader(), run.brief)

    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("a")
        await control.redirect(run, "b")
        await control.answer(run, await the_question(control, run), "repeat")

        assert (await control.ended(run)).phase is Phase.DONE
        assert made == ["x", "x"]


async def the_question(control: Control, run: str) -> int:
    with anyio.fail_after(5):
        state = await control.until(run, lambda state: bool(state.questions))
    return next(iter(state.questions))


async def test_a_failure_is_on_record_like_a_result(driving: Open) -> None:
    stage, tries = Stage("reuse-failure"), list[str]()
    stage.gate("a")

    @tool(effect="read", name="reuse.fails")
    async def fail() -> None:
        tries.append("try")
        raise ValueError("no such table")

    @agent()
    async def clerk(run: Run) -> object:
        with pytest.raises(StepFailed, match="no such table"):
            await run.step("Look", fail)
        return await run.step("Read", stage.reader(), run.brief)

    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("a")
        await control.redirect(run, "b")

        assert await control.result(run) == "B"
        assert tries == ["try"]


# ── what the function sees ───────────────────────────────────────────────────────────────────


async def test_the_brief_changes_only_where_redirected_is_raised(driving: Open) -> None:
    stage, seen = Stage("brief"), list[str]()
    told = anyio.Event()

    @agent()
    async def clerk(run: Run) -> None:
        if run.brief == "b":
            return
        stage.note(stage.begun, "thinking")
        await told.wait()
        seen.append(run.brief)
        with pytest.raises(Redirected):
            await run.step("Read", stage.reader(), "x")
        seen.append(run.brief)

    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("thinking")
        await control.applied(await control.redirect(run, "b"))
        told.set()
        await control.ended(run)

    assert (seen, stage.begun) == (["a", "b"], ["thinking"])


async def test_the_brief_cannot_be_read_inside_a_step(driving: Open) -> None:
    said: list[str] = []

    @agent()
    async def clerk(run: Run) -> object:
        @tool(effect="read", name="brief.inside")
        async def look() -> str:
            with pytest.raises(InvalidRequest) as refused:
                return run.brief
            said.append(str(refused.value))
            return "refused"

        return await run.step("Look", look)

    async with driving(clerk) as control:
        assert await control.result(await control.start(clerk, "a")) == "refused"
    assert said == [
        "run.brief cannot be used inside a step: use it outside, and pass the value to the step as "
        "an argument."
    ]


async def test_an_effect_in_flight_finishes_first_and_its_result_is_kept(driving: Open) -> None:
    stage = Stage("effect-in-flight")
    make = stage.writer()
    stage.gate("list")

    @agent()
    async def clerk(run: Run) -> list[object]:
        return [run.brief, await run.step("Make", make, "list")]

    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("list")
        accepted = await control.redirect(run, "b")
        await anyio.sleep(0.05)
        assert (await control.state(run)).deliveries[accepted.position].status == "accepted"
        stage.gate("list").set()

        assert await control.result(run) == ["b", "made list"]
        assert (stage.begun, stage.done) == (["list"], ["list"])


# ── steps in parallel ────────────────────────────────────────────────────────────────────────


async def test_all_calls_that_wait_are_told_at_once_after_the_last_effect_has_settled(
    driving: Open,
) -> None:
    stage, told = Stage("parallel"), list[str]()
    look, make = stage.reader(), stage.writer()
    for what in ("a", "b", "invoice"):
        stage.gate(what)

    @agent()
    async def clerk(run: Run) -> object:
        async def read(what: str) -> object:
            try:
                return await run.step(f"Read {what}", look, what)
            except Redirected as redirected:
                told.append(what)
                stage.gate(what).set()
                return [redirected.brief, await run.step(f"Read {what}", look, what)]

        return await gathered(read("a"), read("b"), run.step("Make", make, "invoice"))

    async with driving(clerk) as control:
        run = await control.start(clerk, "first")
        for what in ("a", "b", "invoice"):
            await stage.until_begun(what)
        accepted = await control.redirect(run, "second")
        await anyio.sleep(0.05)
        assert told == [], "an effect is in flight"
        stage.gate("invoice").set()

        assert await control.result(run) == [["second", "A"], ["second", "B"], "made invoice"]
        assert sorted(told) == ["a", "b"]
        (delivered,) = await of_kind(control, run, e.RedirectDelivered)
        assert delivered.upto >= accepted.position
        assert [call.partition(":")[0] for call in delivered.calls] == ["Read a", "Read b"]
        steps = [settled.step for settled in await of_kind(control, run, e.StepSettled)]
        assert sorted(steps) == sorted(delivered.calls), "none has used up its turn"


async def gathered(*coroutines: Any) -> list[object]:
    """As many agents do it, and as we may not."""
    return list(await asyncio.gather(*coroutines))  # noqa: TID251


async def test_a_group_that_nobody_unwraps_is_entered_again(driving: Open) -> None:
    stage = Stage("parallel-group")
    look = stage.reader()
    for what in ("a1", "a2"):
        stage.gate(what)

    @agent()
    async def clerk(run: Run) -> list[str]:
        found: list[str] = []

        async def read(what: str) -> None:
            found.append(await run.step("Read", look, what))

        async with anyio.create_task_group() as group:
            group.start_soon(read, f"{run.brief}1")
            group.start_soon(read, f"{run.brief}2")
        return sorted(found)

    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("a1")
        await stage.until_begun("a2")
        await control.redirect(run, "b")

        assert await control.result(run) == ["B1", "B2"]


# ── where the run may be ─────────────────────────────────────────────────────────────────────


def impatient(declared: Agent) -> Agent:
    """Its function is let go as soon as it rests."""
    return replace(declared, evict_after=0.0)


async def test_a_queued_run_begins_with_the_new_brief(driving: Open, crashing: Open) -> None:
    @agent()
    async def clerk(run: Run) -> str:
        return run.brief

    async with crashing() as nobody:
        run = await nobody.start(clerk, "a")
        accepted = await nobody.redirect(run, "b")
    async with driving(clerk) as control:
        assert await control.result(run) == "b"
        assert (await control.applied(accepted)).status == "applied"


async def test_a_paused_and_evicted_run_is_told_where_it_was(driving: Open) -> None:
    stage, calls = Stage("evicted"), list[str]()
    make, look = stage.writer(), stage.reader()
    stage.gate("a")

    @agent()
    async def clerk(run: Run) -> object:
        calls.append(run.brief)
        await run.step("Make", make, "list")
        try:
            return await run.step("Read", look, "a")
        except Redirected as redirected:
            return f"told {redirected.brief} instead of {calls[-1]}"

    async with driving(impatient(clerk)) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("a")
        await control.pause(run)
        await control.until(run, lambda state: not state.driver)
        await control.redirect(run, "b")
        await anyio.sleep(0.1)
        assert (await control.state(run)).phase is Phase.PAUSED
        await control.resume(run)

        assert await control.result(run) == "told b instead of a"
        assert (stage.done, calls) == (["list"], ["a", "a"])


async def test_a_waiting_run_withdraws_its_question_and_asks_again_if_it_wants(
    driving: Open,
) -> None:
    @agent()
    async def clerk(run: Run) -> list[object]:
        return [run.brief, (await run.ask("Which year?")).payload]

    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        first = await the_question(control, run)
        await control.until(run, lambda state: state.phase is Phase.WAITING)
        await control.redirect(run, "b")
        state = await control.until(run, lambda state: bool(state.questions) and state.brief == "b")
        (second,) = state.questions
        assert second > first
        with pytest.raises(InvalidRequest, match="not open"):
            await control.answer(run, first, 2024)
        await control.answer(run, second, 2025)

        assert await control.result(run) == ["b", 2025]


async def test_a_question_beside_work_in_flight_is_withdrawn_too(driving: Open) -> None:
    stage = Stage("ask-beside")
    stage.gate("a")

    @agent()
    async def clerk(run: Run) -> object:
        if run.brief == "b":
            return "no question"
        return await gathered(run.ask("Which year?"), run.step("Read", stage.reader(), "a"))

    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("a")
        await the_question(control, run)
        await control.redirect(run, "b")

        assert await control.result(run) == "no question"
        closed = await of_kind(control, run, e.QuestionClosed)
        assert [event.why for event in closed] == ["withdrawn: redirected"]


async def test_of_two_redirects_the_last_is_told_and_the_first_superseded(driving: Open) -> None:
    stage, calls = Stage("two"), list[str]()
    make = stage.writer()
    stage.gate("list")

    @agent()
    async def clerk(run: Run) -> str:
        calls.append(run.brief)
        await run.step("Make", make, "list")
        return run.brief

    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("list")
        first = await control.redirect(run, "b")
        second = await control.redirect(run, "c")
        stage.gate("list").set()

        assert await control.result(run) == "c"
        assert (await control.applied(first)).status == "superseded"
        assert (await control.applied(second)).status == "applied"
        assert calls == ["a", "c"]


# ── and the process dies ─────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def redirected_twice(control: Control, stage: Stage, run: str) -> AsyncIterator[None]:
    await stage.until_begun("a")
    await control.applied(await control.redirect(run, "b", key="first"))
    await stage.until_begun("b")
    yield
    await control.redirect(run, "c", key="second")


@pytest.mark.parametrize("unheard", [False, True])
async def test_redirect_crash_redirect_at_every_append(
    driving: Open, living: Live, unheard: bool
) -> None:
    for after in range(100):
        stage = Stage("redirect-crash")
        make, look = stage.checked(), stage.reader()
        stage.gate("a")
        stage.gate("b")

        @agent()
        async def clerk(run: Run) -> list[object]:
            one = await run.step("Make", make, "list")  # noqa: B023
            two = await run.step("Read", look, run.brief)  # noqa: B023
            return [one, two, await run.step("Note", make, "end")]  # noqa: B023

        async with living(clerk) as life:
            run = await life.control.start(clerk, "a")
            async with redirected_twice(life.control, stage, run):
                life.cord.pull(after, unheard=unheard)
            died = await life.is_cut_short(run)
        async with driving(clerk) as control:
            with anyio.fail_after(5):
                assert await control.result(run) == ["made list", "C", "made end"]
            lines = (await control.receipt(run)).lines
            assert [line.earlier for line in lines if line.word == "kept"] == [False, False]
        assert [what for what in stage.done if what != "c"] == ["list", "end"]
        if not died:
            return
    raise AssertionError("it never outlived the story")


async def test_a_redirect_sent_while_nobody_drives_is_told_after_the_crash(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("redirect-dead")
    make, look = stage.writer(), stage.reader()
    stage.gate("a")

    @agent()
    async def clerk(run: Run) -> object:
        await run.step("Make", make, "list")
        return await run.step("Read", look, run.brief)

    async with crashing(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("a")
    async with crashing() as nobody:
        await nobody.redirect(run, "b")
    async with driving(clerk) as control:
        assert await control.result(run) == "B"
    assert stage.begun == ["list", "a", "b"]


# ── effects of the earlier brief ─────────────────────────────────────────────────────────────


async def test_what_is_not_asked_for_again_is_shown_as_of_the_earlier_brief_and_undone_too(
    driving: Open,
) -> None:
    stage = Stage("earlier")
    make, look = stage.writer(), stage.reader()
    stage.gate("end")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make common", make, "common")
        await run.step(f"Make {run.brief}", make, run.brief)
        await run.step("Read", look, "end")

    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("end")
        await control.redirect(run, "b")
        await stage.until_begun("end", times=2)
        texts = [line.text for line in (await control.receipt(run)).lines]
        assert texts == ["thing: kept", "thing: kept, for the earlier brief", "thing: kept"]

        await control.cancel(run)
        await control.ended(run)
        assert stage.done == ["common", "a", "b", "undone b", "undone a", "undone common"]
        texts = [line.text for line in (await control.receipt(run)).lines]
        assert texts == ["thing: undone", "thing: undone, for the earlier brief", "thing: undone"]
