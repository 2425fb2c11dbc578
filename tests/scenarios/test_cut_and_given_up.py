"""What is said of an effect that was stopped in the middle, and of a cancel that cannot be done."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.journal.phases import Phase
from midflight.journal.record import Limits
from midflight.run import Run
from midflight.runtime import cancellation as cancelling
from midflight.runtime.steps import undo
from midflight.stores.protocol import Store
from midflight.tools.declaration import Done, NotDone, tool
from midflight.tools.options import EffectRecord
from scenarios.conftest import Open
from scenarios.hours import Hours

pytestmark = pytest.mark.anyio
in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True)


@in_memory
@pytest.mark.parametrize("found", [Done("sent"), NotDone()], ids=["done", "not done"])
async def test_of_what_a_check_has_cleared_up_the_thread_does_not_say_that_it_may_have_happened(
    driving: Open, found: Done | NotDone
) -> None:
    begun = anyio.Event()

    async def check(_: EffectRecord) -> Done | NotDone:
        return found

    @tool(name=f"cut.{type(found).__name__}", label="letter", check=check, settles_within=0)
    async def send() -> str:
        begun.set()
        await anyio.sleep(3600)
        return ""

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Send", send)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await begun.wait()
        await control.cancel(run)
        ended = await control.ended(run)
        said = [getattr(r.event, "text", "") for r in await control.store.read(ended.thread)]

    assert not any("may have partly happened" in text for text in said)
    assert not any("stopped in the middle" in saved for saved in ended.saved)


@in_memory
async def test_a_fork_of_a_run_in_which_an_effect_was_stopped_can_be_cancelled(
    driving: Open,
) -> None:
    begun, calls = anyio.Event(), []

    @tool(name="cut.first", label="letter")
    async def send() -> str:
        calls.append(1)
        begun.set()
        if len(calls) == 1:
            await anyio.sleep(3600)
        return "sent"

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Send", send)
        await run.ask("Go on?")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await begun.wait()
        state = await control.until(run, lambda s: bool(s.open))
        await control.pause(run)
        await control.stop_effect(run, next(iter(state.open)))
        await control.until(run, lambda s: s.phase is Phase.PAUSED)
        await control.resume(run)
        state = await control.until(run, lambda s: bool(s.questions))
        await control.answer(run, next(iter(state.questions)), "again")
        state = await control.until(run, lambda s: s.phase is Phase.WAITING and s.done == 1)
        await control.cancel(run)
        await control.ended(run)

        fork = await control.fork(run, at=state.head)
        await control.until(fork, lambda s: s.phase is Phase.WAITING)
        await control.cancel(fork)
        ended = await control.ended(fork)

    assert (ended.phase, ended.error) == (Phase.CANCELLED, "")


@in_memory
async def test_a_clock_that_is_set_forward_does_not_keep_a_background_run_from_beginning(
    driving: Open, hours: Hours
) -> None:
    go = anyio.Event()

    @agent()
    async def helper(run: Run) -> str:
        return "helped"

    @agent(limits=Limits(seconds=100))
    async def clerk(run: Run) -> str:
        await go.wait()
        child = await run.spawn(helper, "help")
        return str(await child.result())

    async with driving(clerk, helper) as control:
        run = await control.start(clerk, "work")
        await control.until(run, lambda s: s.phase is Phase.RUNNING)
        hours.step(3600.0)
        go.set()
        with anyio.fail_after(10):
            assert await control.result(run) == "helped"


@in_memory
async def test_a_cancel_that_fails_again_and_again_is_not_called_cancelled_and_says_why(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone: list[int] = []

    async def unmake(_: EffectRecord) -> None:
        undone.append(1)

    @tool(name="cut.made", label="letter", undo=unmake)
    async def make() -> None:
        pass

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make", make)
        await run.ask("Go on?")

    async def broken(_: object) -> None:
        raise KeyError("a slip of ours")

    async with LocalEngine.open(store, (clerk,), workdir=tmp_path, sweep_s=0.05) as engine:
        control = Control(store, engine)
        run = await control.start(clerk, "work")
        await control.until(run, lambda s: s.phase is Phase.WAITING)
        whole = undo.compensate
        monkeypatch.setattr(cancelling, "compensate", broken)
        await control.cancel(run)
        state = await control.until(run, lambda s: bool(s.notices))
        assert state.phase is Phase.CANCELLING
        assert undone == []

        monkeypatch.setattr(cancelling, "compensate", whole)
        await control.cancel(run, now=True)
        assert (await control.ended(run)).phase is Phase.CANCELLED
        told = [line.text for line in (await control.receipt(run)).lines]
    assert told == ["letter: kept (undo skipped)"]
