"""Interruptible agents: pause, redirect, cancel or resume them while they work, even after a crash.

An agent is a plain ``async def`` that gets a ``Run``; ``Control`` is what people have over it.
"""

from midflight.control import Control, local
from midflight.conversation import Choice, Message, Spoken, TriageView, rule_triage
from midflight.errors import MidflightError, Refused, StepFailed, StoreError
from midflight.guards import Age, FileContent, Fingerprint, Guard, SqlRow
from midflight.kernel.phases import Phase
from midflight.kernel.record import Limits, Who
from midflight.run import Agent, Answer, Approval, Child, Redirected, Run, agent
from midflight.stores.base import Store
from midflight.stores.opening import open_store
from midflight.tools.base import ChangedSince, Done, NotDone, Performed, Unclear, tool
from midflight.tools.progress import emit, spend
from midflight.tools.secret import Secret
from midflight.verbs import Accepted

__all__ = [
    "Accepted",
    "Age",
    "Agent",
    "Answer",
    "Approval",
    "ChangedSince",
    "Child",
    "Choice",
    "Control",
    "Done",
    "FileContent",
    "Fingerprint",
    "Guard",
    "Limits",
    "Message",
    "MidflightError",
    "NotDone",
    "Performed",
    "Phase",
    "Redirected",
    "Refused",
    "Run",
    "Secret",
    "Spoken",
    "SqlRow",
    "StepFailed",
    "Store",
    "StoreError",
    "TriageView",
    "Unclear",
    "Who",
    "agent",
    "emit",
    "local",
    "open_store",
    "rule_triage",
    "spend",
    "tool",
]
