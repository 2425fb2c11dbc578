"""Redirect: a function that catches it goes on, and after a crash it is told at the same place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import pytest
from msgspec.structs import replace

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import Refused, StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.run import Redirected, Run
from scenarios.conftest import Live, Open
from scenarios.stage import Stage
from scenarios.test_redirect import gathered, of_kind, the_question

pytestmark = pytest.mark.anyio

Tell = Callable[[Control, Stage, str], Awaitable[None]]


def in_one_place(stage: Stage) -> Agent:
    make, look = stage.checked(), stage.reader()
    stage.gate("a")

    @agent(name="caught-once")
    async def clerk(run: Run) -> list[object]:
        found = [await run.step("Make", make, "list")]
        try:
            found.append(await run.step("Read", look, run.brief))
        except Redirected as redirected:
            found += [redirected.brief, run.brief, await run.step("Read", look, "b")]
        return [*found, await run.step("Make", make, "end"), str(run.uuid())[:0]]

    return clerk


async def tell_once(control: Control, stage: Stage, run: str) -> None:
    await stage.until_begun("a")
    await control.redirect(run, "b")


ONCE = ["made list", "b", "b", "B", "made end", ""]


def in_a_loop(stage: Stage) -> Agent:
    make, look = stage.checked(), stage.reader()
    stage.gate("read a")
    stage.gate("read b")

    @agent(name="caught-loop")
    async def clerk(run: Run) -> list[object]:
        found: list[object] = []
        while len(found) < 6:
            try:
                found.append(await run.step("Make", make, f"{run.brief}{len(found)}"))
                found.append(await run.step("Read", look, f"read {run.brief}"))
            except Redirected as redirected:
                found.append(f"told {redirected.brief}")
        return found

    return clerk


async def tell_twice(control: Control, stage: Stage, run: str) -> None:
    await stage.until_begun("read a")
    await control.applied(await control.redirect(run, "b"))
    await stage.until_begun("read b")
    await control.redirect(run, "c")


LOOP = ["made a0", "told b", "made b2", "told c", "made c4", "READ C"]


def in_parallel(stage: Stage) -> Agent:
    make, look = stage.checked(), stage.reader()
    stage.gate("a1")
    stage.gate("a2")

    @agent(name="caught-parallel")
    async def clerk(run: Run) -> list[object]:
        async def one(number: int) -> object:
            try:
                return await run.step("Read", look, f"{run.brief}{number}")
            except Redirected as redirected:
                return await run.step("Make", make, f"{redirected.brief}{number}")

        found = await gathered(one(1), one(2), run.step("Make", make, "list"))
        return [*found, await run.step("Make", make, "end")]

    return clerk


async def tell_both(control: Control, stage: Stage, run: str) -> None:
    for what in ("a1", "a2"):
        await stage.until_begun(what)
    await control.until(run, lambda state: state.spent.steps > 0)
    await control.redirect(run, "b")


PARALLEL = ["made b1", "made b2", "made list", "made end"]


def between_calls(stage: Stage) -> Agent:
    make = stage.checked()

    @agent(name="caught-between")
    async def clerk(run: Run) -> list[object]:
        found: list[object] = [await run.step("Make", make, "list"), await run.inbox()]
        stage.note(stage.begun, "thinking")
        if not stage.gate("thought").is_set():
            await stage.gate("thought").wait()
        for call in (run.inbox, run.inbox, lambda: run.step("Make", make, "end")):
            try:
                found.append(await call())
            except Redirected as redirected:
                found.append(redirected.brief)
        return found

    return clerk


async def tell_between(control: Control, stage: Stage, run: str) -> None:
    await stage.until_begun("thinking")
    await control.applied(await control.redirect(run, "b"))
    stage.gate("thought").set()


BETWEEN = ["made list", [], "b", [], "made end"]


def while_asking(stage: Stage) -> Agent:
    make = stage.checked()

    @agent(name="caught-asking")
    async def clerk(run: Run) -> list[object]:
        found = [await run.step("Make", make, "list")]
        try:
            found.append((await run.ask("Sure?")).payload)
        except Redirected as redirected:
            await run.say("As you like")
            found += [redirected.brief, (await run.ask("Sure?")).payload]
        return [*found, await run.step("Make", make, "end")]

    return clerk


async def tell_asking(control: Control, stage: Stage, run: str) -> None:
    await the_question(control, run)
    await control.until(run, lambda state: state.phase is Phase.WAITING)
    await control.applied(await control.redirect(run, "b"))
    await control.answer(run, await the_question(control, run), "yes")


ASKING = ["made list", "b", "yes", "made end"]

STORIES = [
    pytest.param(in_one_place, tell_once, ONCE, id="in one place"),
    pytest.param(in_a_loop, tell_twice, LOOP, id="in a loop"),
    pytest.param(in_parallel, tell_both, PARALLEL, id="in parallel"),
    pytest.param(between_calls, tell_between, BETWEEN, id="between calls"),
    pytest.param(while_asking, tell_asking, ASKING, id="while it asks"),
]


@pytest.mark.parametrize("unheard", [False, True])
@pytest.mark.parametrize(("make_agent", "tell", "expected"), STORIES)
async def test_after_a_crash_at_any_append_it_is_told_again_at_the_same_place(
    driving: Open,
    living: Live,
    make_agent: Callable[[Stage], Agent],
    tell: Tell,
    expected: list[object],
    unheard: bool,
) -> None:
    for after in range(100):
        stage = Stage(f"caught-{make_agent.__name__}")
        clerk = make_agent(stage)
        async with living(clerk) as life:
            run = await life.control.start(clerk, "a")
            await tell(life.control, stage, run)
            life.cord.pull(after, unheard=unheard)
            died = await life.is_cut_short(run)
        for gate in stage.gates.values():
            gate.set()
        async with driving(clerk) as control:
            with anyio.fail_after(5):
                assert await control.result(run) == expected
            assert (await control.state(run)).phase is Phase.DONE
        effects = [what for what in stage.done if what.upper() not in expected]
        assert len(set(effects)) == len(effects), "nothing was done twice"
        if not died:
            return
    raise AssertionError("it never outlived the story")


@pytest.mark.parametrize(("make_agent", "tell", "expected"), STORIES)
async def test_after_an_eviction_too(
    driving: Open, make_agent: Callable[[Stage], Agent], tell: Tell, expected: list[object]
) -> None:
    stage = Stage(f"evicted-{make_agent.__name__}")
    clerk = replace(make_agent(stage), evict_after=0.0)
    async with driving(clerk) as control:
        run = await control.start(clerk, "a")
        await tell(control, stage, run)
        for _ in range(20):
            state = await control.state(run)
            if not state.alive:
                break
            with suppress(Refused):  # it may have come to its end since we looked
                await control.pause(run)
                await control.until(run, lambda state: not state.alive or not state.driver)
                for gate in stage.gates.values():
                    gate.set()
                await control.resume(run)
        assert await control.result(run) == expected
        delivered = await of_kind(control, run, e.RedirectDelivered)
        assert len(delivered) == (2 if make_agent is in_a_loop else 1)


async def test_a_large_result_that_is_still_being_fetched_is_not_a_call_that_waits(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("on-its-way")
    look = stage.reader()
    stage.gate("large")
    stage.gate("end")

    async def grow(what: str) -> str:
        stage.note(stage.begun, what)
        await stage.gates[what].wait()
        return what * 20_000

    @agent()
    async def clerk(run: Run) -> object:
        found: list[object] = []
        try:
            found.append(len(await run.step("Grow", grow, "large")))
            found.append(await run.step("Read", look, "a"))
        except Redirected as redirected:
            found.append(redirected.brief)
        return [*found, await run.step("Read", look, "end")]

    async with crashing(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("large")
        accepted = await control.redirect(run, "b")
        stage.gate("large").set()
        await control.applied(accepted)
        await stage.until_begun("end")
    stage.gate("end").set()
    async with driving(clerk) as control:
        with anyio.fail_after(5):
            assert await control.result(run) == [100_000, "b", "END"]


async def test_what_a_parallel_task_did_after_the_redirect_is_not_done_again(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("beside")
    make, look = stage.writer(), stage.reader()
    for what in ("a", "later", "end"):
        stage.gate(what)

    @agent()
    async def clerk(run: Run) -> list[object]:
        async def reading() -> object:
            if stage.gate("later").is_set():
                await anyio.sleep(0.1)  # after the crash it is the other one that comes first
            try:
                return await run.step("Read", look, "a")
            except Redirected as redirected:
                return redirected.brief

        async def making() -> object:
            await stage.gate("later").wait()
            return await run.step("Make", make, "list")

        return [*await gathered(reading(), making()), await run.step("Read", look, "end")]

    async with crashing(clerk) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("a")
        await control.applied(await control.redirect(run, "b"))
        stage.gate("later").set()
        await stage.until_begun("end")
    stage.gate("end").set()
    async with driving(clerk) as control:
        with anyio.fail_after(5):
            assert await control.result(run) == ["b", "made list", "END"]
    assert stage.done == ["list", "end"]


async def test_an_answer_that_comes_with_the_redirect_does_not_drown_it(living: Live) -> None:
    stage = Stage("rejected")
    send, look = stage.writer(irreversible=True, undo=None), stage.reader()
    stage.gate("a")

    @agent()
    async def clerk(run: Run) -> list[object]:
        async def sending() -> object:
            try:
                return await run.step("Send", send, "letter")
            except Redirected as redirected:
                with pytest.raises(StepFailed, match="rejected by library"):
                    await run.step("Send", send, "letter")
                return redirected.brief

        async def reading() -> object:
            try:
                return await run.step("Read", look, "a")
            except Redirected:
                return run.brief

        return await gathered(sending(), reading())

    async with living(clerk) as life:
        control = life.control
        run = await control.start(clerk, "a")
        question = await the_question(control, run)
        await stage.until_begun("a")
        life.cord.linger_at(e.RedirectDelivered)
        await control.redirect(run, "b")
        await life.cord.reached.wait()
        await control.answer(run, question, "reject")
        await anyio.sleep(0.05)
        life.cord.let_go.set()
        with anyio.fail_after(5):
            assert await control.result(run) == ["b", "b"]


async def test_no_call_slips_in_while_a_redirect_is_being_written_down(living: Live) -> None:
    stage = Stage("slips-in")

    @agent()
    async def clerk(run: Run) -> list[object]:
        stage.note(stage.begun, "thinking")
        await stage.gate("thought").wait()
        found: list[object] = []
        for _ in range(2):
            try:
                found.append(await run.plan("sleep"))  # type: ignore[func-returns-value]
            except Redirected as redirected:
                found.append(redirected.brief)
        return found

    async with living(clerk) as life:
        run = await life.control.start(clerk, "a")
        await stage.until_begun("thinking")
        life.cord.linger_at(e.RedirectDelivered)
        await life.control.redirect(run, "b")
        await life.cord.reached.wait()
        stage.gate("thought").set()
        await anyio.sleep(0.05)
        life.cord.let_go.set()
        with anyio.fail_after(5):
            assert await life.control.result(run) == ["b", None]


async def test_a_child_that_is_waited_for_is_waited_for_again_after_the_redirect(
    driving: Open,
) -> None:
    stage = Stage("child")
    look = stage.reader()
    stage.gate("slow")

    @agent()
    async def helper(run: Run) -> object:
        return await run.step("Read", look, "slow")

    @agent()
    async def clerk(run: Run) -> list[object]:
        child = await run.spawn(helper, "help")
        try:
            return [await child.result()]
        except Redirected as redirected:
            stage.gate("slow").set()
            return [redirected.brief, await child.result()]

    async with driving(clerk, helper) as control:
        run = await control.start(clerk, "a")
        await stage.until_begun("slow")
        await control.redirect(run, "b")

        with anyio.fail_after(5):
            assert await control.result(run) == ["b", "SLOW"]
