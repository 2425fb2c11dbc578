"""The one type that front doors match on has every event."""

from __future__ import annotations

from typing import get_args

from midflight.journal.event_types import EVENTS, AnyEvent


def test_an_event_that_no_front_door_has_decided_on_is_noticed() -> None:
    assert set(get_args(AnyEvent)) == set(EVENTS.values())
