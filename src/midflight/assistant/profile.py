"""A profile of an agent: prompt, model, tools, actions, policy. A redirect may name another one."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Literal, Protocol

from msgspec import Struct

from midflight.errors import InvalidRequest
from midflight.models.model import Model, ToolSpec
from midflight.run import Run
from midflight.tools.declaration import Tool, declared
from midflight.tools.specs import named, spec

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
"""The actions that every profile has unless it is given others."""


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


class Verdict(Struct, frozen=True):
    """``allow``, ``ask`` a person, or ``stop``; and why, in words for both."""

    action: Literal["allow", "ask", "stop"] = "allow"
    why: str = ""


ALLOW = Verdict()


class Policy(Protocol):
    """A policy. It must depend on its arguments alone: after a crash it is asked again."""

    def before(self, tool: Tool, arguments: dict[str, Any]) -> Verdict:
        """Return a verdict on a tool call before it is made."""

    def on_text(self, text: str) -> Verdict:
        """Return a verdict on the text so far, before its last piece is shown."""


class Open:
    """Allows what the tools themselves allow."""

    def before(self, tool: Tool, arguments: dict[str, Any]) -> Verdict:
        """Allow it always."""
        return ALLOW

    def on_text(self, text: str) -> Verdict:
        """Allow it always."""
        return ALLOW


class Rules(Struct, frozen=True):
    """A policy as a list: tools by name, and words that must not be said.

    ``words`` are regular expressions; text that matches one stops the turn, or asks, as ``said``
    tells.
    """

    ask: Sequence[str] = ()
    stop: Sequence[str] = ()
    words: Sequence[str] = ()
    said: Literal["ask", "stop"] = "stop"

    def before(self, tool: Tool, arguments: dict[str, Any]) -> Verdict:
        """Return the verdict that the rules have for the tool's name."""
        if tool.name in self.stop:
            return Verdict("stop", f"{tool.name} is not allowed here")
        if tool.name in self.ask:
            return Verdict("ask", f"{tool.name} needs somebody's consent here")
        return ALLOW

    def on_text(self, text: str) -> Verdict:
        """Return the verdict of the rules on what was said so far."""
        for pattern in self.words:
            if re.search(pattern, text):
                return Verdict(self.said, "a rule is against these words")
        return ALLOW


SYSTEM = (
    "You work for the people in this conversation, step by step, with the tools you are given. "
    "They can write to you while you work. Keep your plan up to date with set_plan. When you are "
    "done, say so in a few plain sentences: what you did, what you found, what is left."
)


class Profile:
    """A prompt, a model and tools, under a name by which a redirect can switch to it."""

    def __init__(
        self,
        model: Model,
        tools: Sequence[Tool] = (),
        *,
        name: str = "",
        system: str = SYSTEM,
        policy: Policy | None = None,
        actions: Sequence[Action] | None = None,
        on_error: Literal["model", "ask"] = "model",
        max_tokens: int = 4096,
        context_tokens: int = 100_000,
    ) -> None:
        from midflight.assistant.profile import ACTIONS

        self.name = name
        self.model = model
        self.system = system
        self.policy: Policy = policy or Open()
        self.on_error = on_error
        self.max_tokens = max_tokens
        self.context_tokens = context_tokens
        self.tools: Mapping[str, Tool] = named(tools)
        chosen = ACTIONS if actions is None else actions
        self.actions: Mapping[str, Action] = {action.name: action for action in chosen}
        self._refuse_doubles()

    def _refuse_doubles(self) -> None:
        both = self.tools.keys() & self.actions.keys()
        if both:
            raise InvalidRequest(
                f"a tool and an action have the same name ({', '.join(sorted(both))}). Rename the "
                "tool."
            )

    def with_action(self, action: Action) -> Profile:
        """Return the same profile with one action more."""
        more = copy(self)
        more.__dict__.pop("specs", None)
        more.actions = {**self.actions, action.name: action}
        more._refuse_doubles()
        return more

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The descriptions of tools and actions for the model."""
        tools = [*self.tools.values(), *(action.tool for action in self.actions.values())]
        return tuple(spec(tool) for tool in tools)


class Profiles:
    """The profiles of one agent; the first is the one it starts with."""

    def __init__(self, first: Profile, others: Sequence[Profile] = ()) -> None:
        self.first = first
        self._named = {profile.name: profile for profile in (first, *others)}

    def get(self, name: str) -> Profile:
        """Return the profile of this name; the first one if there is none of that name."""
        return self._named.get(name, self.first)

    def with_action(self, action: Action) -> Profiles:
        """Return the same profiles with one action more in each."""
        first, *others = (profile.with_action(action) for profile in self._named.values())
        return Profiles(first, others)

    def missing(self, name: str) -> str:
        """Return the words for people about a profile that does not exist; empty if it does."""
        if not name or name in self._named:
            return ""
        there = ", ".join(filter(None, self._named)) or "none"
        return f"There is no profile {name!r}, so I work as at first. The profiles are: {there}."
