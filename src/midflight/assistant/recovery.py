"""After a failure a person is asked: try again, otherwise, without it, or not at all."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from midflight.assistant.profile import Profile
from midflight.assistant.thinking import Thought, thinking
from midflight.errors import InvalidRequest, StepFailed
from midflight.models.base import Prompt
from midflight.run import Run
from midflight.tools.declaration import Tool
from midflight.tools.specs import parse

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
