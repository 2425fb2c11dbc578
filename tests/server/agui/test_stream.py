"""What a stream tells does not hang on how quick its reader is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import msgspec
import pytest

from midflight.control import Control
from midflight.kernel.events import RunFinished
from midflight.kernel.phases import Phase
from midflight.kernel.record import Who
from midflight.overriding import override
from midflight.run import Agent
from midflight.server.agui import take_turn
from midflight.server.agui_input import read_input
from midflight.server.agui_stream import Story, Turn
from scenarios.conftest import Open
from server.agui.agents import biller, plain

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(30)]

ANN = Who("ann", channel="agui")


async def turn(control: Control, agent: Agent, **more: Any) -> Turn:
    said = {"threadId": "T", "runId": "X", "messages": [], **more}
    return await take_turn(control, agent, read_input(msgspec.json.encode(said)), ANN)


async def told(control: Control, about: Turn) -> list[Any]:
    with anyio.fail_after(10):
        events = [event async for event in Story(control, about, heartbeat_s=5).told()]
    return [event for event in events if event is not None]


TEA = {"messages": [{"id": "m1", "role": "user", "content": "tea"}]}


async def test_a_run_that_was_quicker_than_its_stream_is_told_as_it_came(driving: Open) -> None:
    async with driving(plain) as control:
        first = await turn(control, plain, **TEA)
        await control.ended(first.run)

        events = await told(control, first)

    assert [event.step_name for event in events if event.type == "STEP_STARTED"] == [
        "Look it up",
        "Order it",
    ]
    assert [event.type for event in events].count("TEXT_MESSAGE_START") == 1  # not the client's own
    assert events[-1].outcome.type == "success"


async def test_what_an_answer_brings_about_is_told_however_late_one_looks(driving: Open) -> None:
    async with driving(biller) as control:
        first = await turn(control, biller, **TEA)
        with anyio.fail_after(10):
            await control.until(first.run, lambda state: state.phase is Phase.WAITING)
        (asked,) = (await told(control, first))[-1].outcome.interrupts
        answer = {"interruptId": asked.id, "status": "resolved", "payload": "approve"}
        second = await turn(control, biller, runId="Y", resume=[answer])
        await control.ended(first.run)

        events = await told(control, second)

    (result,) = (event for event in events if event.type == "TOOL_CALL_RESULT")
    assert (result.tool_call_id, result.content) == (
        asked.tool_call_id,
        "sent an invoice over 100",
    )
    assert [event for event in events if event.type == "TOOL_CALL_START"] == []


async def test_who_looks_again_gets_the_conversation_and_no_second_telling(driving: Open) -> None:
    async with driving(plain) as control:
        first = await turn(control, plain, **TEA)
        once = await told(control, first)
        again = await told(control, await turn(control, plain, runId="Z"))

    assert again[-2].messages == once[-2].messages
    assert [event.type.value for event in again] == [
        "RUN_STARTED",
        "MESSAGES_SNAPSHOT",
        "STATE_SNAPSHOT",
        "STATE_SNAPSHOT",
        "MESSAGES_SNAPSHOT",
        "RUN_FINISHED",
    ]


class ThreadLast:
    """A watch that hears of the thread only when the run has ended, as on a busy machine."""

    def __init__(self, watch: Any) -> None:
        self._watch, self._held, self._ended = watch, list[Any](), False

    async def __aenter__(self) -> ThreadLast:
        await self._watch.__aenter__()
        return self

    async def __aexit__(self, *why: Any) -> None:
        await self._watch.__aexit__(*why)

    def add(self, journal: str, after: int) -> None:
        self._watch.add(journal, after)

    async def __aiter__(self) -> AsyncIterator[Any]:
        while self._ended and self._held:
            yield self._held.pop(0)
        async for item in self._watch:
            if item.journal.startswith("t-") and not self._ended:
                self._held.append(item)
                continue
            self._ended |= isinstance(getattr(item, "event", None), RunFinished)
            yield item


class BusyControl(Control):
    @override
    def watch_live(self, watched: str | Mapping[str, int], after: int = 0) -> Any:
        return ThreadLast(super().watch_live(watched, after))


async def test_the_last_words_are_told_also_when_the_end_is_heard_before_them(
    driving: Open,
) -> None:
    async with driving(plain) as control:
        first = await turn(control, plain, **TEA)
        events = await told(BusyControl(control.store), first)

    *_, messages, ended = events
    assert ended.outcome.type == "success"
    assert [m.content for m in messages.messages if m.role == "assistant" and m.content] == [
        "Done: tea."
    ]
