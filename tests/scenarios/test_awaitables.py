"""A function that hands back something to await is async, however it is written down.

What it hands back is awaited, in the time and with the bounds that an async function has. Nothing
counts as done or undone before that has ended.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import StepFailed
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.tools.declaration import Done, Tool, tool
from midflight.tools.options import EffectName, EffectRecord
from scenarios.conftest import Open

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("store", ["memory"], indirect=True),
]

Work = Callable[..., Awaitable[Any]]


class Called:
    """An object that is called as an async function is."""

    def __init__(self, work: Work) -> None:
        self._work = work

    async def __call__(self, *args: Any) -> Any:
        return await self._work(*args)


class Later:
    """Something to await that is no coroutine."""

    def __init__(self, work: Work, *args: Any) -> None:
        self._work, self._args = work, args

    def __await__(self) -> Any:
        return self._work(*self._args).__await__()


def forgetful(work: Work) -> Work:
    async def forgets_to_await(*args: Any) -> Any:
        return work(*args)

    return forgets_to_await


FORMS: dict[str, Callable[[Work], Callable[..., Any]]] = {
    "lambda": lambda work: lambda *args: work(*args),
    "partial": functools.partial,
    "partial of a lambda": lambda work: functools.partial(lambda *args: work(*args)),
    "object": Called,
    "partial of an object": lambda work: functools.partial(Called(work)),
    "awaitable": lambda work: functools.partial(Later, work),
    "forgotten await": forgetful,
}
every_form = pytest.mark.parametrize("form", FORMS)


def asking(made: Tool) -> Agent:
    @agent()
    async def clerk(run: Run) -> str:
        try:
            made_of = await run.step("Make", made)
        except StepFailed as failed:
            made_of = failed.error
        await run.ask("Go on?")
        return str(made_of)

    return clerk


async def lines(control: Control, run: str) -> list[str]:
    return [line.text for line in (await control.receipt(run)).lines]


async def waiting(control: Control, clerk: Agent) -> str:
    run = await control.start(clerk, "work")
    with anyio.fail_after(5):
        await control.until(run, lambda s: s.phase is Phase.WAITING)
    return run


async def cancelled(control: Control, run: str) -> list[str]:
    await control.cancel(run)
    with anyio.fail_after(5):
        await control.ended(run)
    return await lines(control, run)


@every_form
async def test_an_undo_is_awaited_before_anything_is_called_undone(
    driving: Open, form: str
) -> None:
    undone = list[str]()

    async def undo(performed: EffectRecord) -> None:
        await anyio.lowlevel.checkpoint()
        undone.append(performed.key)

    @tool(name=f"awaitables.undo-{form}", label="letter", undo=FORMS[form](undo))
    async def make() -> None: ...

    clerk = asking(make)
    async with driving(clerk) as control:
        run = await waiting(control, clerk)
        assert await cancelled(control, run) == ["letter: undone"]
    assert len(undone) == 1


async def test_an_undo_that_fails_while_it_is_awaited_is_not_called_undone(driving: Open) -> None:
    async def undo(_: EffectRecord) -> None:
        raise PermissionError("not yours")

    @tool(name="awaitables.failing", label="letter", undo=FORMS["lambda"](undo))
    async def make() -> None: ...

    clerk = asking(make)
    async with driving(clerk) as control:
        run = await waiting(control, clerk)
        assert await cancelled(control, run) == [
            "letter: could not be undone (PermissionError: not yours)"
        ]


@every_form
async def test_a_check_is_awaited_for_its_answer(driving: Open, form: str) -> None:
    async def check(_: EffectRecord) -> object:
        await anyio.lowlevel.checkpoint()
        return Done("found")

    @tool(name=f"awaitables.check-{form}", label="letter", check=FORMS[form](check))
    async def make() -> str:
        raise ConnectionError("reset by peer")

    clerk = asking(make)
    async with driving(clerk) as control:
        run = await waiting(control, clerk)
        assert await lines(control, run) == ["letter: kept (no undo)"]


@every_form
@pytest.mark.parametrize("effect", ["read", "once"])
async def test_a_tool_is_awaited_for_its_result(
    driving: Open, form: str, effect: EffectName
) -> None:
    sent = list[str]()

    async def send() -> str:
        await anyio.lowlevel.checkpoint()
        sent.append("sent")
        return "a receipt"

    made = tool(effect=effect, name=f"awaitables.{effect}-{form}")(FORMS[form](send))

    @agent()
    async def clerk(run: Run) -> str:
        return str(await run.step("Make", made))

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        with anyio.fail_after(5):
            assert await control.result(run) == "a receipt"
    assert sent == ["sent"]


async def deaf() -> None:
    while True:
        try:
            await anyio.sleep(3600)
        except asyncio.CancelledError:
            continue


async def test_what_is_awaited_after_a_thread_has_a_timeout_and_is_left_behind(
    driving: Open,
) -> None:
    made = tool(
        effect="write", name="awaitables.deaf", label="letter", timeout=0.05, stops_within=0.05
    )(lambda: deaf())
    clerk = asking(made)
    async with driving(clerk) as control:
        run = await waiting(control, clerk)
        (line,) = await lines(control, run)
        await cancelled(control, run)
    assert line == (
        "letter: unknown (TimeoutError: no end within 0.05 s; it ignored that for 0.05 s and was "
        "left behind)"
    )


async def test_what_is_awaited_after_a_thread_can_be_cancelled(driving: Open) -> None:
    begun, after = anyio.Event(), list[str]()

    async def send() -> None:
        begun.set()
        await anyio.sleep(3600)
        after.append("sent")

    made = tool(name="awaitables.cancel", label="letter")(lambda: send())
    clerk = asking(made)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        with anyio.fail_after(5):
            await begun.wait()
        assert await cancelled(control, run) == ["letter: unknown (aborted: cancelled)"]
    assert after == []


async def test_a_thread_that_was_told_to_end_has_nothing_awaited_that_it_returns(
    driving: Open,
) -> None:
    begun, go, sent = threading.Event(), threading.Event(), list[str]()

    async def send() -> None:
        sent.append("sent")

    @tool(name="awaitables.told", label="letter")
    def make() -> object:
        begun.set()
        go.wait(10)
        return send()

    clerk = asking(make)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await anyio.to_thread.run_sync(begun.wait)
        await control.cancel(run)
        go.set()
        with anyio.fail_after(5):
            await control.ended(run)
        assert await lines(control, run) == ["letter: unknown (aborted: cancelled)"]
    assert sent == []


async def test_what_a_thread_returns_after_it_was_left_behind_is_not_taken_for_done(
    driving: Open,
) -> None:
    begun, go, sent = threading.Event(), threading.Event(), list[str]()

    async def send() -> None:
        sent.append("sent")

    @tool(name="awaitables.late", label="letter", stops_within=0.05)
    def make() -> object:
        begun.set()
        go.wait(10)
        return send()

    clerk = asking(make)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await anyio.to_thread.run_sync(begun.wait)
        await control.cancel(run, now=True)
        with anyio.fail_after(5):
            await control.ended(run)
        go.set()
        await anyio.sleep(0.2)  # in which it would be told
        (line,) = (await control.receipt(run)).lines
    assert (line.word, sent) == ("unknown", [])
