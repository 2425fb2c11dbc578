"""The provider's stand-in refuses what a provider refuses, and sees who leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from midflight.kit.witnesses import Answer, Call, broken_pairing, happened, keeping, providing


def called(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": name} for name in ids]}


def result(name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name}


SAID = {"role": "user", "content": "go on"}


@pytest.mark.parametrize(
    ("messages", "whole"),
    [
        ([SAID, called("a", "b"), result("b"), result("a"), SAID], True),
        ([SAID, called("a", "b"), result("a"), SAID], False),
        ([SAID, called("a")], False),
        ([SAID, result("a")], False),
        ([SAID, called("a"), result("a"), result("a")], False),
    ],
)
def test_every_call_has_exactly_one_result(messages: list[Any], whole: bool) -> None:
    assert (broken_pairing(messages) == "") is whole


@pytest.mark.anyio
async def test_it_answers_by_script_and_refuses_a_broken_conversation(tmp_path: Path) -> None:
    async with keeping(tmp_path) as ledger, providing(ledger) as provider:
        client = AsyncOpenAI(base_url=provider.url, api_key="x", max_retries=0)
        brief = provider.script("r1", Answer((Call("act", "a1", ms=7),)))
        stream = await client.chat.completions.create(
            model="kit", stream=True, messages=[{"role": "user", "content": brief}]
        )
        chunks = [choice async for chunk in stream for choice in chunk.choices]
        (call,) = [c for choice in chunks for c in choice.delta.tool_calls or ()]
        assert call.function is not None
        assert call.function.arguments == '{"item": "r1/a1", "ms": 7}'

        dangling: Any = [{"role": "user", "content": brief}, called("x"), SAID]
        with pytest.raises(BadRequestError, match="no result for x"):
            await client.chat.completions.create(model="kit", stream=True, messages=dangling)
        await client.close()

    assert provider.complaints["r1"] == ["no result for x"]


@pytest.mark.anyio
async def test_it_notices_a_client_that_leaves_and_sends_no_more(tmp_path: Path) -> None:
    async with keeping(tmp_path) as ledger, providing(ledger) as provider:
        client = AsyncOpenAI(base_url=provider.url, api_key="x", max_retries=0)
        brief = provider.script("r1", Answer(words=4_000, between_ms=2))
        stream = await client.chat.completions.create(
            model="kit", stream=True, messages=[{"role": "user", "content": brief}]
        )
        await ledger.until("r1", happened("word", 3))
        await stream.close()
        await client.close()

        assert await ledger.until("r1", happened("closed"), within_s=10)
        assert sum(one.what == "word" for one in ledger.of("r1")) < 4_000
