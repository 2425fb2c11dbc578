"""What a provider refuses: the rules of both, at least as strict as the real ones.

Each function gives the complaint about a request, or nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

Body = dict[str, Any]
FIT = re.compile(r"[A-Za-z0-9_-]{1,64}")


def anthropic_complaint(body: Body) -> str:
    return next(_anthropic(body), "")


def openai_complaint(body: Body) -> str:
    return next(_openai(body), "")


ANTHROPIC_FIELDS = {
    *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream"),
    *("cache_control", "temperature", "thinking", "metadata", "stop_sequences"),
}


def _anthropic(body: Body) -> Iterator[str]:
    for field in set(body) - ANTHROPIC_FIELDS:
        yield f"{field}: Extra inputs are not permitted"
    for field in ("model", "max_tokens", "messages"):
        if not body.get(field):
            yield f"{field}: Field required"
    if not str(body.get("system", "x")).strip():
        yield "system: text content blocks must be non-empty"
    yield from _anthropic_tools(body)
    yield from _anthropic_roles(body["messages"])
    for place, message in enumerate(body["messages"]):
        yield from _anthropic_content(place, message)
    yield from _anthropic_pairs(body["messages"])


def _anthropic_tools(body: Body) -> Iterator[str]:
    names = [tool["name"] for tool in body.get("tools", ())]
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique."
    for place, tool in enumerate(body.get("tools", ())):
        if not FIT.fullmatch(tool["name"]):
            yield f"tools.{place}.custom.name: should match '^[a-zA-Z0-9_-]{{1,64}}$'"
        if tool.get("input_schema", {}).get("type") != "object":
            yield f"tools.{place}.custom.input_schema.type: Field required"
    choice = body.get("tool_choice", {})
    if choice.get("type") == "tool" and choice["name"] not in names:
        yield f"Tool '{choice['name']}' not found in provided tools"


def _anthropic_roles(messages: list[Body]) -> Iterator[str]:
    roles = [message.get("role") for message in messages]
    for place, role in enumerate(roles):
        if role not in {"user", "assistant"}:
            yield f"messages.{place}.role: Input should be 'user' or 'assistant'"
        if place and role == roles[place - 1]:
            yield f"messages.{place}: roles must alternate between user and assistant"
    if roles[0] != "user":
        yield "messages: first message must use the user role"
    if roles[-1] != "user":
        yield "This model does not support assistant message prefill."


def _anthropic_content(place: int, message: Body) -> Iterator[str]:
    content = message.get("content")
    if not content:
        yield f"messages.{place}: all messages must have non-empty content"
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    mine = {"user": {"text", "tool_result"}}.get(
        message["role"], {"text", "tool_use", "thinking", "redacted_thinking"}
    )
    for number, block in enumerate(blocks):
        where = f"messages.{place}.content.{number}"
        if block.get("type") not in mine:
            yield f"{where}: Input tag '{block.get('type')}' found using 'type' does not match"
        if block["type"] == "text" and not str(block["text"]).strip():
            yield f"{where}: text content blocks must contain non-whitespace text"
        if block["type"] == "tool_use" and not isinstance(block.get("input"), dict):
            yield f"{where}.tool_use.input: Input should be a valid dictionary"
        if block["type"] == "tool_use" and not FIT.fullmatch(block["id"]):
            yield f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        if block["type"] == "tool_use" and not FIT.fullmatch(block["name"]):
            yield f"{where}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]+$'"
        if block["type"] == "thinking" and not block.get("signature"):
            yield f"{where}.thinking.signature: Field required"


def _anthropic_pairs(messages: list[Body]) -> Iterator[str]:
    seen: set[str] = set()
    asked: list[str] = []
    for place, message in enumerate(messages):
        blocks = message["content"] if isinstance(message["content"], list) else []
        given = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if asked and sorted(given) != sorted(asked):
            missing = ", ".join(sorted(set(asked) - set(given)))
            if missing:
                yield (
                    f"messages.{place - 1}: `tool_use` ids were found without `tool_result` blocks "
                    f"immediately after: {missing}"
                )
        for one in given:
            if given.count(one) > 1:
                yield f"messages.{place}: each tool_use must have a single result: {one}"
            if one not in asked:
                yield f"messages.{place}: unexpected `tool_use_id` in `tool_result` blocks: {one}"
        if [b["type"] for b in blocks[: len(given)]] != ["tool_result"] * len(given):
            yield f"messages.{place}: `tool_result` blocks must come first"
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if seen & set(asked) or len(set(asked)) < len(asked):
            yield f"messages.{place}: `tool_use` ids must be unique"
        seen |= set(asked)


OPENAI_FIELDS = {
    *("model", "messages", "stream", "stream_options", "tools", "tool_choice"),
    *("max_tokens", "max_completion_tokens", "temperature"),
}


def _openai(body: Body) -> Iterator[str]:
    for field in set(body) - OPENAI_FIELDS:
        yield f"Unrecognized request argument supplied: {field}"
    for field in ("model", "messages"):
        if not body.get(field):
            yield f"Missing required parameter: '{field}'."
    names = [tool["function"]["name"] for tool in body.get("tools", ())]
    for place, name in enumerate(names):
        if not FIT.fullmatch(name):
            yield f"Invalid 'tools[{place}].function.name': string does not match pattern."
    if len(set(names)) < len(names):
        yield "Tool names must be unique."
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice["function"]["name"] not in names:
        yield f"Tool choice '{choice['function']['name']}' not found in 'tools' parameter."
    for place, message in enumerate(body["messages"]):
        yield from _openai_message(place, message)
    yield from _openai_pairs(body["messages"])


def _openai_message(place: int, message: Body) -> Iterator[str]:
    role, calls = message.get("role"), message.get("tool_calls")
    if role not in {"system", "developer", "user", "assistant", "tool"}:
        yield f"Invalid value: '{role}'. Supported values are: 'assistant', 'user', 'tool'"
    if role in {"system", "user"} and not str(message.get("content") or "").strip():
        yield f"Invalid 'messages[{place}].content': content must not be empty."
    if calls == []:
        yield f"[] is too short - 'messages.{place}.tool_calls'"
    if role == "assistant" and not calls and not message.get("content"):
        yield f"Invalid value for 'content': expected a string, got null. messages[{place}]"
    for number, call in enumerate(calls or ()):
        where = f"messages[{place}].tool_calls[{number}]"
        if not 0 < len(call["id"]) <= 40:
            yield f"Invalid '{where}.id': string too long. Expected a maximum length of 40."
        if not FIT.fullmatch(call["function"]["name"]):
            yield f"Invalid '{where}.function.name': string does not match pattern."
        try:
            json.loads(call["function"]["arguments"])
        except ValueError:
            yield f"Invalid '{where}.function.arguments': not valid JSON."


def _openai_pairs(messages: list[Body]) -> Iterator[str]:
    asked: set[str] = set()
    for message in [*messages, {"role": "user"}]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in asked:
                yield (
                    "Invalid parameter: messages with role 'tool' must be a response to a "
                    "preceding message with 'tool_calls'."
                )
            asked.discard(message["tool_call_id"])
        elif asked:
            yield (
                "An assistant message with 'tool_calls' must be followed by tool messages "
                "responding to each 'tool_call_id'. The following tool_call_ids did not have "
                f"response messages: {', '.join(sorted(asked))}"
            )
        asked |= {call["id"] for call in message.get("tool_calls") or ()}
