"""Tool calls are told by the tool's name, with its arguments, and from the moment they begin."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec
import pytest
from msgspec import Raw

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import DOTS
from midflight.interfaces.agui.agui_approvals import ARGUMENTS_MAX, shown_arguments
from midflight.interfaces.agui.agui_input import read_input
from midflight.interfaces.agui.agui_stream import Story
from midflight.interfaces.agui.agui_turn import take_turn
from midflight.journal.record import Actor
from midflight.run import Run
from midflight.tools.declaration import tool
from midflight.tools.secret import Secret
from scenarios.conftest import Open

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

ANN, BOB = Actor("ann", channel="agui"), Actor("bob")
GATES: dict[str, anyio.Event] = {}


@tool(effect="read", name="shop.find")
async def find(what: str, limit: int = 3) -> str:
    if what in GATES:
        await GATES[what].wait()
    return f"{what}: {limit}"


@tool(effect="write", name="calls.order")
async def order(what: str, password: str = "", idempotency_key: str = "") -> str:
    return f"ordered {what}"


@tool(effect="model", name="shop.think")
async def think() -> str:
    raise ValueError("no idea")


async def watch(
    control: Control,
    works: Agent,
    run_id: str = "X",
    on_call: Callable[[str], Awaitable[Any]] | None = None,
) -> list[Any]:
    """Follow one AG-UI run to its end; ``on_call`` is called when the first tool call is told."""
    messages = [{"id": "m1", "role": "user", "content": "go"}]
    given = {"threadId": "T", "runId": run_id, "messages": messages, "protocolVersion": "1.0"}
    turn = await take_turn(control, works, read_input(msgspec.json.encode(given)), ANN)
    events: list[Any] = []
    with anyio.fail_after(10):
        async for event in Story(control, turn, heartbeat_s=5).told():
            if event is None:
                continue
            events.append(event)
            if event.type.value == "TOOL_CALL_END" and on_call is not None:
                await on_call(turn.run)
                on_call = None
    return events


def of(events: list[Any], kind: str) -> list[Any]:
    return [event for event in events if event.type.value == kind]


def calls_in(events: list[Any]) -> list[tuple[str, Any]]:
    """Name and arguments of each call in the last snapshot."""
    messages = of(events, "MESSAGES_SNAPSHOT")[-1].messages
    calls = [call for m in messages if m.role == "assistant" for call in m.tool_calls or ()]
    return [(call.function.name, json.loads(call.function.arguments)) for call in calls]


@agent("finder")
async def finder(run: Run) -> str:
    return str(await run.step("Look around", find, "tea", limit=5))


async def test_a_read_is_told_when_it_begins_with_its_tool_and_its_arguments(driving: Open) -> None:
    gate = GATES["tea"] = anyio.Event()

    async def let_go(_run: str) -> None:
        gate.set()  # it cannot end before it was told

    async with driving(finder) as control:
        events = await watch(control, finder, on_call=let_go)
        again = await watch(control, finder, "Y")

    (start,), (arguments,) = of(events, "TOOL_CALL_START"), of(events, "TOOL_CALL_ARGS")
    assert start.tool_call_name == "shop.find"
    assert json.loads(arguments.delta) == {"what": "tea", "limit": 5}
    (result,) = of(events, "TOOL_CALL_RESULT")
    assert (result.tool_call_id, result.content) == (start.tool_call_id, "tea: 5")
    assert calls_in(events) == calls_in(again) == [("shop.find", {"what": "tea", "limit": 5})]


async def test_who_comes_while_a_read_is_under_way_is_told_of_it(driving: Open) -> None:
    gate, told = anyio.Event(), list[list[Any]]()
    GATES["tea"] = gate

    async def let_go(_run: str) -> None:
        gate.set()

    async with driving(finder) as control, anyio.create_task_group() as tasks:

        async def come(_run: str) -> None:
            async def look() -> None:
                told.append(await watch(control, finder, "Y", on_call=let_go))

            tasks.start_soon(look)

        await watch(control, finder, on_call=come)

    (events,) = told
    assert [start.tool_call_name for start in of(events, "TOOL_CALL_START")] == ["shop.find"]


async def test_a_read_that_a_cancel_has_stopped_has_a_result_that_says_so(driving: Open) -> None:
    GATES["tea"] = anyio.Event()

    async with driving(finder) as control:
        events = await watch(control, finder, on_call=lambda run: control.cancel(run, who=BOB))

    (result,) = of(events, "TOOL_CALL_RESULT")
    assert result.content == "stopped before it had ended"
    assert events[-1].outcome.type == "cancelled"


async def test_an_effect_is_told_with_its_arguments_by_name_and_secrets_are_dots(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "open sesame")

    @agent("buyer")
    async def buyer(run: Run) -> str:
        password: Any = Secret("SHOP_PASSWORD")
        return str(await run.step("Buy it", order, "tea", password=password))

    async with driving(buyer) as control:
        events = await watch(control, buyer)

    (start,), (arguments,) = of(events, "TOOL_CALL_START"), of(events, "TOOL_CALL_ARGS")
    assert start.tool_call_name == "calls.order"
    assert json.loads(arguments.delta) == {"what": "tea", "password": DOTS}
    assert "sesame" not in repr(events)


async def test_a_model_call_that_fails_is_no_tool_call(driving: Open) -> None:
    @agent("thinker")
    async def thinker(run: Run) -> None:
        await run.step("Think", think)

    async with driving(thinker) as control:
        events = await watch(control, thinker)

    assert of(events, "TOOL_CALL_START") == []
    assert of(events, "TOOL_CALL_RESULT") == []


async def test_arguments_that_are_too_long_to_be_kept_are_not_told_as_none(driving: Open) -> None:
    GATES.clear()

    @agent("wordy")
    async def wordy(run: Run) -> str:
        return str(await run.step("Look around", find, "tea" * 10_000))

    async with driving(wordy) as control:
        events = await watch(control, wordy)
        again = await watch(control, wordy, "Y")

    said = {"…": "the arguments are too long to be kept"}
    assert calls_in(events) == calls_in(again) == [("shop.find", said)]


def shown(**kwargs: Any) -> Any:
    given = Raw(msgspec.json.encode({"args": [], "kwargs": kwargs}))
    return json.loads(shown_arguments("calls.order", given))


def test_long_arguments_are_shortened_and_say_so() -> None:
    assert shown(what="tea", note="x" * 2_000) == {"what": "tea", "note": "x" * 2_000}
    told = shown(what="tea", note="x" * ARGUMENTS_MAX)
    assert told["what"] == "tea"
    assert told["note"].endswith(f"x… ({ARGUMENTS_MAX - 1_000:,} more characters)")
    many = shown(what=["x" * 900] * 200)
    assert many == {"…": "the arguments are too long to be shown"}
