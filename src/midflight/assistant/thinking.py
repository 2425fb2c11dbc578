"""One thought: a model call as a step. Streamed, priced, and stopped where a policy says so."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from midflight.assistant.profile import ALLOW, Open, Policy, Verdict
from midflight.conversation import stopped_here
from midflight.errors import ModelBroken
from midflight.journal.record import Usage
from midflight.models.model import CHARACTERS_PER_TOKEN, CallDelta, Model, Prompt, Reply, Spent
from midflight.tools.declaration import Tool, declared
from midflight.tools.options import Retry
from midflight.tools.progress import emit, spend

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
