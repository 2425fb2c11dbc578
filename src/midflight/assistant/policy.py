"""Policies: asked before each tool call, and while the model is still speaking."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from midflight.tools.declaration import Tool


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
                return Verdict(self.said, "that is not said here")
        return ALLOW
