"""Chat completions by the official ``openai`` SDK: OpenAI, and every server that speaks as it does.

Ollama, vLLM, llama.cpp and OpenRouter do, each a little differently: calls without an id or an
index, ``stop`` where ``tool_calls`` is meant, no figures of use. This module fills in what they
leave out; where it cannot, it raises an error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Final, cast

import msgspec
from msgspec import Struct
from typing_extensions import Unpack, override

from midflight.errors import to_install
from midflight.inputs import Ids, new_id
from midflight.models.model import (
    CHARACTERS_PER_TOKEN,
    ID_MAX,
    CallDelta,
    Count,
    Piece,
    Prompt,
    Reply,
    Spent,
    Stop,
    ToolCall,
    Turn,
    WireNames,
    check_pairing,
)
from midflight.models.wire import (
    Bounds,
    Call,
    Sdk,
    SdkStream,
    priced,
)

try:
    import openai
except ImportError as missing:
    raise ImportError(
        f"this model needs the package openai, which is not installed: {to_install('openai')}"
    ) from missing

KEY_VARIABLE: Final = "OPENAI_API_KEY"

STOPS: Final[dict[str, Stop]] = {
    "stop": "end",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refusal",
}


class OpenAIModel:
    """One model of one server. It needs no closing: no connection outlives its call."""

    def __init__(
        self,
        model: str,
        *,
        key: str = "",
        base_url: str | None = None,
        ids: Ids = new_id,
        **bounds: Unpack[Bounds],
    ) -> None:
        self.name = f"openai:{model}" + (f"@{base_url}" if base_url else "")
        self._model, self._ids = model, ids
        self._limit = "max_tokens" if base_url else "max_completion_tokens"  # others know the old
        no_key = "none"  # a local server asks for none, and the SDK for any
        self._sdk = Sdk(
            openai,
            openai.AsyncOpenAI,
            self.name,
            base_url,
            KEY_VARIABLE,
            key,
            no_key=no_key,
            **bounds,
        )

    @override
    def __repr__(self) -> str:
        """Never the key."""
        return f"OpenAIModel({self.name.removeprefix('openai:')!r})"

    def stream(self, prompt: Prompt) -> AbstractAsyncContextManager[AsyncIterator[Piece]]:
        """Ask; see ``Model``."""
        return aclosing(self._pieces(prompt))

    async def _pieces(self, prompt: Prompt) -> AsyncGenerator[Piece, None]:
        check_pairing(prompt.turns)  # layer unpaired-call-not-sent-to-chat
        names = WireNames(prompt.tools)
        request = self._request(prompt, names)
        answer = _Answer(Call(self._sdk), names, self._ids)

        async def ask() -> SdkStream:
            made = await self._sdk.client.chat.completions.create(stream=True, **request)
            return cast("SdkStream", made)

        async with aclosing(answer.call.events(ask)) as events:
            async for event in events:
                for piece in answer.take(event):
                    answer.call.begun = True
                    yield piece
        yield answer.reply(self._model, asked=msgspec.json.encode(request["messages"]))

    def _request(self, prompt: Prompt, names: WireNames) -> dict[str, Any]:
        system = [{"role": "system", "content": prompt.system}] if prompt.system.strip() else []
        request: dict[str, Any] = {
            "model": self._model,
            "messages": [*system, *_messages(prompt.turns, names)],
            "stream_options": {"include_usage": True},
            self._limit: prompt.max_tokens,
        }
        if prompt.tools:
            request["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": names.there(tool.name),
                        "description": tool.description,
                        "parameters": tool.schema,
                    },
                }
                for tool in prompt.tools
            ]
        if prompt.choice:
            name = names.there(prompt.choice)
            request["tool_choice"] = {"type": "function", "function": {"name": name}}
        return request


def _messages(turns: tuple[Turn, ...], names: WireNames) -> Iterator[dict[str, Any]]:
    ids = WireNames(longest=ID_MAX)
    for turn in turns:
        if turn.role == "tool":
            yield {"role": "tool", "tool_call_id": ids.there(turn.call_id), "content": turn.text}
        elif turn.calls:
            calls = [
                {
                    "id": ids.there(call.id),
                    "type": "function",
                    "function": {
                        "name": names.there(call.name),
                        "arguments": msgspec.json.encode(call.as_object()).decode(),
                    },
                }
                for call in turn.calls
            ]
            yield {"role": "assistant", "content": turn.text or None, "tool_calls": calls}
        elif turn.text.strip():
            yield {"role": turn.role, "content": turn.text}


class _Function(Struct):
    name: str | None = None
    arguments: str | None = None


class _CallPart(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_CallPart] | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None
    index: int = 0


class _Cached(Struct):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class _Usage(Struct):
    prompt_tokens: Count
    completion_tokens: Count
    prompt_tokens_details: _Cached | None = None


class _Chunk(Struct):
    choices: list[_Choice]
    model: str | None = None
    usage: _Usage | None = None


class _Growing(Struct):
    id: str
    name: str
    arguments: str = ""


class _Answer:
    """An answer as it grows, chunk by chunk."""

    def __init__(self, call: Call, names: WireNames, ids: Ids) -> None:
        self.call, self._names, self._ids = call, names, ids
        self._calls: list[_Growing] = []
        self._at: dict[int, _Growing] = {}  # the call that grows at an index
        self._usage: _Usage | None = None
        self._model = ""
        self._finish = ""
        self._refused = False

    def take(self, raw: dict[str, Any]) -> Iterator[Piece]:
        """The pieces in one chunk."""
        chunk: _Chunk = self.call.read(raw, _Chunk)
        self._model = chunk.model or self._model
        self._usage = chunk.usage or self._usage
        for choice in chunk.choices:
            if choice.index == 0:
                self._finish = choice.finish_reason or self._finish
                if choice.delta is not None:
                    yield from self._grow(choice.delta)

    def _grow(self, delta: _Delta) -> Iterator[Piece]:
        self._refused |= bool(delta.refusal)
        for text in (delta.content, delta.refusal):
            if text:
                yield self.call.say(text)
        for place, part in enumerate(delta.tool_calls or []):
            yield self._grow_call(place if part.index is None else part.index, part)

    def _grow_call(self, index: int, part: _CallPart) -> CallDelta:
        function = part.function or _Function()
        growing = self._at.get(index)
        if growing is None or (part.id and part.id != growing.id):
            if not function.name:
                raise self.call.broken("a tool call in it has no name")
            growing = _Growing(part.id or f"call_{self._ids()}", self._names.back(function.name))
            self._at[index] = growing
            self._calls.append(growing)
        growing.arguments += function.arguments or ""
        return CallDelta(growing.id, growing.name, function.arguments or "")

    def reply(self, model: str, *, asked: bytes) -> Reply:
        """The whole answer, if it is whole."""
        stop = self.call.stop(self._finish, STOPS)  # layer chat-answer-whole-only-with-reason
        stop = "refusal" if self._refused else stop
        calls = tuple(ToolCall(c.id, c.name, c.arguments or "{}") for c in self._calls)
        return Reply(
            text="".join(self.call.text),
            calls=calls,
            spent=self._spent(self._model or model, asked),
            stop="tools" if calls and stop == "end" else stop,
        )

    def _spent(self, model: str, asked: bytes) -> Spent:
        if self._usage is None:
            made = [*self.call.text, *(call.arguments for call in self._calls)]
            return Spent(
                input_tokens=-(-len(asked) // CHARACTERS_PER_TOKEN),
                output_tokens=-(-sum(map(len, made)) // CHARACTERS_PER_TOKEN),
                cached_tokens=0,
                usd=None,
                model=model,
                estimated=True,
            )
        details = self._usage.prompt_tokens_details or _Cached()
        spent = Spent(
            input_tokens=self._usage.prompt_tokens,
            output_tokens=self._usage.completion_tokens,
            cached_tokens=details.cached_tokens or 0,
            usd=None,
            model=model,
            cache_write_tokens=details.cache_write_tokens or 0,
        )
        return priced(spent, url=self.call.sdk.url, at=self.call.sdk.clock())
