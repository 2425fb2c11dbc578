"""Stored name -> event. The codec, the table's test and the web types are made from this."""

from __future__ import annotations

from typing import Final

from midflight.kernel import events, thread
from midflight.kernel.record import Event


def _named(module: object) -> dict[str, type[Event]]:
    return {
        kind.stored_name(): kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Event) and kind.__struct_config__.tag
    }


EVENTS: Final[dict[str, type[Event]]] = _named(events) | _named(thread)
