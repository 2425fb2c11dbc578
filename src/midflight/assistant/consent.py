"""Asking a person for consent, where a policy wants it: to words, or to an action."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from midflight.assistant.policy import ALLOW
from midflight.assistant.thinking import Thought
from midflight.errors import InvalidRequest
from midflight.run import ApprovalAnswer, Run
from midflight.tools.declaration import Tool
from midflight.tools.specs import parse

SHOWN_MAX = 50_000  # bytes; a question shows no more, and nobody consents to what they cannot see


async def consent_to_words(run: Run, thought: Thought) -> Thought | ApprovalAnswer:
    """Return the thought as it may be said, edited or stopped; or what to tell the model."""
    text = thought.reply.text
    if len(text.encode()) > SHOWN_MAX:
        return thought.unless_asked
    said = await run.approve(f"May this be said? {thought.verdict.why}", details=text)
    if said.decision == "approve":
        return Thought(thought.reply, ALLOW)
    if said.decision == "edit":
        edited = (
            said.edit if isinstance(said.edit, str) else msgspec.json.encode(said.edit).decode()
        )
        return Thought(replace(thought.reply, text=edited, raw=""), ALLOW)
    return said if said.decision == "respond" else thought.unless_asked


async def consent_to_action(
    run: Run, called: Tool, arguments: dict[str, Any], why: str
) -> dict[str, Any] | str:
    """Return the arguments of an action that may be made; or, in words, why it may not."""
    said = await run.approve(f"May this be done: {called.name}? {why}", details=arguments)
    match said.decision:
        case "approve":
            return arguments
        case "edit":
            try:
                return parse(called, msgspec.json.encode(said.edit).decode())
            except InvalidRequest as wrong:
                return f"not done; the arguments given by {said.by} do not fit: {wrong}"
        case "respond":
            return f"not done; {said.by} says: {said.respond}"
        case _:
            return f"rejected by {said.by}" if said.by else "not approved by anybody"
