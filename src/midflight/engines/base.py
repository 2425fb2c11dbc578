"""The contract of an engine: somebody drives every run that wants a driver, sooner or later.

It may be wrong for a moment and start two drivers: the journal takes the decisions of one.
"""

from __future__ import annotations

from typing import Protocol


class Engine(Protocol):
    """Answers who drives a run now, and what happens if they die."""

    async def ensure(self, run: str) -> None:
        """Somebody has appended to a run that may have no driver. Idempotent, and quick."""


class NoEngine:
    """For commands: they record what is asked and never drive."""

    async def ensure(self, run: str) -> None:
        """Nothing: whoever drives finds the run by its sweep."""
