"""Claude, by the official ``anthropic`` SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Final, cast, get_args

import msgspec
from msgspec import Struct
from typing_extensions import Unpack, override

from midflight.errors import to_install
from midflight.models.model import (
    ID_MAX,
    CallDelta,
    Count,
    Piece,
    Prompt,
    Reply,
    Spent,
    Stop,
    ToolCall,
    ToolSpec,
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

THINKING: Final = {"thinking", "redacted_thinking"}
KEPT: Final = {"type", "id", "text", "thinking", "signature", "data"}

Block = dict[str, Any]


class Thought(Struct, frozen=True):
    """An answer's blocks in their order, and the model that they go back to."""

    model: str
    blocks: list[Block]


def thoughts_to_keep(thought: Thought) -> str:
    """Return the blocks for ``Turn.raw``; empty if none of them is thinking."""
    if not any(block.get("type") in THINKING for block in thought.blocks):
        return ""
    kept = [{k: v for k, v in block.items() if k in KEPT} for block in thought.blocks]
    return msgspec.json.encode(Thought(thought.model, kept)).decode()


def to_request(prompt: Prompt, names: WireNames, model: str) -> dict[str, Any]:
    """Return the arguments of ``messages.create``."""
    request: dict[str, Any] = {
        "model": model,
        "max_tokens": prompt.max_tokens,
        "messages": _messages(prompt.turns, names, model),
    }
    if prompt.system.strip():
        request["system"] = prompt.system
    if prompt.tools:
        request["tools"] = [_tool(tool, names) for tool in prompt.tools]
    if prompt.choice:
        request["tool_choice"] = {
            "type": "tool",
            "name": names.there(prompt.choice),
            "disable_parallel_tool_use": True,
        }
    else:  # a loop asks again with the same beginning, which then costs a tenth
        request["cache_control"] = {"type": "ephemeral"}
    return request


def _tool(tool: ToolSpec, names: WireNames) -> Block:
    schema = tool.schema if tool.schema.get("type") == "object" else {"type": "object"}
    return {
        "name": names.there(tool.name),
        "description": tool.description,
        "input_schema": schema,
    }


def _messages(turns: tuple[Turn, ...], names: WireNames, model: str) -> list[Block]:
    messages: list[Block] = []
    ids = WireNames(longest=ID_MAX)
    for turn in turns:
        role = "assistant" if turn.role == "assistant" else "user"
        blocks = _blocks(turn, names, ids, model)
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].extend(blocks)
        elif blocks:
            messages.append({"role": role, "content": blocks})
    return messages


def _blocks(turn: Turn, names: WireNames, ids: WireNames, model: str) -> list[Block]:
    if turn.role == "tool":
        result: Block = {"type": "tool_result", "tool_use_id": ids.there(turn.call_id)}
        return [result | ({"content": turn.text} if turn.text.strip() else {})]
    calls: dict[str, Block] = {
        call.id: {
            "type": "tool_use",
            "id": ids.there(call.id),
            "name": names.there(call.name),
            "input": call.as_object(),
        }
        for call in turn.calls
    }
    remembered = _remembered(turn, model)
    if remembered is not None:
        return [calls.get(block.get("id", ""), block) for block in remembered if _says(block)]
    return [*([{"type": "text", "text": turn.text}] if turn.text.strip() else []), *calls.values()]


def _remembered(turn: Turn, model: str) -> list[Block] | None:
    """The turn's blocks with their thinking, if this model made them and they are still the turn.

    A turn that was edited since, or goes to another model, is sent without what was thought.
    """
    if not turn.raw:
        return None
    try:
        thought = msgspec.json.decode(turn.raw, type=Thought)
    except msgspec.MsgspecError:  # of another provider
        return None
    said = "".join(b.get("text", "") for b in thought.blocks if b.get("type") == "text")
    called = [b.get("id") for b in thought.blocks if b.get("type") == "tool_use"]
    same = said == turn.text and called == [call.id for call in turn.calls]
    return thought.blocks if same and thought.model == model else None  # layer what-claude-thought


def _says(block: Block) -> bool:
    return block.get("type") != "text" or bool(block.get("text", "").strip())


try:
    import anthropic
except ImportError as missing:
    raise ImportError(
        f"Claude needs the package anthropic, which is not installed: {to_install('anthropic')}"
    ) from missing

KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"

STOPS: Final[dict[str, Stop]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class AnthropicModel:
    """One Claude model. It needs no closing: no connection outlives its call."""

    def __init__(
        self,
        model: str,
        *,
        key: str,
        base_url: str | None = None,
        **bounds: Unpack[Bounds],
    ) -> None:
        self.name = f"anthropic:{model}"
        self._model = model
        self._sdk = Sdk(
            anthropic, anthropic.AsyncAnthropic, self.name, base_url, KEY_VARIABLE, key, **bounds
        )

    @override
    def __repr__(self) -> str:
        """Never the key."""
        return f"AnthropicModel({self._model!r})"

    def stream(self, prompt: Prompt) -> AbstractAsyncContextManager[AsyncIterator[Piece]]:
        """Ask; see ``Model``."""
        return aclosing(self._pieces(prompt))

    async def _pieces(self, prompt: Prompt) -> AsyncGenerator[Piece, None]:
        check_pairing(prompt.turns)  # layer unpaired-call-not-sent-to-claude
        names = WireNames(prompt.tools)
        request = to_request(prompt, names, self._model)
        answer = _Answer(Call(self._sdk), names)

        async def ask() -> SdkStream:
            return cast("SdkStream", await self._sdk.client.messages.create(stream=True, **request))

        async with aclosing(answer.call.events(ask)) as events:
            async for event in events:
                for piece in answer.take(event):
                    answer.call.begun = True
                    yield piece
                if answer.stopped:  # what happens to the connection now does not matter
                    break
        yield answer.reply(self._model)


class _Usage(Struct):
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None


class _Message(Struct):
    model: str
    usage: _Usage


class _Started(Struct, tag="message_start"):
    message: _Message


class _BlockStarted(Struct, tag="content_block_start"):
    index: int
    content_block: dict[str, Any]


class _Delta(Struct):
    type: str
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""


class _BlockGrew(Struct, tag="content_block_delta"):
    index: int
    delta: _Delta


class _Ended(Struct):
    stop_reason: str | None = None


class _MessageGrew(Struct, tag="message_delta"):
    delta: _Ended
    usage: _Usage


class _Stopped(Struct, tag="message_stop"):
    pass


_Event = _Started | _BlockStarted | _BlockGrew | _MessageGrew | _Stopped
_KNOWN: Final = {kind.__struct_config__.tag for kind in get_args(_Event)}


class _Answer:
    """An answer as it grows, block by block."""

    def __init__(self, call: Call, names: WireNames) -> None:
        self.call, self._names = call, names
        self._blocks: dict[int, dict[str, Any]] = {}
        self._used: dict[str, int] = {}
        self._model = ""
        self._stop_reason = ""
        self.stopped = False

    def take(self, raw: dict[str, Any]) -> Iterator[Piece]:
        """The pieces in one event. Kinds of events that we do not know are passed over."""
        if raw.get("type") not in _KNOWN:
            return
        event: _Event = self.call.read(raw, _Event)
        match event:
            case _Started(message=message):
                self._model = message.model
                self._count(message.usage)
            case _BlockStarted(index=index, content_block=block):
                self._blocks[index] = block = {**block, "partial_json": ""}
                yield from self._begin(block)
            case _BlockGrew(index=index, delta=delta):
                if index not in self._blocks:
                    raise self.call.broken(f"a piece of it is for block {index}, which never began")
                yield from self._grow(self._blocks[index], delta)
            case _MessageGrew(delta=delta, usage=usage):
                self._stop_reason = delta.stop_reason or self._stop_reason
                self._count(usage)
            case _Stopped():
                self.stopped = True

    def _begin(self, block: dict[str, Any]) -> Iterator[Piece]:
        if block.get("type") == "tool_use":
            if not (isinstance(block.get("id"), str) and isinstance(block.get("name"), str)):
                raise self.call.broken("a tool call in it has no id or no name")
            yield CallDelta(block["id"], self._names.back(block["name"]), "")
        elif block.get("type") == "text" and block.get("text"):
            yield self.call.say(block["text"])

    def _grow(self, block: dict[str, Any], delta: _Delta) -> Iterator[Piece]:
        match delta.type:
            case "text_delta" if delta.text:
                block["text"] = block.get("text", "") + delta.text
                yield self.call.say(delta.text)
            case "input_json_delta" if delta.partial_json and block.get("type") == "tool_use":
                block["partial_json"] += delta.partial_json
                yield CallDelta(block["id"], self._names.back(block["name"]), delta.partial_json)
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta.thinking
            case "signature_delta":
                block["signature"] = block.get("signature", "") + delta.signature
            case _:
                pass  # citations, and what is yet to be invented

    def reply(self, asked: str) -> Reply:
        """The whole answer, if it is whole."""
        # layer claude-answer-whole-only-after-end
        stop = self.call.stop(self._stop_reason if self.stopped else "", STOPS)
        blocks = [block for _, block in sorted(self._blocks.items())]
        return Reply(
            text="".join(self.call.text),
            calls=tuple(self._call(b) for b in blocks if b.get("type") == "tool_use"),
            spent=self._spent(asked),
            stop=stop,
            raw=thoughts_to_keep(Thought(asked, blocks)),
        )

    def _call(self, block: dict[str, Any]) -> ToolCall:
        arguments = block["partial_json"] or msgspec.json.encode(block.get("input") or {}).decode()
        return ToolCall(block["id"], self._names.back(block["name"]), arguments)

    def _count(self, usage: _Usage) -> None:
        """Figures are cumulative; those that are left out stay as they were."""
        said = msgspec.structs.asdict(usage)
        self._used |= {name: count for name, count in said.items() if count is not None}

    def _spent(self, asked: str) -> Spent:
        used = self._used
        cached = used.get("cache_read_input_tokens", 0)
        written = used.get("cache_creation_input_tokens", 0)
        spent = Spent(
            input_tokens=used.get("input_tokens", 0) + cached + written,
            output_tokens=used.get("output_tokens", 0),
            cached_tokens=cached,
            usd=None,
            model=self._model or asked,
            cache_write_tokens=written,
        )
        return priced(spent, url=self.call.sdk.url, at=self.call.sdk.clock())
