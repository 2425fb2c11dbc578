"""The reference agent: a model, tools, and a loop of one page that you may copy.

It is built only on the public API, so an agent of your own can do all that it can. ``loop.py`` is
the agent; the parts that it puts together are public too, so that a copy of it needs nothing else.
"""

from midflight.assistant.acting import Acted, act
from midflight.assistant.actions import Action, action
from midflight.assistant.compaction import sum_up
from midflight.assistant.consent import consent_to_words
from midflight.assistant.context import Conversation
from midflight.assistant.declare import LIMITS, assistant
from midflight.assistant.policy import Policy, Rules, Verdict
from midflight.assistant.profile import SYSTEM, Profile, Profiles
from midflight.assistant.recovery import asked, retry_thinking
from midflight.assistant.thinking import Thought

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
