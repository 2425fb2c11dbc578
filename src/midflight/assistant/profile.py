"""A profile of an agent: prompt, model, tools and policy. A redirect may name another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from midflight.assistant.policy import Open, Policy
from midflight.errors import InvalidRequest
from midflight.models.base import Model, ToolSpec
from midflight.tools.declaration import Tool
from midflight.tools.specs import named, spec

if TYPE_CHECKING:
    from midflight.assistant.actions import Action

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
        from midflight.assistant.actions import ACTIONS

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
                f"{', '.join(sorted(both))}: a tool and an action of this name. Rename the tool."
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
        return f"There is no profile {name!r}; I work as I do at first. There are: {there}."
