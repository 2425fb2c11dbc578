"""The reference agent: a model, tools, and a loop of one page that you may copy.

It is built only on the public API, so an agent of your own can do all that it can. ``loop.py`` is
the agent; the parts that it puts together are public too, so that a copy of it needs nothing else.
"""

from midflight.assistant.assembly import LIMITS, assistant
from midflight.assistant.dialogue import Conversation, sum_up
from midflight.assistant.person_questions import asked, consent_to_words, retry_thinking
from midflight.assistant.profile import (
    SYSTEM,
    Action,
    Policy,
    Profile,
    Profiles,
    Rules,
    Verdict,
    action,
)
from midflight.assistant.thinking import Thought
from midflight.assistant.tool_batch import Acted, act

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
