"""Redirect: something that must not happen twice is wanted once more, with other arguments."""

from __future__ import annotations

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import StepFailed
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.tools.declaration import Tool
from midflight.tools.options import EffectRecord
from scenarios.conftest import Live, Open
from scenarios.stage import Stage
from scenarios.test_redirect import the_question

pytestmark = pytest.mark.anyio


def order_clerk(stage: Stage, order: Tool, *, look: bool = True) -> Agent:
    reader = stage.reader()
    stage.gate("end")

    @agent(name=f"clerk-{stage.name}")
    async def clerk(run: Run) -> list[object]:
        found: list[object] = [await run.step("Order", order, item) for item in run.brief.split()]
        return [*found, await run.step("Read", reader, "end")] if look else found

    return clerk


async def redirected(control: Control, stage: Stage, clerk: Agent, to: str, *, brief: str) -> str:
    run = await control.start(clerk, brief)
    await stage.until_begun("end")
    await control.applied(await control.redirect(run, to))
    stage.gate("end").set()
    return run


ANSWERS = [
    ("as well", ["made bus", "END"], ["train", "bus"], ["kept", "kept for the earlier brief"]),
    ("keep", ["made train", "END"], ["train"], ["kept for the earlier brief"]),
    (
        "undo",
        ["made bus", "END"],
        ["train", "undone train", "bus"],
        ["kept", "undone for the earlier brief"],
    ),
]


@pytest.mark.parametrize(("answer", "result", "done", "words"), ANSWERS)
async def test_a_person_says_whether_it_is_wanted_as_well_instead_or_not(
    driving: Open, answer: str, result: list[object], done: list[str], words: list[str]
) -> None:
    stage = Stage("redirected-again")
    clerk = order_clerk(stage, stage.writer(describe="thing {what}"))

    async with driving(clerk) as control:
        run = await redirected(control, stage, clerk, "bus", brief="train")
        question = await the_question(control, run)
        asked = (await control.state(run)).questions[question]
        assert asked.message == (
            "thing train was done before, by step Order with other arguments. "
            "Do this too: thing bus?"
        )
        assert stage.done.count("bus") == 0
        await control.answer(run, question, answer)

        assert await control.result(run) == result
        assert [what for what in stage.done if what != "end"] == done
        lines = (await control.receipt(run)).lines
        assert [line.word + " for the earlier brief" * line.earlier for line in lines] == words


@pytest.mark.parametrize("unheard", [False, True])
@pytest.mark.parametrize(("answer", "result", "done", "_words"), ANSWERS)
async def test_a_crash_at_any_append_changes_nothing_of_it(
    driving: Open,
    living: Live,
    answer: str,
    result: list[object],
    done: list[str],
    _words: object,
    unheard: bool,
) -> None:
    for after in range(100):
        stage = Stage("again-crash")
        clerk = order_clerk(stage, stage.checked())
        async with living(clerk) as life:
            run = await redirected(life.control, stage, clerk, "bus", brief="train")
            await life.control.answer(run, await the_question(life.control, run), answer)
            life.cord.pull(after, unheard=unheard)
            died = await life.is_cut_short(run)
        async with driving(clerk) as control:
            with anyio.fail_after(5):
                assert await control.result(run) == result
        acts = [what for what in stage.done if what != "end"]
        assert list(dict.fromkeys(acts)) == done
        assert len([what for what in acts if not what.startswith("undone")]) == done.count(
            "train"
        ) + done.count("bus"), "only an undo may be repeated"
        if not died:
            return
    raise AssertionError("it never outlived the story")


async def test_the_answer_comes_while_nobody_drives(driving: Open, crashing: Open) -> None:
    stage = Stage("again-nobody")
    clerk = order_clerk(stage, stage.writer())

    async with crashing(clerk) as control:
        run = await redirected(control, stage, clerk, "bus", brief="train")
        question = await the_question(control, run)
    async with crashing() as nobody:
        await nobody.answer(run, question, "undo")
    async with driving(clerk) as control:
        assert await control.result(run) == ["made bus", "END"]
    assert [what for what in stage.done if what != "end"] == ["train", "undone train", "bus"]


async def test_undoing_one_of_two_does_not_touch_the_other_even_after_a_crash(
    driving: Open, living: Live
) -> None:
    for after in range(100):
        stage = Stage("again-two")
        clerk = order_clerk(stage, stage.checked())
        async with living(clerk) as life:
            run = await redirected(life.control, stage, clerk, "plane", brief="train bus")
            await life.control.answer(run, await the_question(life.control, run), "undo")
            life.cord.pull(after)
            died = await life.is_cut_short(run)
        async with driving(clerk) as control:
            with anyio.fail_after(5):
                assert await control.result(run) == ["made plane", "END"]
        assert "undone train" not in stage.done
        if not died:
            return
    raise AssertionError("it never outlived the story")


async def test_once_it_was_said_as_well_it_holds_for_all_of_that_name_until_the_next_redirect(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("again-all")
    clerk = order_clerk(stage, stage.checked())
    stage.gate("car")

    async with crashing(clerk) as control:
        run = await redirected(control, stage, clerk, "bus car", brief="train")
        await control.answer(run, await the_question(control, run), "as well")
        await stage.until_begun("car")
    stage.gate("car").set()
    stage.gates["end"] = anyio.Event()
    async with driving(clerk) as control:
        await stage.until_begun("end", times=2)
        assert [what for what in stage.done if what != "end"] == ["train", "bus", "car"]
        await control.applied(await control.redirect(run, "plane"))
        stage.gate("end").set()
        await control.answer(run, await the_question(control, run), "keep")
        assert await control.result(run) == ["made car", "END"]


async def test_keeping_a_large_earlier_result_keeps_all_of_it(driving: Open) -> None:
    stage = Stage("again-large")
    stage.gate("end")
    reader = stage.reader()

    async def grow(what: str) -> str:
        return what * 50_000

    @agent()
    async def clerk(run: Run) -> object:
        grown = await run.step("Grow", grow, run.brief)
        await run.step("Read", reader, "end")
        return [grown[:4], len(grown)]

    async with driving(clerk) as control:
        run = await redirected(control, stage, clerk, "cd", brief="ab")
        await control.answer(run, await the_question(control, run), "keep")

        assert await control.result(run) == ["abab", 100_000]


@pytest.mark.slow
async def test_an_earlier_one_that_cannot_be_undone_fails_the_step_and_nothing_is_done(
    driving: Open,
) -> None:
    stage = Stage("again-stuck")

    async def cannot(_: EffectRecord) -> None:
        raise ConnectionError("no route")

    inner = order_clerk(stage, stage.writer(undo=cannot), look=True)

    @agent()
    async def clerk(run: Run) -> object:
        try:
            return await inner.function(run)
        except StepFailed as failed:
            return failed.error

    async with driving(clerk) as control:
        run = await redirected(control, stage, clerk, "bus", brief="train")
        await control.answer(run, await the_question(control, run), "undo")

        assert await control.result(run) == "thing: the earlier one could not be undone"
        assert "bus" not in stage.begun


async def test_a_pause_in_the_middle_of_undoing_the_earlier_one_is_kept(driving: Open) -> None:
    stage = Stage("again-pause")
    tries: list[str] = []

    async def falter(performed: EffectRecord) -> None:
        stage.note(tries, performed.args[0])
        if len(tries) == 1:
            await stage.gate("undo").wait()
            raise ConnectionError("no route")

    clerk = order_clerk(stage, stage.writer(undo=falter))

    async with driving(clerk) as control:
        run = await redirected(control, stage, clerk, "bus", brief="train")
        stage.gate("undo")
        await control.answer(run, await the_question(control, run), "undo")
        await control.until(run, lambda state: bool(state.undos))
        accepted = await control.pause(run)
        stage.gate("undo").set()
        await control.applied(accepted)
        assert ((await control.state(run)).phase, tries) == (Phase.PAUSED, ["train"])
        await control.resume(run)

        assert await control.result(run) == ["made bus", "END"]
        assert tries == ["train", "train"]


async def test_the_same_arguments_or_another_name_ask_nothing(driving: Open) -> None:
    stage = Stage("again-same")
    make, reader = stage.writer(), stage.reader()
    stage.gate("end")

    @agent()
    async def clerk(run: Run) -> list[object]:
        found = [await run.step("Order", make, "train")]
        if run.brief == "b":
            found.append(await run.step("Order a bus", make, "bus"))
        return [*found, await run.step("Read", reader, "end")]

    async with driving(clerk) as control:
        run = await redirected(control, stage, clerk, "b", brief="a")
        assert await control.result(run) == ["made train", "made bus", "END"]
