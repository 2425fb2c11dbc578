"""The stand-in refuses what the providers refuse: other tests rest on that."""

from __future__ import annotations

from typing import Any

import pytest

from models.standin_rules import anthropic_complaint, openai_complaint

USER = {"role": "user", "content": "hello"}
USES = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": n, "name": "read", "input": {}} for n in ("a", "b")],
}


def given(*ids: str, **more: Any) -> dict[str, Any]:
    results = [{"type": "tool_result", "tool_use_id": each, "content": "x"} for each in ids]
    return {"role": "user", "content": results, **more}


def claude(*messages: Any, **more: Any) -> str:
    return anthropic_complaint({"model": "m", "max_tokens": 1, "messages": [*messages], **more})


def blocks(*content: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": [*content]}


def test_claude_takes_what_is_right() -> None:
    assert claude(USER) == ""
    assert claude(USER, USES, given("b", "a")) == ""


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ((USER, USES, USER), "without `tool_result` blocks immediately after: a, b"),
        ((USER, USES, given("a")), "immediately after: b"),
        ((USER, USES, given("a", "b", "b")), "single result: b"),
        ((USER, USES, given("a", "b", "c")), "unexpected `tool_use_id`"),
        ((given("a"),), "unexpected `tool_use_id`"),
        ((USER, USES, given("a", "b"), USES, given("a", "b")), "must be unique"),
        ((USER, USER), "alternate"),
        ((USES, given("a", "b")), "first message"),
        ((USER, {"role": "assistant", "content": "hi"}), "prefill"),
        (({"role": "system", "content": "hi"},), "role"),
        ((blocks(),), "non-empty content"),
        ((blocks({"type": "text", "text": " "}),), "non-whitespace"),
        ((blocks({"type": "image"}),), "does not match"),
        ((USER, USES, blocks({"type": "text", "text": "x"}, *given("a", "b")["content"])), "first"),
        (
            (USER, blocks({"type": "tool_use", "id": "a", "name": "x", "input": "{}"},
                          role="assistant"), given("a")),
            "valid dictionary",
        ),
    ],
)  # fmt: skip
def test_claude_refuses_what_is_wrong(messages: tuple[Any, ...], why: str) -> None:
    assert why in claude(*messages)


def test_claude_refuses_tools_that_are_wrong() -> None:
    fine = {"name": "read", "input_schema": {"type": "object"}}

    assert claude(USER, tools=[fine]) == ""
    assert "unique" in claude(USER, tools=[fine, fine])
    assert "should match" in claude(USER, tools=[fine | {"name": "a.b"}])
    assert "input_schema" in claude(USER, tools=[fine | {"input_schema": {}}])
    assert "not found" in claude(USER, tools=[fine], tool_choice={"type": "tool", "name": "x"})
    assert "Extra inputs" in claude(USER, made_up=1)


def uses(*ids: str, arguments: str = "{}") -> dict[str, Any]:
    function = {"name": "read", "arguments": arguments}
    made = [{"id": each, "type": "function", "function": function} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def tool(call: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": "x"}


def chat(*messages: Any, **more: Any) -> str:
    return openai_complaint({"model": "m", "messages": [*messages], **more})


def test_chat_takes_what_is_right() -> None:
    assert chat(USER) == ""
    assert chat(USER, uses("a", "b"), tool("b"), tool("a"), USER) == ""


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ((USER, uses("a", "b"), tool("a")), "did not have response messages: b"),
        ((USER, uses("a", "b"), tool("a"), USER, tool("b")), "response messages: b"),
        ((USER, tool("a")), "must be a response to a preceding message"),
        ((USER, uses("a"), tool("a"), tool("a")), "must be a response"),
        (({"role": "robot", "content": "x"},), "Invalid value: 'robot'"),
        (({"role": "user", "content": ""},), "must not be empty"),
        (({"role": "assistant", "content": None},), "expected a string"),
        ((USER, {"role": "assistant", "tool_calls": []}), "too short"),
        ((USER, uses("a", arguments="{"), tool("a")), "not valid JSON"),
        ((USER, uses("a" * 41), tool("a" * 41)), "maximum length of 40"),
    ],
)
def test_chat_refuses_what_is_wrong(messages: tuple[Any, ...], why: str) -> None:
    assert why in chat(*messages)
