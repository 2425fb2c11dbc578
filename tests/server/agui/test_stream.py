"""What a stream tells does not hang on how quick its reader is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import msgspec
import pytest
from ag_ui.core import UserMessage
from typing_extensions import override

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.interfaces.agui import agui_state, agui_turn
from midflight.interfaces.agui.agui_input import read_input
from midflight.interfaces.agui.agui_stream import STATE_S, Story
from midflight.interfaces.agui.agui_turn import Turn, take_turn
from midflight.journal.events import AttemptStarted, RunFinished
from midflight.journal.phases import Phase
from midflight.journal.record import Actor, Recorded
from midflight.journal.threads.thread import Said
from midflight.run import Run
from midflight.stores.hints import Delta
from midflight.stores.lookup import Journals
from midflight.tools.declaration import tool
from scenarios.conftest import Open
from server.agui.agents import biller, order, plain

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(30)]

ANN = Actor("ann", channel="agui")


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

    def hear_calls(self) -> None:
        self._watch.hear_calls()

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


class RunLast(ThreadLast):
    """A watch that hears of the run only when the run has spoken in the thread."""

    @override
    async def __aiter__(self) -> AsyncIterator[Any]:
        while self._ended and self._held:
            yield self._held.pop(0)
        async for item in self._watch:
            if item.journal.startswith("r-") and not self._ended:
                self._held.append(item)
                continue
            self._ended |= isinstance(getattr(item, "event", None), Said)
            yield item


class RunLastControl(Control):
    @override
    def watch_live(self, watched: str | Mapping[str, int], after: int = 0) -> Any:
        return RunLast(super().watch_live(watched, after))


async def test_calls_come_before_the_words_that_followed_them_also_when_heard_after_them(
    driving: Open,
) -> None:
    async with driving(plain) as control:
        first = await turn(control, plain, **TEA)
        late = await told(RunLastControl(control.store), first)
        again = await told(control, await turn(control, plain, runId="Z"))

    assert late[-2].messages == again[-2].messages
    assert [type(message).__name__ for message in late[-2].messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
        "ToolMessage",
        "AssistantMessage",
    ]
    assert [event.type for event in late].count("TOOL_CALL_START") == 2


async def test_no_words_are_lost_while_a_slow_store_is_read_for_what_came_before_them(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is due every 100 ms. That must not cut short the reading, and lose the words."""
    async with driving(plain) as control:
        first = await turn(control, plain, **TEA)
        quick = agui_turn.read_within

        async def slow(
            store: Journals, journal: str, after: int = 0, **bounds: float
        ) -> list[Recorded]:
            await anyio.sleep(STATE_S * 2 if after else 0)
            return await quick(store, journal, after, **bounds)

        monkeypatch.setattr(agui_turn, "read_within", slow)
        events = await told(control, first)

    assert events[-1].outcome.type == "success"
    assert events[-2].messages[-1].content == "Done: tea."


class Played:
    """A watch that plays a journal, and 100 words while its first step is under way.

    Each of them takes 10 ms of the clock that it moves.
    """

    def __init__(self, records: list[Recorded]) -> None:
        self.now = 0.0
        self._items: list[Recorded | Delta] = []
        for record in records:
            self._items.append(record)
            if isinstance(record.event, AttemptStarted):
                said = record.journal, record.event.step, record.position
                self._items += [Delta(*said, offset, "x") for offset in range(100)]

    async def __aenter__(self) -> Played:
        return self

    async def __aexit__(self, *why: Any) -> None:
        pass

    def add(self, journal: str, after: int) -> None:
        pass

    def hear_calls(self) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[Any]:
        while self._items:
            self.now += 0.01
            yield self._items.pop(0)


@agent("writer")
async def writer(run: Run) -> str:
    return str(await run.step("Order it", order, what="tea"))


async def test_the_state_is_told_every_100_ms_also_while_text_streams(driving: Open) -> None:
    async with driving(writer) as control:
        about = await turn(control, writer, **TEA)
        await control.ended(about.run)
        thread = await control.store.read(about.thread, after=about.since[about.thread])
        watch = Played([*(await control.store.read(about.run, after=1)), *thread])

        class Playing(Control):
            @override
            def watch_live(self, watched: str | Mapping[str, int], after: int = 0) -> Any:
                return watch

        playing = Playing(control.store)
        story = Story(playing, about, heartbeat_s=5, clock=lambda: watch.now)
        told = [event.type.value async for event in story.told() if event is not None]

    began = told.index("STEP_STARTED")
    words = told[began : told.index("TOOL_CALL_RESULT")]
    (at,) = (at for at, kind in enumerate(words) if kind == "STATE_DELTA")  # it changes once
    assert words[:at].count("TEXT_MESSAGE_CONTENT") <= STATE_S / 0.01


async def test_who_opens_a_thread_is_told_an_open_call_by_events(driving: Open) -> None:
    """assistant-ui offers buttons only for a call that it was told of in this stream."""
    async with driving(biller) as control:
        first = await turn(control, biller, **TEA)
        asked = await told(control, first)

        looked = await told(control, await turn(control, biller, runId="Y"))
        known = await told(control, await turn(control, biller, runId="Z", **TEA))

    (call,) = [event for event in asked if event.type == "TOOL_CALL_START"]
    (again,) = [event for event in looked if event.type == "TOOL_CALL_START"]
    assert (again.tool_call_id, again.parent_message_id) == (
        call.tool_call_id,
        call.parent_message_id,
    )
    opening = next(event for event in looked if event.type == "MESSAGES_SNAPSHOT")
    assert [message.role for message in opening.messages] == ["user"]
    assert [event for event in known if event.type == "TOOL_CALL_START"] == []
    assert looked[-2].messages == known[-2].messages == asked[-2].messages


async def test_calls_with_no_words_between_them_belong_to_one_message(driving: Open) -> None:
    """As assistant-ui shows them: it would show a call of another message twice."""
    async with driving(plain) as control:
        events = await told(control, await turn(control, plain, **TEA))

    calls = [event for event in events if event.type == "TOOL_CALL_START"]
    assert len(calls) == 2
    assert {call.parent_message_id for call in calls} == {calls[0].tool_call_id}
    (holder,) = [one for one in events[-2].messages if getattr(one, "tool_calls", None)]
    assert [call.id for call in holder.tool_calls] == [call.tool_call_id for call in calls]


async def test_words_of_a_person_reach_a_client_of_version_0_as_a_snapshot(driving: Open) -> None:
    """And one of 1.0: assistant-ui takes every text message that is streamed for the agent's."""
    async with driving(plain) as control:
        old = await turn(control, plain, **TEA)
        new = await turn(control, plain, protocolVersion="1.0", **TEA)
        since = dict.fromkeys((old.thread, old.run), 1)
        told_old = await told(control, msgspec.structs.replace(old, since=since))
        told_new = await told(control, msgspec.structs.replace(new, since=since))

    def people(events: list[Any]) -> list[Any]:
        return [e for e in events if e.type == "TEXT_MESSAGE_START" and e.role == "user"]

    for events in (told_old, told_new):
        assert people(events) == []
        first, then, *_ = [
            [message.role for message in event.messages]
            for event in events
            if event.type == "MESSAGES_SNAPSHOT"
        ]
        assert ("user" in first, "user" in then) == (False, True)


async def test_a_look_back_makes_no_snapshot_for_each_record(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation is as long as its thread: one for each record would take for ever."""
    made = 0
    messages = Story._messages

    def counted(self: Story) -> Any:
        nonlocal made
        made += 1
        return messages(self)

    monkeypatch.setattr(Story, "_messages", counted)
    async with driving(plain) as control:
        await told(control, await turn(control, plain, **TEA))
        made = 0
        looked = await told(control, await turn(control, plain, runId="Y"))

    shown = [event for event in looked if event.type == "MESSAGES_SNAPSHOT"]
    assert (len(shown), made) == (2, 1)  # who has nothing yet is shown the first one in parts


@tool(effect="read", name="agui-stream.fetch")
async def fetch_much() -> str:
    return "x" * 50_000


@agent()
async def wordy(run: Run) -> None:
    await run.step("Fetch", fetch_much)


async def test_of_a_long_thread_the_newest_is_read_and_sent_and_the_reader_is_told(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agui_turn, "LOOK_BACK_BYTES_MAX", 120_000)
    monkeypatch.setattr(agui_state, "MESSAGES_BYTES_MAX", 80_000)
    async with driving(wordy) as control:
        said = []
        for number in range(6):
            said.append({"id": f"m{number}", "role": "user", "content": f"{number}" * 1_000})
            one = await turn(control, wordy, runId=f"X{number}", messages=said)
            with anyio.fail_after(10):
                await control.ended(one.run)
        story = Story(control, await turn(control, wordy, runId="Z"), heartbeat_s=5)
        with anyio.fail_after(10):
            events: list[Any] = [event async for event in story.told() if event]

    assert len(story.runs) == 3, "the newest, and two that the bound holds"
    warned = [event.value for event in events if event.type == "CUSTOM"]
    assert warned == [agui_turn.RUNS_LEFT_OUT, agui_state.MESSAGES_LEFT_OUT]
    shown = [event for event in events if event.type == "MESSAGES_SNAPSHOT"]
    assert len(shown) >= 2
    for snapshot in shown:
        assert len(snapshot.model_dump_json()) < 90_000
        assert snapshot.messages[0].role != "tool"
        assert "m5" in [message.id for message in snapshot.messages]


async def test_a_short_thread_is_told_whole_and_without_a_warning(driving: Open) -> None:
    async with driving(wordy) as control:
        first = await turn(control, wordy, **TEA)
        events = await told(control, first)
    assert "midflight:warning" not in [getattr(event, "name", "") for event in events]


def test_the_newest_message_is_sent_however_large_it_is() -> None:
    small, large = UserMessage(id="a", content="a"), UserMessage(id="b", content="b" * 1_000)
    assert agui_state.newest_within([small, large], 500) == [large]
    assert agui_state.newest_within([large, small], 500) == [small]
    assert agui_state.newest_within([], 500) == []
