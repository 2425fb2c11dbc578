"""Input that a client sends and that does not reach the agent: the client is told so. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from midflight.kernel.state import RunState
from midflight.kernel.thread import ThreadState
from midflight.server.agui_state import snapshot

OURS: Final = frozenset(snapshot(RunState("r-"), ThreadState("t-"), {}))
"""The keys of our own snapshots of the state, which a client sends back each time."""

NAMES_MAX: Final = 5
NAME_WIDTH: Final = 50


def unused_input(tools: Any, context: Any, state: Any) -> list[str]:
    """Return a warning about what was sent and is not used, or nothing."""
    found = []
    if isinstance(tools, list) and tools:
        names = [one.get("name") if isinstance(one, dict) else None for one in tools]
        found.append(f"tools ({_listed(names)})")
    if isinstance(context, list) and context:
        what = [one.get("description") if isinstance(one, dict) else None for one in context]
        found.append(f"context ({_listed(what)})")
    if isinstance(state, dict) and (members := [name for name in state if name not in OURS]):
        found.append(f"state ({_listed(members)})")
    elif state and not isinstance(state, dict):
        found.append("state")
    if not found:
        return []
    return [f"this agent does not get what was sent as {', '.join(found)}"]


def _listed(names: Sequence[Any]) -> str:
    shown = [
        " ".join(name.split())[:NAME_WIDTH] if isinstance(name, str) else "without a name"
        for name in names[:NAMES_MAX]
    ]
    more = len(names) - len(shown)
    return ", ".join([*shown, f"{more} more"] if more else shown)
