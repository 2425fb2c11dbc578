"""What the figures of voice are of: which list was played, and what heard and judged it then.

A figure from before a change is not shown as if it were from after it. Which code it was is told by
a hash of its files; figures that have none are from before that was noted.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

from figures import ROOT

LIST = "fourteenth"
"""Which list it is that is measured, counted from the first: others are called seen."""

HEARS = ("ear", "silero", "moonshine", "sounds", "taking")
JUDGES = ("judging", "lexicon", "assents", "phrases")
PLAYED = {
    "soon": "how soon we stop",
    "lists": "commands, assents and noises",
    "clarify": "what is not understood",
}
"""Parts of the benchmark that play the list, and what they tell."""

FIRST = "first_played"
OF_ANOTHER_LIST = """
**Of the list before** are the figures of {parts}:
they were measured before this list was written, and before what hears and judges last changed.
"""
OF_OTHER_CODE = """
**Before the last change** of what hears or judges these were measured:
the figures of {parts}.
"""
UNTOUCHED = """with which nothing was chosen
that hears or judges: they were first played after its last change"""
TOUCHED = """but not new any longer
to what hears and judges: that was changed since they were first played"""


@cache
def hearing() -> str:
    """What hears and judges, as it was when this process first asked: what it runs."""
    whole = hashlib.sha256()
    for name in (*HEARS, *JUDGES):
        whole.update((ROOT / f"src/midflight/voice/{name}.py").read_bytes())
    return whole.hexdigest()[:16]


def stamp(part: str, before: dict[str, Any]) -> dict[str, Any]:
    """What goes on record with the figures of a part: nothing, if it plays no list."""
    if part not in PLAYED:
        return {}
    return {f"{part}_list": LIST, f"{part}_code": hearing(), FIRST: _first(before)}


def _first(before: dict[str, Any]) -> dict[str, str]:
    """By what this list was first played; nobody knows where that was not noted."""
    noted: dict[str, str] = before.get(FIRST, {})
    if noted.get("list") == LIST:
        return noted
    played = any(before.get(f"{part}_list") == LIST for part in PLAYED)
    return {"list": LIST, "code": "" if played else hearing()}


def stale(results: dict[str, Any]) -> str:
    """Which figures are of another list, or of other code, than those that are there."""
    listed = {part: results.get(f"{part}_list") == LIST for part in PLAYED}
    coded = {part: results.get(f"{part}_code") == hearing() for part in PLAYED}
    told = ""
    for text, old in (
        (OF_ANOTHER_LIST, [part for part in PLAYED if not listed[part]]),
        (OF_OTHER_CODE, [part for part in PLAYED if listed[part] and not coded[part]]),
    ):
        parts = " and of ".join(PLAYED[part] for part in old)
        told += text.format(parts=parts) * bool(old)
    return told


def first_played(results: dict[str, Any]) -> str:
    """Whether the list that is there was new to what hears and judges it now."""
    new = results.get(FIRST) == {"list": LIST, "code": hearing()}
    return UNTOUCHED if new else TOUCHED
