"""Answers as each provider streams them: every event as the bytes that go over the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

USED = {"input": 20, "output": 7, "cached": 5, "written": 3}
"""What every answer costs: 20 tokens of input, 5 of them cached and 3 written to the cache."""


class WireCall(Struct, frozen=True):
    """A tool call, with the pieces in which its arguments are sent."""

    id: str
    name: str
    arguments: tuple[str, ...]


class Answer(Struct, frozen=True):
    """One scripted answer. ``says``, ``calls`` and ``fails`` make most of them."""

    text: tuple[str, ...] = ()  # in the pieces in which it is sent
    calls: tuple[WireCall, ...] = ()
    thinking: str = ""
    stop: str = ""  # the provider's own word; left out, the one that fits
    unfinished: bool = False  # ends without saying why
    usage: bool = True
    status: int = 200
    error: str = ""  # the provider's kind of error, with `status`
    code: str = ""
    message: str = "as scripted"
    headers: tuple[tuple[str, str], ...] = ()
    first_after_s: float = 0.0
    between_s: float = 0.0
    events: int | None = None  # only so many are sent; what follows is the `ending`
    ending: str = ""  # "drop" (TCP reset) | "garble" | "error" | "close" | "hang"
    cuts: tuple[int, ...] = ()  # the sizes of the writes, over and over; () = one for each event
    headers_after_s: float = 0.0
    extra: Any = None  # a chunk of any shape, in the middle


def sse(data: Any, event: str = "") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


def anthropic_events(answer: Answer, model: str) -> Iterator[bytes]:
    usage = {
        "input_tokens": USED["input"] - USED["cached"] - USED["written"],
        "cache_read_input_tokens": USED["cached"],
        "cache_creation_input_tokens": USED["written"],
        "output_tokens": 1,
    }
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": model,
    }
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    yield _typed("message_start", message=message)
    yield _typed("ping")
    for index, (block, deltas) in enumerate(_anthropic_blocks(answer)):
        yield _typed("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield _typed("content_block_delta", index=index, delta=delta)
        yield _typed("content_block_stop", index=index)
    if answer.extra is not None:
        yield sse(answer.extra, answer.extra["type"])
    if not answer.unfinished:
        stop = answer.stop or ("tool_use" if answer.calls else "end_turn")
        delta = {"stop_reason": stop, "stop_sequence": None}
        yield _typed("message_delta", delta=delta, usage={"output_tokens": USED["output"]})
        yield _typed("message_stop")


def _anthropic_blocks(answer: Answer) -> Iterator[tuple[Any, list[Any]]]:
    if answer.thinking:
        yield (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": answer.thinking},
                {"type": "signature_delta", "signature": "c2lnbmVk"},
            ],
        )
    if answer.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in answer.text]
        yield {"type": "text", "text": ""}, deltas
    for call in answer.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        pieces = ("", *call.arguments)
        yield block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _typed(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, kind)


def openai_events(answer: Answer, model: str) -> Iterator[bytes]:
    def chunk(choices: list[Any], usage: Any = None) -> bytes:
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1}
        return sse(head | {"model": model, "choices": choices, "usage": usage})

    def delta(finish: str | None = None, **fields: Any) -> bytes:
        return chunk([{"index": 0, "delta": fields, "finish_reason": finish}])

    yield delta(role="assistant", content="")
    for piece in answer.text:
        yield delta(content=piece)
    for index, call in enumerate(answer.calls):
        named = {"name": call.name, "arguments": ""}
        first = {"index": index, "id": call.id, "type": "function", "function": named}
        yield delta(tool_calls=[first])
        for piece in call.arguments:
            yield delta(tool_calls=[{"index": index, "function": {"arguments": piece}}])
    if answer.extra is not None:
        yield sse(json.dumps(answer.extra))
    if not answer.unfinished:
        yield delta(finish=answer.stop or ("tool_calls" if answer.calls else "stop"))
        if answer.usage:
            details = {"cached_tokens": USED["cached"], "cache_write_tokens": USED["written"]}
            used = {"prompt_tokens": USED["input"], "completion_tokens": USED["output"]}
            total = USED["input"] + USED["output"]
            yield chunk([], used | {"total_tokens": total, "prompt_tokens_details": details})
        yield sse("[DONE]")


def anthropic_error(kind: str, message: str, code: str = "") -> Any:
    details = {"details": {"error_code": code}} if code else {}
    error = {"type": kind, "message": message, **details}
    return {"type": "error", "error": error, "request_id": "req_1"}


def openai_error(kind: str, message: str, code: str = "") -> Any:
    return {"error": {"message": message, "type": kind, "param": None, "code": code or None}}
