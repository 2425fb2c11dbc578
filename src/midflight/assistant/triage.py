"""The triage by a model: one short call chooses what to do about new messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from midflight.assistant.overview import overview
from midflight.assistant.policy import Open, Policy
from midflight.assistant.thinking import streamed
from midflight.assistant.words import by_role, cut, name
from midflight.conversation import Choice, TriageView
from midflight.models.base import Model, Prompt, ToolSpec, Turn

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
