"""The reference agent: a model, tools, and a loop of one page that you may copy.

Built only on the public API: whatever it can do, an agent of your own can.
"""

from midflight.assistant.actions import Action, action
from midflight.assistant.declare import LIMITS, assistant
from midflight.assistant.policy import Policy, Rules, Verdict
from midflight.assistant.profile import SYSTEM, Profile, Profiles

__all__ = [
    "LIMITS",
    "SYSTEM",
    "Action",
    "Policy",
    "Profile",
    "Profiles",
    "Rules",
    "Verdict",
    "action",
    "assistant",
]
