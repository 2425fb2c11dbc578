"""Questions to a person: consent where a policy wants it, and what to do after a failure."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midflight.assistant.profile import ALLOW, Profile
from midflight.assistant.thinking import Thought, thinking
from midflight.errors import InvalidRequest, StepFailed
from midflight.models.model import Prompt
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


RETRY, SKIP, CANCEL = "retry", "skip", "cancel"
LABELS = {RETRY: "Try again", SKIP: "Go on without it", CANCEL: "Cancel the run"}


class Skip(Struct, frozen=True):
    """Go on without it."""

    by: str


async def asked(
    run: Run, title: str, profile: Profile, prompt: Prompt, *, aloud: bool = True
) -> Thought:
    """Ask the model; if the call fails, ask a person what to do."""
    while True:
        try:
            thought: Thought = await run.step(
                title, thinking(profile.model, prompt, profile.policy, aloud=aloud)
            )
        except StepFailed as failed:
            await retry_thinking(run, str(failed))
        else:
            return thought


async def retry_thinking(run: Run, error: str) -> None:
    """Ask a person about a model that fails; return to try again, or cancel the run."""
    ways = [RETRY, CANCEL]
    said = await run.ask(f"{error.rstrip('.')}. What now?", schema=_schema(ways))
    if said.payload == CANCEL:
        await run.cancel(error, by=said.by)


async def retry_step(
    run: Run, called: Tool, arguments: dict[str, Any], error: str
) -> dict[str, Any] | Skip:
    """Ask a person about a failed step; return the arguments to try again with, or ``Skip``."""
    edit = {"type": "object", "properties": {"edit": {"type": "object"}}, "required": ["edit"]}
    schema = _schema([RETRY, SKIP, CANCEL])
    schema["oneOf"].append(edit | {"additionalProperties": False})
    schema["x-details"] = arguments
    while True:
        said = await run.ask(f"{error.rstrip('.')}. What now?", schema=schema)
        match said.payload:
            case "retry":
                return arguments
            case {"edit": dict(edited)}:
                try:
                    return parse(called, msgspec.json.encode(edited).decode())
                except InvalidRequest as wrong:
                    error = str(wrong)
            case "cancel":
                await run.cancel(error, by=said.by)
            case _:
                return Skip(said.by)


def _schema(ways: list[str]) -> dict[str, Any]:
    return {"oneOf": [{"enum": ways}], "x-labels": {way: LABELS[way] for way in ways}}
