"""Rules of the house: asked before each tool call, and while the model is still speaking."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from midflight.tools.base import Tool


class Verdict(Struct, frozen=True):
    """``allow``, ``ask`` a person, or ``stop``; and why, in words for both."""

    action: Literal["allow", "ask", "stop"] = "allow"
    why: str = ""


ALLOW = Verdict()


class Policy(Protocol):
    """Must be a function of its arguments alone: after a crash it is asked again."""

    def before(self, tool: Tool, arguments: dict[str, Any]) -> Verdict:
        """Whether this call may be made."""

    def on_text(self, text: str) -> Verdict:
        """Whether this may be said; asked with the text so far, before its last piece is shown."""


class Open:
    """Allows what the tools themselves allow."""

    def before(self, tool: Tool, arguments: dict[str, Any]) -> Verdict:
        """Always."""
        return ALLOW

    def on_text(self, text: str) -> Verdict:
        """Always."""
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
        """By the tool's name."""
        if tool.name in self.stop:
            return Verdict("stop", f"{tool.name} is not allowed here")
        if tool.name in self.ask:
            return Verdict("ask", f"{tool.name} needs somebody's consent here")
        return ALLOW

    def on_text(self, text: str) -> Verdict:
        """By what was said so far."""
        for pattern in self.words:
            if re.search(pattern, text):
                return Verdict(self.said, "that is not said here")
        return ALLOW
