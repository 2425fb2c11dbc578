"""A prompt as the Messages API takes it.

It wants turns of users and assistants in alternation, the results of calls first in the turn after
them, no blank text, and its own thinking back unchanged as long as its tools are being used.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from midflight.models.base import Prompt, ToolSpec, Turn
from midflight.models.naming import ID_MAX, WireNames

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
    return thought.blocks if same and thought.model == model else None


def _says(block: Block) -> bool:
    return block.get("type") != "text" or bool(block.get("text", "").strip())
