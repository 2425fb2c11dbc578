"""A question on the side: answered from what can be seen, without touching the work."""

from __future__ import annotations

from midflight.assistant.thinking import Thought, thinking
from midflight.assistant.words import short
from midflight.models.base import Model, Prompt, Turn
from midflight.run import Run

SYSTEM = (
    "Somebody asks you something on the side while your work goes on untouched. Answer in a few "
    "plain sentences from what you see here. You cannot do anything, only answer; if it needs "
    "doing, say that they can send it as a message."
)


async def answer(run: Run, model: Model) -> str:
    """Answer the question that is this run's brief."""
    seen = run.input or {}
    said = "\n".join(f"{who}: {short(text, 300)}" for who, text in seen.get("transcript", []))
    plan = "\n".join(f"- {step}" for step in seen.get("plan", [])) or "(none)"
    text = (
        f"The work: {seen.get('brief', '')}\nIt is now: {seen.get('status', '')}\nIts plan:\n{plan}"
        f"\n\nThe conversation so far:\n{said or '(nothing)'}\n\nThe question: {run.brief}"
    )
    prompt = Prompt(SYSTEM, (Turn("user", text),), max_tokens=600)
    thought: Thought = await run.step("Answer", thinking(model, prompt, noun="an answer"))
    await run.say(thought.reply.text)
    return thought.reply.text
