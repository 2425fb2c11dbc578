"""A function stops waiting for a step by itself: the world is not left in doubt for it."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from midflight.agents import agent
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.run import Run
from scenarios.conftest import Live, Open
from scenarios.stage import Stage
from scenarios.test_redirect import of_kind, the_question

pytestmark = pytest.mark.anyio


async def test_a_read_that_nobody_waits_for_is_ended(driving: Open) -> None:
    stage = Stage("give-up-read")
    look, patience = stage.reader(), list[asyncio.Timeout]()
    stage.gate("slow")

    @agent()
    async def reader(run: Run) -> object:
        try:
            async with asyncio.timeout(None) as limit:
                patience.append(limit)
                return await run.step("Read", look, "slow")
        except TimeoutError:
            return await run.step("Read", look, "fallback")

    async with driving(reader) as control:
        run = await control.start(reader, "read")
        await stage.until_begun("slow")
        patience[0].reschedule(anyio.current_time())
        assert await control.result(run) == "FALLBACK"
        settled = await of_kind(control, run, e.StepSettled)
        assert [event.name for event in settled] == ["Read"]
    assert stage.done == ["fallback"]


async def test_an_effect_that_nobody_waits_for_finishes_and_settles(driving: Open) -> None:
    stage = Stage("give-up-effect")
    make, patience = stage.writer(), anyio.CancelScope()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> object:
        with patience:
            return await run.step("Make", make, "slow")
        stage.note(stage.begun, "gave up")
        return "gave up"

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        patience.cancel()
        await stage.until_begun("gave up")
        await anyio.sleep(0.05)
        assert (await control.state(run)).phase is Phase.RUNNING, "it waits for what it has begun"
        stage.gate("slow").set()

        assert await control.result(run) == "gave up"
        (line,) = (await control.receipt(run)).lines
        assert line.text == "thing: kept"
    assert stage.done == ["slow"]


@pytest.mark.parametrize("unheard", [False, True])
@pytest.mark.parametrize("effect", ["read", "effect"])
@pytest.mark.slow
async def test_after_a_crash_it_gives_up_at_the_same_place_again(
    driving: Open,
    living: Live,
    effect: str,
    unheard: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("midflight.runtime.driver.REPLAY_S", 0.1)
    for after in range(100):
        stage = Stage(f"give-up-{effect}")
        make, look = stage.checked(), stage.reader()
        slow = look if effect == "read" else make
        stage.gate("slow")

        @agent()
        async def clerk(run: Run) -> list[object]:
            found: list[object] = [await run.step("Make", make, "first")]  # noqa: B023
            try:
                async with asyncio.timeout(0.2):
                    found.append(await run.step("Slow", slow, "slow"))  # noqa: B023
            except TimeoutError:
                found.append(await run.step("Make", make, "fallback"))  # noqa: B023
                stage.gate("slow").set()  # noqa: B023
            return [*found, await run.step("Read", look, "end")]  # noqa: B023

        async with living(clerk) as life:
            run = await life.control.start(clerk, "work")
            await stage.until_begun("fallback")
            life.cord.pull(after, unheard=unheard)
            died = await life.is_cut_short(run)
        async with driving(clerk) as control:
            with anyio.fail_after(5):
                assert await control.result(run) == ["made first", "made fallback", "END"]
        made = [what for what in stage.done if what in {"first", "fallback", "slow"}]
        assert len(made) == len(set(made)), "nothing was done twice"
        if not died:
            return
    raise AssertionError("it never outlived the story")


@pytest.mark.slow
async def test_an_effect_that_was_given_up_before_it_began_does_not_begin(driving: Open) -> None:
    stage = Stage("give-up-early")
    make, look = stage.writer(), stage.reader()
    stage.gate("first")
    stage.gate("end")

    @agent()
    async def clerk(run: Run) -> str:
        await run.step("Make", make, "first")
        with anyio.move_on_after(0.05):
            await run.step("Make", make, "second")
        return str(await run.step("Read", look, "end"))

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("first")
        accepted = await control.pause(run)
        stage.gate("first").set()
        with anyio.fail_after(5):
            await control.applied(accepted)
            await anyio.sleep(0.2)
            await control.resume(run)
            await stage.until_begun("end")
            await anyio.sleep(0.1)
            stage.gate("end").set()

            assert await control.result(run) == "END"
    assert stage.begun == ["first", "end"]


@pytest.mark.slow
async def test_an_approval_that_nobody_waits_for_is_withdrawn(driving: Open) -> None:
    stage = Stage("give-up-approval")
    send, patience = stage.writer(irreversible=True, undo=None), anyio.CancelScope()

    @agent()
    async def clerk(run: Run) -> str:
        with patience:
            await run.step("Send", send, "letter")
        return (await run.ask("What now?", schema=str)).payload or ""

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        first = await the_question(control, run)
        patience.cancel()
        state = await control.until(run, lambda state: first not in state.questions)
        closed = await of_kind(control, run, e.QuestionClosed)
        assert [event.why for event in closed] == ["withdrawn: not waited for any more"]
        await control.answer(run, await the_question(control, run), "nothing")

        assert (await control.result(run), stage.begun) == ("nothing", [])
        assert state.phase in {Phase.RUNNING, Phase.WAITING}


@pytest.mark.slow
async def test_a_function_that_gives_up_no_more_is_asked_about(
    driving: Open, crashing: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.runtime.driver.REPLAY_S", 0.1)
    stage = Stage("give-up-no-more")
    hurried, patient = anyio.CancelScope(), anyio.CancelScope()
    lives = [hurried, patient]
    make, look = stage.writer(), stage.reader()
    stage.gate("slow")
    stage.gate("end")

    @agent()
    async def clerk(run: Run) -> list[object]:
        found: list[object] = []
        with lives.pop(0):
            found.append(await run.step("Make", make, "slow"))
        return [*found, await run.step("Read", look, "end")]

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        hurried.cancel()
        await stage.until_begun("end")
        stage.gate("slow").set()
        await control.until(run, lambda state: not state.open)
    stage.gate("end").set()
    async with driving(clerk) as control:
        question = await the_question(control, run)
        state = await control.state(run)
        assert state.questions[question].message == (
            "The agent's code has changed: expected giving up Make, found Make. What now?"
        )
        await control.answer(run, question, "go on")
        with anyio.fail_after(5):
            assert await control.result(run) == ["made slow", "END"]
    assert stage.done.count("slow") == 1
