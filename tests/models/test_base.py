"""What is asked and answered is plain data, and every call has its one result."""

from __future__ import annotations

import msgspec
import pytest
from typing_extensions import override

from midflight.errors import ModelBroken, UnpairedCall
from midflight.models.model import Prompt, Reply, Spent, ToolCall, Turn, check_pairing, complete
from midflight.models.scripted import ScriptedModel, say
from models.conftest import ASKING

ASK = Turn("user", "hello")
CALLS = Turn("assistant", calls=(ToolCall("a", "read", "{}"), ToolCall("b", "read", "{}")))


def result(call: str) -> Turn:
    return Turn("tool", "done", call_id=call)


@pytest.mark.parametrize(
    "turns",
    [
        (),
        (ASK,),
        (ASK, CALLS, result("a"), result("b")),
        (ASK, CALLS, result("b"), result("a"), ASK),
        (ASK, Turn("assistant", "hi"), ASK),
    ],
)
def test_calls_with_one_result_each_right_after_them_are_paired(turns: tuple[Turn, ...]) -> None:
    check_pairing(turns)


@pytest.mark.parametrize(
    ("turns", "call", "why"),
    [
        ((ASK, CALLS, result("a")), "b", "no result at the end"),
        ((ASK, CALLS, result("a"), ASK, result("b")), "b", "before the next user turn"),
        ((ASK, CALLS, result("a"), CALLS), "b", "before the next assistant turn"),
        (
            (ASK, CALLS, result("a"), result("a"), result("b")),
            "a",
            "tool call a has a second result. Each",
        ),
        ((ASK, CALLS, result("a"), result("b"), ASK, result("b")), "b", "second result"),
        ((ASK, result("z")), "z", "was never made, yet a result"),
        ((ASK, CALLS, result("a"), result("b"), CALLS), "a", "no id of its own"),
        ((Turn("user", calls=CALLS.calls),), "a", "only the assistant"),
        (
            (Turn("assistant", calls=(ToolCall("", "x", "{}"),)),),
            "without an id",
            "no id of its own",
        ),
    ],
)
def test_a_call_that_is_not_paired_is_named(turns: tuple[Turn, ...], call: str, why: str) -> None:
    with pytest.raises(UnpairedCall, match=why) as caught:
        check_pairing(turns)

    assert caught.value.call == call
    assert "Nothing was sent" in str(caught.value)


def test_prompts_and_replies_come_back_from_a_journal_as_they_were() -> None:
    reply = Reply("x", CALLS.calls, Spent(3, 2, 1, 0.5, "m"), "tools", raw="{}")

    assert msgspec.json.decode(msgspec.json.encode(ASKING), type=Prompt) == ASKING
    assert msgspec.json.decode(msgspec.json.encode(reply), type=Reply) == reply


def test_a_reply_becomes_the_next_turn_with_all_that_belongs_to_it() -> None:
    reply = Reply("x", CALLS.calls, Spent(3, 2, 1, None, "m"), "tools", raw="kept")

    assert reply.as_turn() == Turn("assistant", "x", CALLS.calls, raw="kept")


@pytest.mark.parametrize("written", ["[1]", "{", "3", "nul", '"text"'])
def test_arguments_that_are_no_object_go_back_as_what_was_written(written: str) -> None:
    assert ToolCall("a", "t", written).as_object() == {"INVALID_JSON": written}


def test_no_arguments_are_an_empty_object() -> None:
    assert ToolCall("a", "t", "").as_object() == {}


@pytest.mark.anyio
async def test_text_is_told_as_it_comes_and_the_reply_is_whole() -> None:
    told: list[str] = []

    reply = await complete(ScriptedModel([say("one two three")]), ASKING, told.append)

    assert len(told) > 1
    assert "".join(told) == reply.text == "one two three"


@pytest.mark.anyio
async def test_a_model_that_ends_without_a_reply_gave_no_answer() -> None:
    class Short(ScriptedModel):
        @override
        async def _pieces(self, asked):  # type: ignore[no-untyped-def]
            async for piece in super()._pieces(asked):
                if not isinstance(piece, Reply):
                    yield piece

    with pytest.raises(ModelBroken) as caught:
        await complete(Short([say("half an answ")]), ASKING)

    assert caught.value.partial == "half an answ"
