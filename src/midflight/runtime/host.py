"""The host of a step: the parts of a run that a step, or another call of its function, may use.

The parts of a run have one owner each, and nobody else writes their fields. Code that works for a
run gets them through this Protocol and does not know the driver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from midflight.agents import Agent
from midflight.inputs import Clock, Ids
from midflight.runtime.in_flight import InFlight, Tasks
from midflight.runtime.questions import Questions
from midflight.runtime.replay.cursor import Cursor
from midflight.runtime.replay.lineage import Lineage
from midflight.runtime.run_journal import RunJournal
from midflight.runtime.signals import Gate, Signals
from midflight.runtime.steps.bounds import Alarms
from midflight.stores.protocol import Lease

Ensure = Callable[[str], Awaitable[None]]
Afterwards = Callable[..., None]
"""Begins work for a run that may outlive its driver: a coroutine function and its arguments."""


class Host(Protocol):
    """The parts of a run that is driven here."""

    @property
    def journal(self) -> RunJournal:
        """The run's journal: its state, and the only way to change it."""

    @property
    def history(self) -> Cursor:
        """The record of the function's steps in the journal, and the function's place in it."""

    @property
    def signals(self) -> Signals:
        """The signals that are to be delivered to the function."""

    @property
    def in_flight(self) -> InFlight:
        """The calls that are under way."""

    @property
    def gate(self) -> Gate:
        """The gate that every step and call passes before it begins."""

    @property
    def questions(self) -> Questions:
        """The questions to people."""

    @property
    def lineage(self) -> Lineage:
        """The runs before a fork."""

    @property
    def tasks(self) -> Tasks:
        """The tasks that work for the run."""

    @property
    def alarms(self) -> Alarms:
        """The timer of the engine, and its loop."""

    @property
    def lease(self) -> Lease:
        """The proof that this driver lives."""

    @property
    def agent(self) -> Agent:
        """The agent whose function is called."""

    @property
    def workdir(self) -> Path:
        """The folder of the run."""

    @property
    def clock(self) -> Clock:
        """The clock of this machine."""

    @property
    def ids(self) -> Ids:
        """New ids."""

    @property
    def ensure(self) -> Ensure:
        """Sees to it that another run is driven."""

    @property
    def afterwards(self) -> Afterwards:
        """Begins work that may outlive this driver."""
