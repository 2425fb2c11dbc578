"""Interruptible agents: pause, redirect, cancel or resume them while they work, even after a crash.

An agent is a plain ``async def`` that takes a ``Run``, with ``@agent()`` above it. ``local`` opens
a store, drives the runs of agents and gives a ``Control``, with which people and programs start
runs, watch them and interrupt them.

Each name is imported when it is first used, so that a command which needs little starts quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from midflight.control import Control, local
    from midflight.conversation import Choice, Message, Spoken, TriageView, rule_triage
    from midflight.errors import MidflightError, NoResult, Refused, StepFailed, StoreError
    from midflight.guards import Age, FileContent, Fingerprint, Guard, SqlRow
    from midflight.kernel.phases import Phase, Role
    from midflight.kernel.record import Limits, Usage, Who
    from midflight.run import Agent, Answer, Approval, Child, Redirected, Run, agent
    from midflight.stores.base import Store
    from midflight.stores.opening import open_store
    from midflight.tools.base import ChangedSince, Done, NotDone, Performed, Unclear, tool
    from midflight.tools.progress import emit, spend
    from midflight.tools.secret import Secret
    from midflight.verbs.covering import Accepted

_PLACES: Final = {
    "Accepted": "midflight.verbs.covering",
    "Age": "midflight.guards",
    "Agent": "midflight.run",
    "Answer": "midflight.run",
    "Approval": "midflight.run",
    "ChangedSince": "midflight.tools.base",
    "Child": "midflight.run",
    "Choice": "midflight.conversation",
    "Control": "midflight.control",
    "Done": "midflight.tools.base",
    "FileContent": "midflight.guards",
    "Fingerprint": "midflight.guards",
    "Guard": "midflight.guards",
    "Limits": "midflight.kernel.record",
    "Message": "midflight.conversation",
    "MidflightError": "midflight.errors",
    "NoResult": "midflight.errors",
    "NotDone": "midflight.tools.base",
    "Performed": "midflight.tools.base",
    "Phase": "midflight.kernel.phases",
    "Redirected": "midflight.run",
    "Refused": "midflight.errors",
    "Role": "midflight.kernel.phases",
    "Run": "midflight.run",
    "Secret": "midflight.tools.secret",
    "Spoken": "midflight.conversation",
    "SqlRow": "midflight.guards",
    "StepFailed": "midflight.errors",
    "Store": "midflight.stores.base",
    "StoreError": "midflight.errors",
    "TriageView": "midflight.conversation",
    "Unclear": "midflight.tools.base",
    "Usage": "midflight.kernel.record",
    "Who": "midflight.kernel.record",
    "agent": "midflight.run",
    "emit": "midflight.tools.progress",
    "local": "midflight.control",
    "open_store": "midflight.stores.opening",
    "rule_triage": "midflight.conversation",
    "spend": "midflight.tools.progress",
    "tool": "midflight.tools.base",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(place), name)
    return found


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


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
    "NoResult",
    "NotDone",
    "Performed",
    "Phase",
    "Redirected",
    "Refused",
    "Role",
    "Run",
    "Secret",
    "Spoken",
    "SqlRow",
    "StepFailed",
    "Store",
    "StoreError",
    "TriageView",
    "Unclear",
    "Usage",
    "Who",
    "agent",
    "emit",
    "local",
    "open_store",
    "rule_triage",
    "spend",
    "tool",
]
