"""The contract of an engine: somebody drives every run that wants a driver, sooner or later.

An engine may be wrong for a moment and start two drivers: the journal takes the decisions of one.
"""

from __future__ import annotations

from typing import Protocol

from midflight.agents import Agent


class Engine(Protocol):
    """Finds a driver for a run, and another one if that driver dies."""

    async def ensure(self, run: str) -> None:
        """Have a run driven to which something was appended, and which may have no driver.

        This is idempotent, and quick.
        """

    def agent(self, name: str) -> Agent | None:
        """Return the agent of this name, if it is known here, so that it can be started by name."""


class NoEngine:
    """For commands: they record what is asked and never drive."""

    async def ensure(self, run: str) -> None:
        """Do nothing: a process that drives runs finds this one by its sweep."""

    def agent(self, name: str) -> Agent | None:
        """Return None: no agent is known here."""
        return None
