"""The contract of an engine: somebody drives every run that wants a driver, sooner or later.

It may be wrong for a moment and start two drivers: the journal takes the decisions of one.
"""

from __future__ import annotations

from typing import Protocol

from midflight.run import Agent


class Engine(Protocol):
    """Answers who drives a run now, and what happens if they die."""

    async def ensure(self, run: str) -> None:
        """Somebody has appended to a run that may have no driver. Idempotent, and quick."""

    def agent(self, name: str) -> Agent | None:
        """What is known here of an agent, for who starts it by its name."""


class NoEngine:
    """For commands: they record what is asked and never drive."""

    async def ensure(self, run: str) -> None:
        """Nothing: whoever drives finds the run by its sweep."""

    def agent(self, name: str) -> Agent | None:
        """Nothing is known here."""
        return None
