"""The agents of the demo: the analyst by rules and, with a key, also one with a real model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from midflight.agents import Agent
from midflight.assistant import Profile, assistant
from midflight.client import Client
from midflight.demo.analyst import BRIEF, NAME, analyst
from midflight.demo.analyst_tools import HOLD_S, TO, AnalystTools
from midflight.errors import InvalidRequest
from midflight.journal.phases import ENDS
from midflight.journal.record import Actor, Limits
from midflight.models import open_model
from midflight.models.model import Model
from midflight.stores.protocol import Row

MODELLED: Final = f"{NAME}-model"
TITLE: Final = "Churn memo"
DEMO: Final = "demo"
SHORT: Final = f"r-{DEMO}-"
ANTHROPIC: Final = "anthropic:claude-sonnet-5-5"
OPENAI: Final = "gpt-5.4-mini"
MODEL_LIMITS: Final = Limits(steps=200, seconds=3600.0, tokens=500_000, usd=1.0, repeats=3)
RULES: Final = "Midflight demo, with the demo model: rules, offline and free."

SYSTEM: Final = f"""You are an analyst. People watch you work, write to you and change your course.

For a memo on churn risk call set_plan with these six steps, then do them one by one:
1 Fetch customer list  2 Join against MRR  3 Score churn risk  4 Create follow-up tasks
5 Write memo with chart  6 Send memo
Create one task for each customer whom the score lists. The memo has a few plain sentences with the
figures of the score; chart and table are added for you. Before you send it, ask with ask_person who
shall get it; the choices are: {", ".join(TO)}. Sending needs a person's approval; if it is rejected
nothing was sent, and you say so. When the scope changes ("only EU", "top 20", "also include
trials"), score again with it, set the tasks again and rewrite the memo. Give heavy checks to a
background run. Say only figures that a tool has given you."""


class Cast(Struct, frozen=True):
    """The agents of a demo, and which of them is started."""

    agents: list[Agent]
    leading: str
    model_words: str

    async def begin(self, client: Client) -> tuple[str, str]:
        """Go on with a living run, or begin one; return its id and a sentence about it."""
        rows = await client.runs(limit=500)
        living = [row for row in rows if row.phase not in ENDS and not row.parent]
        driven = {agent.name for agent in self.agents}
        ours = [row for row in living if row.agent in driven]
        if ours:
            run = ours[0].journal
            return run, f"It goes on with run {run}, which is {_how(ours[0])}."
        numbers = (row.journal.removeprefix(SHORT) for row in rows)
        last = max((int(number) for number in numbers if number.isdecimal()), default=0)
        demo = client.acting_for(Actor(by=DEMO))
        begun = await demo.start(  # under a short name: its URL is read and typed by people
            self.leading, BRIEF, title=TITLE, key=str(last + 1)
        )
        others = f" {len(living)} of another model wait for it." if living else ""
        return (
            begun.id,
            f"Run {begun.id} has begun: customers, MRR, churn risk, tasks, memo, email.{others}",
        )


def _how(row: Row) -> str:
    return "waiting for you" if row.phase == "waiting" else str(row.phase)


def cast_at(folder: Path, *, pace: float, hold: float | None, model: str) -> Cast:
    """Return the agents over this folder, for the model that is named or has a key."""
    held = HOLD_S if hold is None else hold
    address = model or address_in(os.environ)
    if address == DEMO:
        tools = AnalystTools(folder, pace=pace, hold=held)
        return Cast([analyst(tools)], NAME, RULES)
    opened = open_model(address)
    tools = AnalystTools(folder, pace=pace, hold=held, free=False)
    cap = f"${MODEL_LIMITS.usd:.2f} or {MODEL_LIMITS.tokens:,} tokens"
    words = f"Midflight demo, with {opened.name}: it may cost money, and asks you at {cap}."
    return Cast([modelled(tools, opened), analyst(tools)], MODELLED, words)


def modelled(tools: AnalystTools, model: Model) -> Agent:
    """Return an agent that does the same work with a real model and the same tools."""
    return assistant(
        MODELLED, Profile(model, tools.for_a_model, system=SYSTEM), limits=MODEL_LIMITS
    )


def address_in(environment: Mapping[str, str]) -> str:
    """Return the address of the model that there is a key for, or else of the demo model."""
    url, name = environment.get("OPENAI_BASE_URL", ""), environment.get("OPENAI_MODEL", "")
    if environment.get("ANTHROPIC_API_KEY"):
        return ANTHROPIC
    if url and not name:
        raise InvalidRequest(
            "OPENAI_BASE_URL names a server, but OPENAI_MODEL, the name of the model to use there, "
            "is not set: set it, or say --model openai:NAME@URL, or --model demo. Nothing was "
            "started."
        )
    if url:
        return f"openai:{name}@{url}"
    return f"openai:{name or OPENAI}" if environment.get("OPENAI_API_KEY") else DEMO
