"""One thought: a model call as a step. Streamed, priced, and stopped where a policy says so."""

from __future__ import annotations

from msgspec import Struct

from midflight.assistant.policy import Open, Policy, Verdict
from midflight.kernel.record import Usage
from midflight.models.base import Model, Prompt, Reply, Spent, TextDelta
from midflight.tools.base import Tool, declared
from midflight.tools.progress import emit, spend

RETRIES = 4
BACKOFF_S = 1.0
CHARACTERS_A_TOKEN = 4


class Thought(Struct, frozen=True):
    """What came of a model call; ``verdict`` where a policy has cut it short."""

    reply: Reply
    verdict: Verdict = Verdict()

    @property
    def words(self) -> str:
        """What is said of it, and why no more."""
        if self.verdict.action == "allow":
            return self.reply.text
        return f"{self.reply.text} [Stopped here: {self.verdict.why}.]".strip()


def thinking(
    model: Model, prompt: Prompt, policy: Policy | None = None, *, noun: str = "thinking"
) -> Tool:
    """A model call as the function of a step. It may be repeated, and is aborted by a pause."""
    rules = policy or Open()

    async def think() -> Thought:
        return await _think(model, prompt, rules)

    return declared(
        think,
        name=f"model:{model.name}",
        effect="model",
        noun=noun,
        retry=RETRIES,
        backoff=BACKOFF_S,
        reserves=lambda: Usage(tokens=tokens_of(prompt) + prompt.max_tokens),
    )


async def _think(model: Model, prompt: Prompt, rules: Policy) -> Thought:
    said, priced, began = "", False, False
    try:
        async with model.stream(prompt) as pieces:
            async for piece in pieces:
                began = True
                if isinstance(piece, Reply):
                    pay(piece.spent)
                    priced = True
                    return Thought(piece)
                if isinstance(piece, TextDelta):
                    verdict = rules.on_text(said + piece.text)
                    if verdict.action != "allow":
                        return Thought(_cut_short(model, prompt, said), verdict)
                    said += piece.text
                    emit(piece.text)
                else:
                    emit("")  # it is alive
        raise RuntimeError(f"{model.name} has ended without a reply")
    finally:
        if began and not priced:  # what was made before it was cut short is charged all the same
            spend(tokens_of(prompt) + len(said) // CHARACTERS_A_TOKEN)


def pay(spent: Spent) -> None:
    """Count what a call has used."""
    spend(spent.input_tokens + spent.output_tokens, spent.usd)


def _cut_short(model: Model, prompt: Prompt, said: str) -> Reply:
    output = len(said) // CHARACTERS_A_TOKEN
    spent = Spent(tokens_of(prompt), output, 0, None, model.name, estimated=True)
    return Reply(said, (), spent, "end")


def tokens_of(prompt: Prompt) -> int:
    """About how many tokens a prompt has."""
    turns = sum(len(t.text) + sum(len(c.arguments) for c in t.calls) for t in prompt.turns)
    tools = sum(len(t.description) + 4 * len(t.schema) for t in prompt.tools)
    return (len(prompt.system) + turns + tools) // CHARACTERS_A_TOKEN
