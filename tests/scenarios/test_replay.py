"""Replay: a function that is called again finds what it did, and is where it was."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import Struct

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.errors import StepFailed
from midflight.inputs import wall_clock
from midflight.journal import events as e
from midflight.journal.phases import Outcome, Phase
from midflight.journal.state import RunState
from midflight.run import Run, Step
from midflight.stores.protocol import Store
from midflight.tools.declaration import tool
from midflight.tools.options import EffectName
from scenarios.conftest import Live, Open
from scenarios.hours import Hours
from scenarios.stage import Stage
from scenarios.test_redirect import gathered, keys_of, of_kind, the_question

pytestmark = pytest.mark.anyio


# ── identity ─────────────────────────────────────────────────────────────────────────────────


async def test_the_same_call_ten_times_is_done_ten_times_under_ten_keys(
    driving: Open, living: Live
) -> None:
    for after in (3, 10, 17):
        stage = Stage("ten")
        make = stage.writer(effect="write")

        @agent()
        async def clerk(run: Run) -> list[object]:
            return [await run.step("Make", make, "x") for _ in range(10)]  # noqa: B023

        async with living(clerk) as life:
            life.cord.pull(after)
            run = await life.control.start(clerk, "work")
            assert await life.is_cut_short(run)
        async with driving(clerk) as control:
            assert await control.result(run) == ["made x"] * 10
            assert len(set(await keys_of(control, run))) == 10
        assert len(set(stage.keys)) == 10


async def test_a_key_makes_a_step_known_whatever_its_arguments(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("keyed")
    make, look = stage.writer(), stage.reader()
    stage.gate("end")
    chance = random.Random(0)

    @agent()
    async def clerk(run: Run) -> list[object]:
        made = await run.step(Step("Make", key="invoice"), make, f"{chance.randrange(10**9)}")
        return [made, await run.step("Read", look, "end")]

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("end")
    stage.gate("end").set()
    async with driving(clerk) as control:
        assert await control.result(run) == [f"made {stage.done[0]}", "END"]
    assert len(stage.done) == 2


async def test_names_and_keys_with_a_hash_are_not_taken_for_another_turn(driving: Open) -> None:
    stage = Stage("hash")
    make = stage.writer()

    @agent()
    async def clerk(run: Run) -> list[object]:
        return [
            await run.step(Step("Make", key="x"), make, "a"),
            await run.step(Step("Make", key="x"), make, "b"),
            await run.step(Step("Make", key="x#2"), make, "c"),
            await run.step("Close #5", make, "d"),
            await run.step("Close #5", make, "d"),
        ]

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        assert await control.result(run) == [f"made {what}" for what in "abcdd"]
        assert len(set(stage.keys)) == 5


def has_done(steps: int, state: RunState) -> bool:
    return state.spent.steps >= steps


# ── parallel steps ───────────────────────────────────────────────────────────────────────────


async def test_parallel_steps_end_at_replay_in_the_order_in_which_they_ended(
    driving: Open, crashing: Open
) -> None:
    stage, told = Stage("order"), list[list[str]]()
    look, make = stage.reader(), stage.checked()
    for what in ("a", "b", "c", "end"):
        stage.gate(what)

    @agent()
    async def racer(run: Run) -> list[object]:
        ended: list[str] = []

        async def one(what: str) -> None:
            ended.append(await run.step("Read", look, what))
            ended.append(str(run.random().random())[:6])

        await gathered(one("a"), one("b"), one("c"))
        told.append(list(ended))
        made = await run.step("Make", make, " ".join(ended))
        return [made, await run.step("Read", look, "end")]

    async with crashing(racer) as control:
        run = await control.start(racer, "race")
        for what in "abc":
            await stage.until_begun(what)
        for count, what in enumerate("cab"):
            stage.gate(what).set()
            await control.until(run, partial(has_done, count + 1))
        await stage.until_begun("end")
    stage.gate("end").set()
    async with driving(racer) as control:
        with anyio.fail_after(20):
            await control.result(run)
    assert told[0] == told[1]
    assert told[0][::2] == ["C", "A", "B"]


@pytest.mark.slow
async def test_a_step_that_is_not_on_record_waits_until_all_that_is_was_asked_for(
    driving: Open, crashing: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.runtime.driver.REPLAY_S", 20.0)
    stage = Stage("held-back")
    make, look = stage.checked(), stage.reader()
    stage.gate("slow")
    lives: list[str] = []

    @agent()
    async def clerk(run: Run) -> list[object]:
        lives.append("life")

        async def busy_before_its_step() -> object:
            if len(lives) > 1:
                await anyio.sleep(0.3)
                assert stage.begun.count("slow") == 1, "the other one has to wait"
            return await run.step("Make", make, "list")

        return await gathered(run.step("Read", look, "slow"), busy_before_its_step())

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.until(run, lambda state: state.spent.steps > 0)
    stage.gate("slow").set()
    async with driving(clerk) as control:
        with anyio.fail_after(20):
            assert await control.result(run) == ["SLOW", "made list"]
    assert stage.done == ["list", "slow"]


@pytest.mark.slow
async def test_a_function_that_takes_its_time_between_steps_has_not_changed(
    driving: Open, crashing: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.runtime.driver.REPLAY_S", 0.05)
    stage = Stage("slow-code")
    look = stage.reader()
    stage.gate("end")

    @agent()
    async def poller(run: Run) -> list[object]:
        found: list[object] = []
        for what in ("a", "b", "end"):
            await anyio.sleep(0.2)
            found.append(await run.step("Read", look, what))
        return found

    async with crashing(poller) as control:
        run = await control.start(poller, "work")
        await stage.until_begun("end")
    stage.gate("end").set()
    async with driving(poller) as control:
        with anyio.fail_after(20):
            assert await control.result(run) == ["A", "B", "END"]


# ── time and chance ──────────────────────────────────────────────────────────────────────────


async def test_time_chance_and_ids_are_the_same_again(driving: Open, crashing: Open) -> None:
    stage, seen = Stage("chance"), list[list[object]]()
    look = stage.reader()
    stage.gate("end")

    @agent()
    async def gambler(run: Run) -> None:
        row: list[object] = [run.now(), run.random().random(), run.uuid()]
        seen.append(row)
        await run.step("Read", look, "a")
        row += [run.now(), run.uuid()]
        await run.ask("Sure?")
        row += [run.now(), run.random().randint(1, 10**9)]
        await run.step("Read", look, "end")

    async with crashing(gambler) as control:
        run = await control.start(gambler, "play")
        await control.answer(run, await the_question(control, run), "yes")
        await stage.until_begun("end")
    stage.gate("end").set()
    async with driving(gambler) as control:
        await control.result(run)
    assert seen[0] == seen[1]
    assert seen[0][0] != seen[0][3], "time goes on"
    assert len({seen[0][2], seen[0][4]}) == 2


# ── results ──────────────────────────────────────────────────────────────────────────────────


@dataclass
class Point:
    x: int
    y: int


class Card(Struct):
    name: str
    points: list[Point]


async def draw(name: str) -> Card:
    return Card(name, [Point(1, 2)])


async def twice_alive(
    function: Agent, stage: Stage, driving: Open, crashing: Open, *, answer: object = None
) -> tuple[str, object]:
    """Live to the step ``end``, crash, and live again from the records."""
    stage.gate("end")
    async with crashing(function) as control:
        run = await control.start(function, "work")
        if answer is not None:
            await control.answer(run, await the_question(control, run), answer)
        await stage.until_begun("end")
    stage.gate("end").set()
    async with driving(function) as control:
        with anyio.fail_after(5):
            return run, await control.result(run)


async def test_a_result_has_its_declared_type_live_and_at_replay(
    driving: Open, crashing: Open
) -> None:
    stage, seen = Stage("types"), list[object]()
    look = stage.reader()

    @tool(effect="read", name="types.read")
    async def read_points() -> dict[str, Point]:
        return {"a": Point(3, 4)}

    @agent()
    async def painter(run: Run) -> None:
        seen.append(await run.step("Draw", draw, "ace"))
        seen.append(await run.step("Points", read_points))
        await run.step("Read", look, "end")

    await twice_alive(painter, stage, driving, crashing)
    assert seen == [Card("ace", [Point(1, 2)]), {"a": Point(3, 4)}] * 2


@pytest.mark.parametrize("effect", ["read", "once"])
async def test_a_large_result_is_whole_live_and_at_replay(
    driving: Open, crashing: Open, effect: EffectName
) -> None:
    stage, seen = Stage(f"large-{effect}"), list[object]()
    look = stage.reader()

    @tool(effect=effect, name=f"large.{effect}")
    async def grow() -> list[str]:
        return ["x" * 1000] * 200

    @agent()
    async def gardener(run: Run) -> object:
        grown = await run.step("Grow", grow)
        seen.append(grown)
        await run.step("Read", look, "end")
        return len(grown)

    run, result = await twice_alive(gardener, stage, driving, crashing)
    assert (result, seen[0]) == (200, seen[1])
    async with driving() as control:
        (settled, *_) = await of_kind(
            control, run, e.StepSettled if effect == "read" else e.AttemptSettled
        )
        assert settled.blob is not None


@pytest.mark.parametrize("effect", ["read", "once"])
async def test_a_result_that_cannot_be_stored_fails_the_step_each_time_and_did_happen(
    driving: Open, crashing: Open, effect: EffectName
) -> None:
    stage, seen, made = Stage(f"unplain-{effect}"), list[str](), list[str]()
    look = stage.reader()

    @tool(effect=effect, name=f"unplain.{effect}")
    async def connect() -> object:
        made.append("connection")
        return [object()]

    @agent()
    async def clerk(run: Run) -> None:
        with pytest.raises(StepFailed) as failed:
            await run.step("Connect", connect)
        seen.append(str(failed.value))
        await run.step("Read", look, "end")

    run, _ = await twice_alive(clerk, stage, driving, crashing)
    happened = "it was done, but " * (effect == "once")
    unstorable = "its result cannot be stored: its result[0] is of type object"
    words = f"step 'Connect' failed: {happened}{unstorable}, which is not plain data"
    assert (seen, made) == ([words, words], ["connection"])
    async with driving() as control:
        outcomes = [event.outcome for event in await of_kind(control, run, e.AttemptSettled)]
        assert outcomes == ([Outcome.DONE] if effect == "once" else [])


async def test_a_failing_step_raises_the_same_live_and_at_replay(
    driving: Open, crashing: Open
) -> None:
    stage, seen, tries = Stage("fails"), list[str](), list[str]()
    look = stage.reader()

    @tool(effect="read", name="fails.read")
    async def fail(why: str) -> None:
        tries.append(why)
        raise ValueError(why)

    @agent()
    async def clerk(run: Run) -> None:
        for why in ("no table", "no row"):
            with pytest.raises(StepFailed) as failed:
                await run.step("Look", fail, why)
            seen.append(f"{type(failed.value).__name__} {failed.value}")
        await run.step("Read", look, "end")

    await twice_alive(clerk, stage, driving, crashing)
    assert seen[:2] == seen[2:]
    assert seen[0] == "StepFailed step 'Look' failed: ValueError: no table"
    assert tries == ["no table", "no row"]


# ── old reads, old keys ──────────────────────────────────────────────────────────────────────


async def test_a_read_that_must_be_fresh_is_repeated_when_it_is_old_and_not_when_it_is_young(
    driving: Open, crashing: Open
) -> None:
    stage, prices = Stage("fresh"), list[int]()
    look = stage.reader()

    def price(fresh: float) -> Any:
        async def ask_price(what: str) -> int:
            prices.append(len(prices))
            stage.note(stage.begun, what)
            return prices[-1]

        return tool(effect="read", name=f"fresh.price-{fresh}", max_age=fresh)(ask_price)

    old, young = price(0.05), price(60)

    @agent()
    async def trader(run: Run) -> list[object]:
        found = [await run.step("Old", old, "old"), await run.step("Young", young, "young")]
        await run.step("Read", look, "end")
        return [*found, await run.step("Old", old, "old")]

    stage.gate("end")
    async with crashing(trader) as control:
        run = await control.start(trader, "trade")
        await stage.until_begun("end")
    await anyio.sleep(0.1)
    stage.gate("end").set()
    async with driving(trader) as control:
        assert await control.result(run) == [2, 1, 3]
    assert stage.begun == ["old", "young", "end", "old", "end", "old"]


@pytest.mark.parametrize(("key_ttl", "asks"), [(60.0, False), (0.05, True)])
async def test_a_write_in_doubt_is_repeated_while_its_key_is_honoured_and_then_asked_about(
    driving: Open, crashing: Open, key_ttl: float, asks: bool
) -> None:
    stage = Stage(f"ttl-{asks}")
    make = stage.writer(effect="write", key_ttl=key_ttl)
    stage.gate("list")

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Make", make, "list")

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("list")
    await anyio.sleep(0.1)
    stage.gate("list").set()
    async with driving(clerk) as control:
        if asks:
            question = await the_question(control, run)
            assert stage.begun == ["list"]
            await control.answer(run, question, "again")
        assert await control.result(run) == "made list"
        assert (await control.state(run)).phase is Phase.DONE
    assert stage.begun == ["list", "list"]
    assert stage.keys[0] == stage.keys[1] != ""


async def test_how_old_a_key_is_goes_by_the_stores_clock_whatever_the_workers_says(
    store: Store, crashing: Open, tmp_path: Path
) -> None:
    """A worker whose clock is an hour late must not repeat what its provider has forgotten."""
    stage = Stage("ttl-clock")
    make = stage.writer(effect="write", key_ttl=0.05)
    stage.gate("list")

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Make", make, "list")

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("list")
    await anyio.sleep(0.1)
    stage.gate("list").set()
    late = LocalEngine.open(
        store, [clerk], workdir=tmp_path, clock=lambda: wall_clock() - 3600, sweep_s=0.05
    )
    async with late as engine:
        with anyio.fail_after(10):
            await the_question(Control(store, engine), run)

    assert stage.begun == ["list"]


@pytest.mark.slow
async def test_a_repeat_does_not_make_a_key_younger(
    driving: Open, crashing: Open, hours: Hours
) -> None:
    stage = Stage("ttl-twice")
    make = stage.writer(effect="write", key_ttl=20.0)
    stage.gate("list")

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Make", make, "list")

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("list")
    hours.skip(12)
    async with crashing(clerk) as control:
        await stage.until_begun("list", times=2)
    hours.skip(12)
    async with driving(clerk) as control:
        question = await the_question(control, run)
        assert stage.begun == ["list"] * 2
        await control.answer(run, question, "happened")
        await control.result(run)
    assert stage.begun == ["list"] * 2
