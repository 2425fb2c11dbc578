"""The details of an effect that a question shows: the tool and its arguments, in words.

Every front door shows ``x-details`` of a question's schema, one fact a line. Arguments have the
names that the tool gives them, and secrets are dots. Values are whole: people decide on them.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from midflight.errors import DOTS
from midflight.executor import values
from midflight.kernel.events import AttemptStarted
from midflight.kernel.record import NULL
from midflight.tools.base import REGISTRY, Tool
from midflight.tools.labels import in_words, named, written


def choice_of(choices: dict[str, str]) -> dict[str, Any]:
    """The schema of a question with a few answers, and their words."""
    return {"enum": list(choices), "x-labels": choices}


def call_in_words(tool: Tool, given: Raw, *, before: Raw = NULL) -> dict[str, Any]:
    """The part of a schema that says what a call is; ``before`` are arguments of an earlier one.

    Where there is an earlier one, arguments that differ are shown as they were and as they are.
    """
    now = arguments_in_words(tool, given)
    if bytes(before) == bytes(NULL):
        return {"x-tool": tool.name, "x-details": {"tool": tool.name, **now}}
    was = arguments_in_words(tool, before)
    return {
        "x-tool": tool.name,
        "x-details": {"tool": tool.name, "earlier": _line(was), "now": _line(now)},
    }


def attempt_in_words(begun: AttemptStarted) -> dict[str, Any]:
    """The same for an attempt on record, whose tool may not be known here any more."""
    tool = REGISTRY.get(begun.tool)
    shown = arguments_in_words(tool, begun.input)
    return {"x-tool": begun.tool, "x-details": {"tool": begun.tool, **shown}}


def arguments_in_words(tool: Tool | None, given: Raw) -> dict[str, str]:
    """The arguments of a call by their names."""
    return in_words(_named(tool, given))


def differences(tool: Tool | None, before: Raw, now: Raw) -> dict[str, tuple[str, str]]:
    """The arguments in which two calls differ: as they were, and as they are."""
    old, new = _named(tool, before), _named(tool, now)
    changed = [name for name in dict.fromkeys([*old, *new]) if not _equal(name, old, new)]
    found = {}
    for name in changed:
        was, is_now = (written(call[name]) if name in call else "nothing" for call in (old, new))
        hides = DOTS in was or was != is_now
        found[name] = (was, is_now if hides else f"{is_now} (differs further on)")
    return found


def _named(tool: Tool | None, given: Raw) -> dict[str, Any]:
    plain = values.decode(bytes(given)) or {}
    return named(tool and tool.function, plain.get("args", []), plain.get("kwargs", {}))


def _equal(name: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    return name in old and name in new and old[name] == new[name]


def _line(arguments: dict[str, str]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in arguments.items()) or "no arguments"
