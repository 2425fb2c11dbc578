"""A question on the side: answered from what can be seen, without touching the work."""

from __future__ import annotations

import msgspec

from midflight.assistant.overview import is_trusted, overview
from midflight.assistant.policy import Policy
from midflight.assistant.thinking import Thought, thinking
from midflight.conversation import Spoken
from midflight.models.base import Model, Prompt, Turn
from midflight.run import Run

ASIDE_SYSTEM = (
    "Somebody asks you something on the side while your work goes on untouched. Answer in a few "
    "plain sentences from what you see here. You cannot do anything, only answer; if it needs "
    "doing, say that they can send it as a message."
)


async def answer(run: Run, model: Model, policy: Policy) -> str:
    """Answer the question that is this run's brief; leave out words that a policy asks about."""
    seen = run.input or {}
    said = msgspec.convert(seen.get("transcript", []), list[Spoken])
    if seen.get("untrusted"):
        await run.distrust("the run that is asked about")
    elif not all(map(is_trusted, said)):
        await run.distrust("what was said in the thread")
    brief, status, plan = seen.get("brief", ""), seen.get("status", ""), seen.get("plan", [])
    work = overview(brief, status, plan, said, key=run.id)
    prompt = Prompt(
        ASIDE_SYSTEM, (Turn("user", f"{work}\n\nThe question: {run.brief}"),), max_tokens=600
    )
    thought: Thought = await run.step("Answer", thinking(model, prompt, policy, noun="an answer"))
    return thought.unless_asked.words  # said in the thread by the run's end, once
