"""Thoughts: model calls as steps, stopped where a policy says so. People are asked about some."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midflight.assistant.profile import ALLOW, Open, Policy, Profile, Verdict
from midflight.conversation import stopped_here
from midflight.errors import InvalidRequest, ModelBroken, StepFailed
from midflight.journal.record import Usage
from midflight.models.model import CHARACTERS_PER_TOKEN, CallDelta, Model, Prompt, Reply, Spent
from midflight.run import ApprovalAnswer, Run
from midflight.tools.declaration import Tool, declared
from midflight.tools.options import Retry
from midflight.tools.progress import emit, spend
from midflight.tools.specs import parse

RETRIES = 4
BACKOFF_S = 1.0


class Thought(Struct, frozen=True):
    """The result of a model call; ``verdict`` if a policy has something against it.

    A reply that is to be stopped ends where it was. One to be asked about is whole: ``shown`` is
    how much of it nobody has anything against.
    """

    reply: Reply
    verdict: Verdict = Verdict()
    shown: str = ""

    @property
    def unless_asked(self) -> Thought:
        """The thought without the words that a person would have to be asked about."""
        if self.verdict.action != "ask":
            return self
        stopped = replace(self.reply, text=self.shown, calls=(), raw="", stop="end")
        return Thought(stopped, replace(self.verdict, action="stop"))

    @property
    def words(self) -> str:
        """The words of the reply that are said, and why no more are."""
        if self.verdict.action == "allow":
            return self.reply.text
        return stopped_here(self.reply.text, self.verdict.why)


def thinking(
    model: Model,
    prompt: Prompt,
    policy: Policy | None = None,
    *,
    noun: str = "thinking",
    aloud: bool = True,
) -> Tool:
    """A model call as the function of a step. It may be repeated, and is aborted by a pause.

    What it says is shown as it comes, unless it is not ``aloud``.
    """
    rules = policy or Open()

    async def think() -> Thought:
        return await streamed(model, prompt, rules, aloud=aloud)

    return declared(
        think,
        name=f"model:{model.name}",
        effect="model",
        label=noun,
        retry=Retry(RETRIES, first_after=BACKOFF_S),
        reserves=lambda: Usage(tokens=tokens_of(prompt) + prompt.max_tokens),
    )


async def streamed(model: Model, prompt: Prompt, rules: Policy, *, aloud: bool = True) -> Thought:
    """Ask a model inside a step or a triage; its cost is counted however the call ends."""
    said, shown, made, priced, began = "", "", 0, False, False
    asks = ALLOW
    try:
        async with model.stream(prompt) as pieces:
            async for piece in pieces:
                began = True
                if isinstance(piece, Reply):
                    spend(piece.spent.input_tokens + piece.spent.output_tokens, piece.spent.usd)
                    priced = True
                    return Thought(piece, asks, shown if asks is not ALLOW else "")
                if isinstance(piece, CallDelta):
                    made += len(piece.arguments)
                    emit("")  # it is alive
                    continue
                made += len(piece.text)
                verdict = rules.on_text(said + piece.text)
                if verdict.action == "stop":
                    return Thought(_cut_short(model, prompt, shown), verdict)
                said += piece.text
                if verdict.action == "ask" and asks is ALLOW:
                    asks = verdict
                shown += piece.text if asks is ALLOW else ""
                emit(piece.text if aloud and asks is ALLOW else "")
        raise ModelBroken(model.name, "its stream ended without a reply", said)
    finally:
        if began and not priced:  # text that came before the end is charged all the same
            spend(tokens_of(prompt) + made // CHARACTERS_PER_TOKEN)


def _cut_short(model: Model, prompt: Prompt, said: str) -> Reply:
    output = len(said) // CHARACTERS_PER_TOKEN
    spent = Spent(tokens_of(prompt), output, 0, None, model.name, estimated=True)
    return Reply(said, (), spent, "end")


def tokens_of(prompt: Prompt) -> int:
    """About how many tokens a prompt has."""
    turns = sum(len(t.text) + sum(len(c.arguments) for c in t.calls) for t in prompt.turns)
    tools = sum(len(t.description) + 4 * len(t.schema) for t in prompt.tools)
    return (len(prompt.system) + turns + tools) // CHARACTERS_PER_TOKEN


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
