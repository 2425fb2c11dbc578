"""Words have one id, from their first token to every later snapshot, and are shown once.

The screen here adds what comes by its id and drops nothing by itself, as user interfaces do. So the
last snapshot of a stream has to be what the screen shows already.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec
import pytest
from ag_ui.core import Message

from midflight.agents import Agent, agent
from midflight.assistant import Profile, assistant
from midflight.control import Control
from midflight.errors import ModelBusy
from midflight.interfaces.agui.agui_input import read_input
from midflight.interfaces.agui.agui_messages import Speech
from midflight.interfaces.agui.agui_stream import Story
from midflight.interfaces.agui.agui_turn import take_turn
from midflight.journal.phases import Phase
from midflight.journal.record import Actor
from midflight.journal.threads.thread import Said
from midflight.models.model import Prompt
from midflight.models.scripted import Line, ScriptedModel, call_all, say
from midflight.run import Run
from midflight.stores.hints import Delta
from midflight.tools.declaration import tool
from midflight.tools.options import EffectName
from midflight.tools.progress import emit
from scenarios.conftest import Open

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(60)]

ANN, BOB = Actor("ann", channel="agui"), Actor("bob")
HALF, WHOLE = "The answer is:", "The answer is: forty-two."  # no secret begins with a colon


class Screen:
    """What somebody sees of one stream."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.texts: dict[str, str] = {}
        self.last: dict[str, str] = {}

    def take(self, event: Any) -> None:
        self.events.append(event)
        match event.type.value:
            case "TEXT_MESSAGE_START" if event.role == "assistant":
                self.texts.setdefault(event.message_id, "")
            case "TEXT_MESSAGE_CONTENT" if event.message_id in self.texts:
                self.texts[event.message_id] += event.delta
            case "MESSAGES_SNAPSHOT":
                said = [m for m in event.messages if m.role == "assistant" and m.content]
                self.before, self.last = dict(self.texts), {m.id: m.content for m in said}
                self.texts = dict(self.last)
            case _:
                pass

    @property
    def ended(self) -> Any:
        return self.events[-1]

    def shows(self, *texts: str) -> bool:
        """Whether it shows just that, and did so before the last snapshot too."""
        assert self.before == self.last, "the last snapshot changes nothing"
        assert list(self.last.values()) == list(texts)
        return True

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type.value == kind]


async def watch(
    control: Control,
    works: Agent,
    run_id: str = "X",
    on_text: Callable[[str], Awaitable[Any]] | None = None,
    **more: Any,
) -> Screen:
    """Follow one AG-UI run to its end; ``on_text`` is called once, with our run, in mid-text."""
    messages = [{"id": "m1", "role": "user", "content": "go"}]
    given = {"threadId": "T", "runId": run_id, "messages": messages, "protocolVersion": "1.0"}
    turn = await take_turn(control, works, read_input(msgspec.json.encode(given | more)), ANN)
    screen, called = Screen(), False
    async for event in Story(control, turn, heartbeat_s=5).told():
        if event is None:
            continue
        screen.take(event)
        if on_text is not None and not called and HALF in screen.texts.values():
            called = True
            await on_text(turn.run)
    return screen


def clerk(name: str, *lines: Line) -> Agent:
    @tool(effect="read", name=f"{name}.look")
    async def look(what: str) -> str:
        return f"{what} is fine"

    profile = Profile(ScriptedModel(lines, name=f"{name}-model"), [look])
    return assistant(name, profile, delegates=False)


async def test_words_before_a_tool_call_stay_and_the_answer_is_shown_once(driving: Open) -> None:
    asks = call_all(("one_look", {"what": "stock"}), text="Let me look.")
    works = clerk("one", asks, say(WHOLE))

    async with driving(works) as control:
        screen = await watch(control, works)
        again = await watch(control, works, "Y")

    assert screen.shows("Let me look.", WHOLE)
    (called,) = screen.of("TOOL_CALL_START")
    assert screen.last[called.parent_message_id] == "Let me look."
    assert again.last == screen.last, "a reload shows the same under the same ids"


async def test_a_tool_call_without_words_belongs_to_the_model_call_too(driving: Open) -> None:
    wants = [("silent_look", {"what": "stock"}), ("silent_look", {"what": "till"})]
    works = clerk("silent", call_all(*wants), say(WHOLE))

    async with driving(works) as control:
        screen = await watch(control, works)

    messages = screen.of("MESSAGES_SNAPSHOT")[-1].messages
    (caller,) = (m for m in messages if m.role == "assistant" and m.tool_calls)
    assert {e.parent_message_id for e in screen.of("TOOL_CALL_START")} == {caller.id}
    assert [c.id for c in caller.tool_calls] == [
        e.tool_call_id for e in screen.of("TOOL_CALL_START")
    ]


async def test_who_comes_back_in_mid_text_gets_the_rest_under_the_same_id(driving: Open) -> None:
    more = anyio.Event()
    works = clerk("back", say(WHOLE, piece=len(HALF), pieces=1, until=more))
    seen: list[dict[str, str]] = []

    async with driving(works) as control, anyio.create_task_group() as tasks:

        async def again() -> None:
            seen.append((await watch(control, works, "Y", on_text=go_on)).last)

        async def come_back(_run: str) -> None:
            tasks.start_soon(again)

        async def go_on(_run: str) -> None:
            more.set()

        screen = await watch(control, works, on_text=come_back)

    assert screen.shows(WHOLE)
    assert seen == [screen.last]


async def test_a_model_call_that_is_tried_again_is_shown_once(driving: Open) -> None:
    busy = ModelBusy("busy", "it is overloaded", retry_after=0.01)
    works = clerk(
        "busy", say(WHOLE, piece=len(HALF), pieces=1, error=busy), say("No, forty-three.")
    )

    async with driving(works) as control:
        screen = await watch(control, works)
        again = await watch(control, works, "Y")

    assert screen.shows("No, forty-three.")
    assert again.last == screen.last


async def test_words_of_a_cancelled_answer_stay_as_they_are(driving: Open) -> None:
    works = clerk("cut", say(WHOLE, piece=len(HALF), pieces=1, until=anyio.Event()))

    async with driving(works) as control:
        screen = await watch(control, works, on_text=lambda run: control.cancel(run, who=BOB))
        again = await watch(control, works, "Y")

    assert screen.before == screen.last == again.last
    assert HALF in screen.last.values()
    assert screen.ended.outcome.type == "cancelled"


async def test_words_before_a_redirect_stay_and_the_new_answer_is_another_message(
    driving: Open,
) -> None:
    held = say(WHOLE, piece=len(HALF), pieces=1, until=anyio.Event())
    works = clerk("turned", held, say("In French: quarante-deux."))

    async with driving(works) as control:
        screen = await watch(
            control, works, on_text=lambda run: control.redirect(run, "in French", who=BOB)
        )
        again = await watch(control, works, "Y")

    assert screen.shows(HALF, "In French: quarante-deux.")
    assert again.last == screen.last


async def test_an_answer_that_was_paused_in_mid_text_is_shown_once_after_its_resume(
    driving: Open,
) -> None:
    held = say(WHOLE, piece=len(HALF), pieces=1, until=anyio.Event())
    works = clerk("paused", held, say(WHOLE))

    async with driving(works) as control:
        first = await watch(control, works, on_text=lambda run: control.pause(run, who=BOB))
        (paused,) = first.ended.outcome.interrupts
        answer = {"interruptId": paused.id, "status": "resolved", "payload": {"action": "resume"}}
        second = await watch(control, works, "Y", resume=[answer])
        again = await watch(control, works, "Z")

    assert first.shows(HALF)
    assert second.shows(WHOLE)
    assert again.last == second.last


def streams(effect: EffectName, result: Any) -> Any:
    """A tool that says its answer piece by piece, and gives back something."""

    @tool(effect=effect, name=f"own.{effect}.{type(result).__name__}")
    async def answer() -> Any:
        for piece in ("The answer ", "is: ", "forty-two."):
            emit(piece)
        return result

    return answer


@pytest.mark.parametrize("effect", ["model", "read"])
@pytest.mark.parametrize("result", [WHOLE, {"answer": [42]}], ids=["text", "data"])
@pytest.mark.parametrize("ending", ["", " Ask me more."])
async def test_an_agent_of_ones_own_that_streams_and_says_it_is_shown_once(
    effect: EffectName, result: Any, ending: str, driving: Open
) -> None:
    answer = streams(effect, result)

    @agent("own")
    async def works(run: Run) -> None:
        await run.step("Answer", answer)
        await run.say(WHOLE + ending)

    async with driving(works) as control:
        screen = await watch(control, works)
        again = await watch(control, works, "Y")

    assert screen.shows(WHOLE + ending)
    assert again.last == screen.last


async def test_what_a_model_of_ones_own_has_streamed_stays_also_if_nothing_is_said(
    driving: Open,
) -> None:
    answer = streams("model", {"answer": [42]})

    @agent("mute")
    async def works(run: Run) -> int:
        await run.step("Answer", answer)
        return 42

    async with driving(works) as control:
        screen = await watch(control, works)
        again = await watch(control, works, "Y")

    assert screen.shows(WHOLE)
    assert again.last == screen.last


async def test_a_run_that_was_quicker_than_its_stream_tells_its_words_all_the_same(
    driving: Open,
) -> None:
    works = clerk("quick", say(WHOLE))
    given = {
        "threadId": "T",
        "runId": "X",
        "messages": [{"id": "m", "role": "user", "content": "go"}],
    }

    async with driving(works) as control:
        turn = await take_turn(control, works, read_input(msgspec.json.encode(given)), ANN)
        await control.until(turn.run, lambda state: state.phase is Phase.DONE)
        screen = Screen()
        async for event in Story(control, turn, heartbeat_s=5).told():
            if event is not None:
                screen.take(event)

    assert screen.shows(WHOLE)


async def test_a_summary_that_the_model_makes_for_itself_is_not_shown(driving: Open) -> None:
    looks = iter(range(12))

    def script(prompt: Prompt) -> Line:
        if "Sum up" in prompt.turns[-1].text:
            return say("A summary.")
        number = next(looks, None)
        if number is None:
            return say(WHOLE)
        return call_all(("long_look", {"what": f"{number} {'x' * 400}"}))

    @tool(effect="read", name="long.look")
    async def look(what: str) -> str:
        return f"{what} is fine"

    model = ScriptedModel(script, name="long-model")
    works = assistant("long", Profile(model, [look], context_tokens=500), delegates=False)

    async with driving(works) as control:
        screen = await watch(control, works)

    assert any("Sum up" in prompt.turns[-1].text for prompt in model.prompts)
    assert screen.shows(WHOLE)


def test_words_that_were_said_in_the_thread_stay_whole_when_the_attempt_is_heard_of_later() -> None:
    messages: dict[str, Message] = {}
    speech = Speech(messages)
    list(speech.hear("r-1", Delta("r-1", "Answer", 4, 0, HALF)))
    said = Said(run="r-1", text=f"{WHOLE} Ask me more.", step="Answer", attempt=4)
    known = speech.said("r-1", said)
    assert known is not None
    list(speech.say(known, said.text))

    list(speech.ended("r-1", "Answer", 4, done=True, said=WHOLE))

    assert [message.content for message in messages.values()] == [said.text]
