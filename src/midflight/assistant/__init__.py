"""The reference agent: a model, tools, and a loop of one page that you may copy.

It is built only on the public API, so an agent of your own can do all that it can. ``loop.py`` is
the agent; the parts that it puts together are public too, so that a copy of it needs nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from midflight.agents import Agent, Mode, agent
from midflight.assistant import message_triage
from midflight.assistant.dialogue import Conversation, sum_up
from midflight.assistant.loop import work
from midflight.assistant.message_triage import choose
from midflight.assistant.profile import (
    SYSTEM,
    Action,
    Policy,
    Profile,
    Profiles,
    Rules,
    Verdict,
    action,
    delegating,
)
from midflight.assistant.thinking import Thought, asked, consent_to_words, retry_thinking
from midflight.assistant.tool_batch import Acted, act
from midflight.conversation import Choice, TriageView
from midflight.errors import InvalidRequest
from midflight.journal.record import Limits
from midflight.models.model import Model
from midflight.run import Run

__all__ = [
    "LIMITS",
    "SYSTEM",
    "Acted",
    "Action",
    "Conversation",
    "Policy",
    "Profile",
    "Profiles",
    "Rules",
    "Thought",
    "Verdict",
    "act",
    "action",
    "asked",
    "assistant",
    "consent_to_words",
    "retry_thinking",
    "sum_up",
]

LIMITS = Limits(steps=200, seconds=3600.0, tokens=2_000_000, usd=5.0, repeats=3)
"""No run of ours goes on for ever unless somebody says that it may."""

WORKER = ".worker"


def assistant(
    name: str,
    profile: Profile,
    *others: Profile,
    mode: Mode = "immediate",
    limits: Limits = LIMITS,
    delegates: bool = True,
    triage_model: Model | None = None,
) -> Agent:
    """An agent that works with a model and tools, and can be talked to while it does.

    ``others`` are profiles that a redirect can switch to by name. ``triage_model`` answers messages
    while the other one works, and side questions; a small and quick one will do. With ``delegates``
    the model may give work to background runs, of the agent ``NAME.worker`` that comes with it.
    """
    unnamed = [other for other in others if not other.name]
    if unnamed:
        raise InvalidRequest(
            f"agent {name}: a profile to switch to needs a name. Give it Profile(…, name=…)."
        )
    quick = triage_model or profile.model
    working = Profiles(profile, others)
    leading = working.with_action(delegating(name + WORKER)) if delegates else working

    async def lead(run: Run) -> str:
        return await work(run, leading)

    async def assist(run: Run) -> str:
        return await work(run, working, listens=False)

    async def answer(run: Run) -> str:
        return await message_triage.answer(run, quick, profile.policy)

    async def triage(view: TriageView) -> Sequence[Choice]:
        return await choose(quick, view, profile.policy)

    helper = agent(name + WORKER, mode=mode, limits=limits)(assist)
    return agent(
        name,
        mode=mode,
        limits=limits,
        converses=True,
        triage=triage,
        aside=answer,
        helpers=(helper,) if delegates else (),
    )(lead)
