"""Short calls beside the work: the triage of new messages, and answers to side questions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from midflight.assistant.dialogue import STRANGER, TRUSTED, by_role, cut, name, quoted, short
from midflight.assistant.profile import Open, Policy
from midflight.assistant.thinking import Thought, streamed, thinking
from midflight.conversation import REPORT, Choice, Spoken, TriageView
from midflight.models.model import Model, Prompt, ToolSpec, Turn
from midflight.run import Run

SPOKEN = 12  # turns of the conversation that are shown
LINE = 300  # characters of each


def overview(
    brief: str, status: str, plan: Sequence[str], transcript: Sequence[Spoken], *, key: str
) -> str:
    """Return the brief, the status, the plan and the conversation. ``key``: see ``quoted``."""
    steps = "\n".join(f"- {step}" for step in plan) or "(none)"
    said = "\n".join(map(partial(_line, key), transcript[-SPOKEN:])) or "(nothing)"
    return (
        f"The work: {brief}\nIt is now: {status}\nIts plan:\n{steps}\n\n"
        f"The conversation so far:\n{said}"
    )


def is_trusted(spoken: Spoken) -> bool:
    """Return whether only people who may direct the work had a part in these words."""
    if spoken.run:
        return not spoken.untrusted and spoken.kind != REPORT
    return spoken.role in TRUSTED


def _line(key: str, spoken: Spoken) -> str:
    text = short(spoken.text, LINE)
    if is_trusted(spoken):
        return f"{name(spoken.by)}: {text}"
    if spoken.run:
        return quoted(key, f"the run {spoken.run}", text, why=STRANGER)
    return quoted(key, spoken.by, text)


NAME = "triage"
TRIAGE_SYSTEM = (
    "You are the part of an agent that answers messages while another part works. For each message "
    "choose: incorporate (it adds to or corrects the current work), switch (it is something else "
    "and cannot wait: the current work is parked and comes back by itself), or defer (something "
    "else that can wait). When in doubt, incorporate. `say` is one short sentence to the person "
    "that tells what you do about it; if they asked how it goes, answer that."
)
MESSAGE_MAX = 4_000  # characters of one that it is shown


class Chosen(Struct, frozen=True):
    """The model's choice for one message."""

    message: int
    action: Literal["incorporate", "switch", "defer"]
    say: Annotated[str, Meta(description="One short sentence to the person")]
    title: Annotated[str, Meta(description="A few words that name the new work")] = ""


class Choices(Struct, frozen=True):
    """One choice for each message."""

    choices: list[Chosen]


def _schema() -> dict[str, object]:
    (_, parts) = msgspec.json.schema_components([Choices], ref_template="#/$defs/{name}")
    whole: dict[str, object] = parts.pop("Choices")
    return whole | {"$defs": parts}


TOOL = ToolSpec(NAME, "Say what to do about each message.", _schema())


def prompt(view: TriageView) -> Prompt:
    """Return the prompt that asks the model about new messages."""
    news = "\n".join(
        f"Message {message.id} from {name(message.by)}:\n"
        + by_role(view.run, message.by, message.role, cut(message.text, MESSAGE_MAX))
        for message in view.messages
    )
    work = overview(view.brief, view.status, view.plan, view.transcript, key=view.run)
    text = f"{work}\n\nNew messages:\n{news}"
    return Prompt(TRIAGE_SYSTEM, (Turn("user", text),), (TOOL,), max_tokens=600, choice=NAME)


async def choose(model: Model, view: TriageView, policy: Policy | None = None) -> Sequence[Choice]:
    """Ask the model. Messages for which it makes no valid choice are incorporated.

    Words that a policy does not allow are not said; plain ones are said instead.
    """
    rules = policy or Open()

    def said(text: str) -> str:
        return text if rules.on_text(text).action == "allow" else ""

    reply = (await streamed(model, prompt(view), Open())).reply
    known = {message.id for message in view.messages}
    call = next((call for call in reply.calls if call.name == NAME), None)
    if call is None:
        return ()
    try:
        chosen = msgspec.json.decode(call.arguments, type=Choices).choices
    except msgspec.MsgspecError:
        return ()
    return [
        Choice(each.message, each.action, say=said(each.say), title=said(each.title))
        for each in chosen
        if each.message in known
    ]


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
