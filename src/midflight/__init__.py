"""Interruptible agents: pause, redirect, cancel or resume them while they work, even after a crash.

An agent is a plain ``async def`` that takes a ``Run``, with ``@agent`` above it. ``open`` opens a
store, drives the runs of agents and gives a ``Client``, with which people and programs start runs,
watch them and interrupt them. ``connect`` gives a client for the runs of a server.

Each name is imported when it is first used, so that a command which needs little starts quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from midflight.agents import Agent, agent
    from midflight.client import Client, connect, open  # noqa: A004 - always written midflight.open
    from midflight.control.ack import Ack
    from midflight.conversation import Choice, Message, Spoken, TriageView, rule_triage
    from midflight.errors import (
        MidflightError,
        NeedsPerson,
        NoResult,
        Refused,
        StepFailed,
        StoreError,
    )
    from midflight.guards import Age, FileContent, Fingerprint, Guard, SqlRow
    from midflight.handles import QuestionHandle, RunHandle, ThreadHandle
    from midflight.journal.phases import Phase, Role
    from midflight.journal.record import Actor, Limits, Usage
    from midflight.run import Answer, ApprovalAnswer, Child, Redirected, Run, Step
    from midflight.stores import open_store
    from midflight.stores.protocol import Store
    from midflight.tools.declaration import ChangedSince, Done, NotDone, Unclear, tool
    from midflight.tools.options import Approval, EffectRecord, Retry
    from midflight.tools.progress import emit, spend
    from midflight.tools.secret import Secret

_PLACES: Final = {
    "Ack": "midflight.control.ack",
    "Age": "midflight.guards",
    "Agent": "midflight.agents",
    "Answer": "midflight.run",
    "Approval": "midflight.tools.options",
    "ApprovalAnswer": "midflight.run",
    "ChangedSince": "midflight.tools.declaration",
    "Child": "midflight.run",
    "Choice": "midflight.conversation",
    "Client": "midflight.client",
    "Done": "midflight.tools.declaration",
    "EffectRecord": "midflight.tools.options",
    "FileContent": "midflight.guards",
    "Fingerprint": "midflight.guards",
    "Guard": "midflight.guards",
    "Limits": "midflight.journal.record",
    "Message": "midflight.conversation",
    "MidflightError": "midflight.errors",
    "NeedsPerson": "midflight.errors",
    "NoResult": "midflight.errors",
    "NotDone": "midflight.tools.declaration",
    "Phase": "midflight.journal.phases",
    "QuestionHandle": "midflight.handles",
    "Redirected": "midflight.run",
    "Refused": "midflight.errors",
    "Retry": "midflight.tools.options",
    "Role": "midflight.journal.phases",
    "Run": "midflight.run",
    "RunHandle": "midflight.handles",
    "Secret": "midflight.tools.secret",
    "Spoken": "midflight.conversation",
    "SqlRow": "midflight.guards",
    "Step": "midflight.run",
    "StepFailed": "midflight.errors",
    "Store": "midflight.stores.protocol",
    "StoreError": "midflight.errors",
    "ThreadHandle": "midflight.handles",
    "TriageView": "midflight.conversation",
    "Unclear": "midflight.tools.declaration",
    "Usage": "midflight.journal.record",
    "Actor": "midflight.journal.record",
    "agent": "midflight.agents",
    "connect": "midflight.client",
    "emit": "midflight.tools.progress",
    "open": "midflight.client",
    "open_store": "midflight.stores",
    "rule_triage": "midflight.conversation",
    "spend": "midflight.tools.progress",
    "tool": "midflight.tools.declaration",
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
    "Ack",
    "Actor",
    "Age",
    "Agent",
    "Answer",
    "Approval",
    "ApprovalAnswer",
    "ChangedSince",
    "Child",
    "Choice",
    "Client",
    "Done",
    "EffectRecord",
    "FileContent",
    "Fingerprint",
    "Guard",
    "Limits",
    "Message",
    "MidflightError",
    "NeedsPerson",
    "NoResult",
    "NotDone",
    "Phase",
    "QuestionHandle",
    "Redirected",
    "Refused",
    "Retry",
    "Role",
    "Run",
    "RunHandle",
    "Secret",
    "Spoken",
    "SqlRow",
    "Step",
    "StepFailed",
    "Store",
    "StoreError",
    "ThreadHandle",
    "TriageView",
    "Unclear",
    "Usage",
    "agent",
    "connect",
    "emit",
    "open",
    "open_store",
    "rule_triage",
    "spend",
    "tool",
]
