"""Stored name -> event. The codec, the table's test and the web types are made from this."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from midflight.kernel import events, thread
from midflight.kernel.record import Event


def _named(module: ModuleType) -> dict[str, type[Event]]:
    """What the module defines; the bases it imports are kinds of events and no events."""
    return {
        kind.stored_name(): kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Event) and kind.__module__ == module.__name__
    }


EVENTS: Final[dict[str, type[Event]]] = _named(events) | _named(thread)
