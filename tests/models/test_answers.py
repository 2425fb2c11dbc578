"""Answers of both providers, by their own SDKs over HTTP, as the same pieces and replies."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midflight.models.model import CallDelta, Reply, Spent, TextDelta, ToolCall, complete
from models.conftest import ASKING, Opened
from models.standin import StandIn, calls, says
from models.standin_wire import Answer, WireCall

pytestmark = pytest.mark.anyio


async def test_text_comes_in_pieces_and_then_whole(standin: StandIn, opened: Opened) -> None:
    standin.script(says("Hel", "lo ", "wörld"))

    async with opened().stream(ASKING) as stream:
        pieces = [piece async for piece in stream]

    assert pieces[:-1] == [TextDelta("Hel"), TextDelta("lo "), TextDelta("wörld")]
    assert isinstance(pieces[-1], Reply)
    assert (pieces[-1].text, pieces[-1].calls, pieces[-1].stop) == ("Hello wörld", (), "end")


async def test_tool_calls_come_with_their_arguments(standin: StandIn, opened: Opened) -> None:
    two = (WireCall("c1", "read_file", ('{"pa', 'th":"a"}')), WireCall("c2", "read_file", ("{}",)))
    standin.script(Answer(text=("I look.",), calls=two))

    async with opened().stream(ASKING) as stream:
        pieces = [piece async for piece in stream]

    reply = pieces[-1]
    assert isinstance(reply, Reply)
    assert reply.text == "I look."
    assert reply.calls == (
        ToolCall("c1", "read_file", '{"path":"a"}'),
        ToolCall("c2", "read_file", "{}"),
    )
    assert reply.stop == "tools"
    streamed = [p for p in pieces if isinstance(p, CallDelta) and p.id == "c1"]
    assert "".join(piece.arguments for piece in streamed) == '{"path":"a"}'


async def test_a_call_without_arguments_has_an_empty_object(
    standin: StandIn, opened: Opened
) -> None:
    standin.script(Answer(calls=(WireCall("c1", "read_file", ()),)))

    reply = await complete(opened(), ASKING)

    assert reply.calls == (ToolCall("c1", "read_file", "{}"),)


async def test_arguments_that_are_no_json_are_given_as_they_were_written(
    standin: StandIn, opened: Opened
) -> None:
    standin.script(calls(("read_file", '{"path": ')))

    reply = await complete(opened(), ASKING)

    assert reply.calls[0].arguments == '{"path": '


async def test_what_was_used_is_counted_in_the_same_way(standin: StandIn, opened: Opened) -> None:
    standin.script(says("Hello"))

    spent = (await complete(opened(), ASKING)).spent

    assert spent == Spent(20, 7, 5, None, spent.model, cache_write_tokens=3)
    assert spent.model in {"claude-standin", "gpt-standin"}


async def test_a_server_that_gives_no_figures_is_estimated_and_says_so(standin: StandIn) -> None:
    standin.script(says("x" * 40, usage=False))

    spent = (await complete(standin.openai(), ASKING)).spent

    assert spent.estimated
    assert spent.output_tokens == 10
    assert spent.input_tokens > 10
    assert spent.usd is None


@pytest.mark.parametrize(
    ("kind", "word", "stop"),
    [
        ("anthropic", "end_turn", "end"),
        ("anthropic", "max_tokens", "length"),
        ("anthropic", "model_context_window_exceeded", "length"),
        ("anthropic", "refusal", "refusal"),
        ("openai", "stop", "end"),
        ("openai", "length", "length"),
        ("openai", "content_filter", "refusal"),
    ],
)
async def test_why_an_answer_ended_is_said_in_our_words(
    standin: StandIn, kind: str, word: str, stop: str
) -> None:
    standin.script(says("Hello", stop=word))

    reply = await complete(getattr(standin, kind)(), ASKING)

    assert reply.stop == stop


async def test_an_empty_answer_that_was_finished_is_an_answer(
    standin: StandIn, opened: Opened
) -> None:
    standin.script(says())

    reply = await complete(opened(), ASKING)

    assert (reply.text, reply.calls, reply.stop) == ("", (), "end")


async def test_calls_of_a_careless_server_are_told_apart_and_get_ids(standin: StandIn) -> None:
    careless = (WireCall("", "read_file", ('{"path":"a"}',)), WireCall("", "read_file", ("{}",)))
    standin.script(Answer(calls=careless, stop="stop"))
    ids = iter(["one", "two"])

    reply = await complete(standin.openai(ids=lambda: next(ids)), ASKING)

    assert reply.calls == (
        ToolCall("call_one", "read_file", '{"path":"a"}'),
        ToolCall("call_two", "read_file", "{}"),
    )
    assert reply.stop == "tools"


async def test_two_answers_at_once_do_not_mix(standin: StandIn, opened: Opened) -> None:
    standin.answer_by(lambda _: says("a" * 5, "b" * 5, between_s=0.002))
    model, replies = opened(), list[Reply]()

    async def ask() -> None:
        replies.append(await complete(model, ASKING))

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(ask)

    assert [reply.text for reply in replies] == ["aaaaabbbbb"] * 8


def pieces_of(text: str, at: list[int]) -> tuple[str, ...]:
    places = sorted({0, len(text), *(place % (len(text) + 1) for place in at)})
    return tuple(text[a:b] for a, b in pairwise(places))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_however_an_answer_is_cut_the_reply_is_the_same(kind: str) -> None:
    texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
    places = st.lists(st.integers(0, 60), max_size=6)
    sizes_of_writes = st.lists(st.integers(1, 9), max_size=4)  # bytes: also inside a character

    @settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(texts, st.dictionaries(texts, texts, max_size=2), places, sizes_of_writes)
    def cut(text: str, arguments: Any, at: list[int], sizes: list[int]) -> None:
        whole = calls(("read_file", arguments), text=text)
        written = whole.calls[0].arguments[0]
        split = WireCall("call_0", "read_file", pieces_of(written, at))
        cut = Answer(text=pieces_of(text, at), calls=(split,), cuts=tuple(sizes))

        first, second = anyio.run(both, whole, cut)

        assert first == second
        assert first.text == text
        assert first.calls[0].as_object() == arguments

    async def both(whole: Answer, cut: Answer) -> tuple[Reply, Reply]:
        async with StandIn() as standin:
            standin.script(whole, cut)
            model = getattr(standin, kind)()
            return await complete(model, ASKING), await complete(model, ASKING)

    cut()
