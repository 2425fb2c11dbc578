"""Actions of the model on its own run: plan, ask, hand over, delegate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from midflight.run import Run
from midflight.tools.declaration import Tool, declared

Handle = Callable[..., Awaitable[str]]


class Action(Struct, frozen=True):
    """A tool that is no step: its function gets the run, and its arguments by name.

    One that hands work on ``passes_trust``: it gets ``untrusted`` too, which says whether the model
    has read words of somebody who may not direct this work.
    """

    name: str
    tool: Tool
    handle: Handle
    passes_trust: bool = False


def action(
    declare: Callable[..., Any], *, passes_trust: bool = False
) -> Callable[[Handle], Action]:
    """Declare an action: ``declare`` has the parameters that a model gives, and the docstring."""

    def made(handle: Handle) -> Action:
        name = declare.__name__
        return Action(name, declared(declare, name=name, effect="read"), handle, passes_trust)

    return made


def set_plan(steps: list[str]) -> None:
    """Tell people which steps are to come, a few words each. Call it again when that changes."""


@action(set_plan)
async def plan(run: Run, *, steps: list[str]) -> str:
    """See ``set_plan``."""
    await run.plan(*steps)
    return "They can see it."


def ask_person(question: str, choices: list[str] = []) -> None:  # noqa: B006 - only its shape is used
    """Ask the people who watch, and wait for their answer. Give choices where there are few."""


@action(ask_person)
async def ask(run: Run, *, question: str, choices: list[str] | None = None) -> str:
    """See ``ask_person``."""
    answer = await run.ask(question, schema={"enum": choices} if choices else None)
    return f"{answer.by}: {answer.payload}" if answer.given else "Nobody has answered."


def hand_over(reason: str) -> None:
    """Give this to a person when it is beyond you, and wait until they hand it back."""


@action(hand_over)
async def escalate(run: Run, *, reason: str) -> str:
    """See ``hand_over``."""
    answer = await run.hand_over(reason)
    return f"{answer.by} has handed it back: {answer.payload or '(no words)'}"


ACTIONS = (plan, ask, escalate)
"""What every profile has unless it is given others."""


def delegating(worker: str) -> Action:
    """An action that gives work to a background run of the agent ``worker``."""

    def start_background(brief: str) -> None:
        """Give a long piece of work to a helper that works beside you. Say all it needs to know.

        Its report comes as a message. You can go on meanwhile, or end your turn.
        """

    @action(start_background, passes_trust=True)
    async def delegate(run: Run, *, brief: str, untrusted: bool) -> str:
        child = await run.spawn(worker, brief, input={"untrusted": True} if untrusted else None)
        return f"It works on that now, as {child.id}. Its report will come as a message."

    return delegate
