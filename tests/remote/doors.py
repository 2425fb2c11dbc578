"""The two doors to the same runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from midflight.agents import Agent
from midflight.control import Control
from midflight.control.any_control import AnyControl
from midflight.control.remote import RemoteControl
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from server.house import opened

DOORS = ("here", "over HTTP")


@asynccontextmanager
async def through(
    door: str, control: Control, *agents: Agent, role: Role = Role.CONTROLLER
) -> AsyncIterator[AnyControl]:
    """The same runs through one of the doors, as somebody of this role."""
    if door == "here":
        who = Actor(by=f"the-{role}", role=role)
        yield Control(control.store, control._engine, who=who)
        return
    async with (
        opened(control, agents) as house,
        RemoteControl.open(house.url, house.tokens[role], patience_s=5, away_s=10) as remote,
    ):
        yield remote
