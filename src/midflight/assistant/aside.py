"""A question on the side: answered from what can be seen, without touching the work."""

from __future__ import annotations

import msgspec

from midflight.assistant.overview import overview
from midflight.assistant.policy import Policy
from midflight.assistant.thinking import Thought, thinking
from midflight.conversation import Spoken
from midflight.models.base import Model, Prompt, Turn
from midflight.run import Run

SYSTEM = (
    "Somebody asks you something on the side while your work goes on untouched. Answer in a few "
    "plain sentences from what you see here. You cannot do anything, only answer; if it needs "
    "doing, say that they can send it as a message."
)


async def answer(run: Run, model: Model, policy: Policy) -> str:
    """Answer the question that is this run's brief. What a policy asks about is not said here."""
    seen = run.input or {}
    said = msgspec.convert(seen.get("transcript", []), list[Spoken])
    work = overview(seen.get("brief", ""), seen.get("status", ""), seen.get("plan", []), said)
    prompt = Prompt(SYSTEM, (Turn("user", f"{work}\n\nThe question: {run.brief}"),), max_tokens=600)
    thought: Thought = await run.step("Answer", thinking(model, prompt, policy, noun="an answer"))
    return thought.unless_asked.words  # said in the thread by the run's end, once
