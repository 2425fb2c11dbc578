"""A conversation as each provider takes it: whatever happened in it, the next request is valid."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from midflight.errors import UnpairedCall
from midflight.models.model import Prompt, ToolCall, ToolSpec, Turn, WireNames, complete, fits
from models.conftest import ASKING, READ, Opened
from models.standin import StandIn, calls, says

pytestmark = pytest.mark.anyio


def after(*turns: Turn, tools: tuple[ToolSpec, ...] = (READ,), **more: Any) -> Prompt:
    return Prompt("Be brief.", (Turn("user", "Go on."), *turns), tools, **more)


def called(*given: tuple[str, str, str], text: str = "") -> Turn:
    return Turn("assistant", text, tuple(ToolCall(*each) for each in given))


CONVERSATIONS = {
    "two calls": (
        called(("a", "read_file", "{}"), ("b", "read_file", "{}")),
        Turn("tool", "one", call_id="b"),
        Turn("tool", "two", call_id="a"),
    ),
    "a message after the results": (
        called(("a", "read_file", "{}"), text="I look."),
        Turn("tool", "one", call_id="a"),
        Turn("user", "Also b.txt."),
        Turn("user", "And c.txt."),
    ),
    "arguments that are no JSON": (
        called(("a", "read_file", '{"path')),
        Turn("tool", "invalid arguments", call_id="a"),
    ),
    "an empty result": (called(("a", "read_file", "{}")), Turn("tool", "", call_id="a")),
    "a blank result": (called(("a", "read_file", "{}")), Turn("tool", " \n", call_id="a")),
    "an empty answer": (Turn("assistant", ""), Turn("user", "Well?")),
    "a blank answer beside a call": (
        called(("a", "read_file", "{}"), text="\n\n"),
        Turn("tool", "one", call_id="a"),
    ),
    "a tool that is gone": (
        called(("a", "crm.search/old", "{}")),
        Turn("tool", "one", call_id="a"),
    ),
    "ids of another provider": (
        called(("functions.read:0", "read_file", "{}"), ("functions_read_0", "read_file", "{}")),
        Turn("tool", "one", call_id="functions.read:0"),
        Turn("tool", "two", call_id="functions_read_0"),
    ),
    "an id that is very long": (
        called(("x" * 90, "read_file", "{}"), ("x" * 91, "read_file", "{}")),
        Turn("tool", "one", call_id="x" * 90),
        Turn("tool", "two", call_id="x" * 91),
    ),
}


@pytest.mark.parametrize("turns", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
async def test_a_provider_takes_the_conversation(
    standin: StandIn, opened: Opened, turns: tuple[Turn, ...]
) -> None:
    standin.script(says("Fine."))

    reply = await complete(opened(), after(*turns))

    assert reply.text == "Fine."


async def test_nothing_is_sent_when_a_call_has_no_result(standin: StandIn, opened: Opened) -> None:
    with pytest.raises(UnpairedCall, match="tool call a"):
        await complete(opened(), after(called(("a", "read_file", "{}"))))

    assert standin.requests == []


async def test_a_tool_that_must_be_called_is_named_to_the_provider(standin: StandIn) -> None:
    standin.script(calls(("read_file", {})), calls(("read_file", {})))
    prompt = replace(ASKING, choice="read_file", max_tokens=99)

    await complete(standin.anthropic(), prompt)
    await complete(standin.openai(), prompt)

    claude, chat = (request.body for request in standin.requests)
    assert claude["tool_choice"]["name"] == "read_file"
    assert chat["tool_choice"]["function"]["name"] == "read_file"
    assert claude["max_tokens"] == chat["max_tokens"] == 99


async def test_a_tool_keeps_its_name_on_the_way_there_and_back(
    standin: StandIn, opened: Opened
) -> None:
    tools = tuple(replace(READ, name=name) for name in ("crm.read", "crm_read", "crm/read"))
    standin.script(calls(("crm_read_2", {}), ("crm_read", {}), ("made_up", {})))

    reply = await complete(opened(), replace(ASKING, tools=tools))

    assert [call.name for call in reply.calls] == ["crm.read", "crm_read", "made_up"]


@given(st.lists(st.text(max_size=80), max_size=8, unique=True))
def test_no_two_names_become_one(names: list[str]) -> None:
    wire = WireNames([ToolSpec(name, "", {}) for name in names])

    sent = [wire.there(name) for name in names]

    assert all(fits(name) for name in sent)
    assert [wire.back(name) for name in sent] == names


async def test_what_claude_thought_goes_back_unchanged_beside_its_calls(standin: StandIn) -> None:
    standin.script(calls(("read_file", {"path": "a"}), text="Hm.", thinking="Let me see."))
    model = standin.anthropic()
    reply = await complete(model, ASKING)
    turn, result = reply.as_turn(), Turn("tool", "hello", call_id=reply.calls[0].id)

    standin.script(says("It says hello."))
    await complete(model, replace(ASKING, turns=(*ASKING.turns, turn, result)))

    assert standin.requests[1].body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"},
        {"type": "text", "text": "Hm."},
        {"type": "tool_use", "id": "call_0", "name": "read_file", "input": {"path": "a"}},
    ]


@pytest.mark.parametrize("change", ["another model", "another text", "fewer calls"])
async def test_what_was_thought_is_left_out_once_it_does_not_belong(
    standin: StandIn, change: str
) -> None:
    standin.script(calls(("read_file", {}), text="Hm.", thinking="Let me see."), says("Fine."))
    turn = (await complete(standin.anthropic(), ASKING)).as_turn()
    model = standin.anthropic("claude-other") if change == "another model" else standin.anthropic()
    turn = replace(turn, text="Edited.") if change == "another text" else turn
    turn = replace(turn, calls=()) if change == "fewer calls" else turn
    results = [Turn("tool", "x", call_id=call.id) for call in turn.calls]

    await complete(model, replace(ASKING, turns=(*ASKING.turns, turn, *results, ASKING.turns[0])))

    kinds = [block["type"] for block in standin.requests[1].body["messages"][1]["content"]]
    assert kinds == (["text"] if change == "fewer calls" else ["text", "tool_use"])


async def test_a_conversation_goes_on_with_another_provider(standin: StandIn) -> None:
    standin.script(calls(("read_file", {}), thinking="Let me see."), says("Fine."))
    turn = (await complete(standin.anthropic(), ASKING)).as_turn()
    result = Turn("tool", "hello", call_id=turn.calls[0].id)

    reply = await complete(standin.openai(), replace(ASKING, turns=(*ASKING.turns, turn, result)))

    assert reply.text == "Fine."


texts = st.text(max_size=6)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Turn, ...]:
    turns, count = [Turn("user", "Begin.")], 0
    for _ in range(draw(st.integers(0, 4))):
        wanted = draw(st.lists(st.tuples(texts, texts), max_size=3))
        made = tuple(ToolCall(f"c{count + n}", *pair) for n, pair in enumerate(wanted))
        count += len(made)
        turns.append(Turn("assistant", draw(texts), made))
        turns += [
            Turn("tool", draw(texts), call_id=call.id) for call in draw(st.permutations(made))
        ]
        turns += [Turn("user", said) for said in draw(st.lists(texts, max_size=2))]
        if turns[-1].role == "assistant":
            turns.append(Turn("user", "Go on."))
    return (*turns, Turn("user", "And?"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_any_paired_conversation_is_taken(kind: str) -> None:
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(conversations())
    def taken(turns: tuple[Turn, ...]) -> None:
        anyio.run(ask, turns)

    async def ask(turns: tuple[Turn, ...]) -> None:
        async with StandIn() as standin:
            standin.script(says("Fine."))
            await complete(getattr(standin, kind)(), replace(ASKING, turns=turns))

    taken()
