"""What the figures of voice are of: which list was played, and what heard and judged it then.

A figure from before a change is not shown as if it were from after it. Which code it was is told by
a hash of its files; figures that have none are from before that was noted.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any, NamedTuple

from figures import ROOT

LIST = "sixteenth"
"""Which list it is that is measured, counted from the first: others are called seen."""

HEARS = ("ear", "speech/offline_engines", "speech/speech_engines", "turn_table")
JUDGES = ("judgement", "lexicon")
OBEYS = ("line", "turn_actions", "spoken_verbs", "spoken_answers", "call_record")
SPEAKS = ("speech/mouth", "speech/agenda", "speech/playback", "speech/fallback")
SENDS = ("page_call", "voice_wire")


class Part(NamedTuple):
    """What the figures of a part of the benchmark tell, and on which files they hang.

    ``by`` are those that say how it is measured, but for ``speaking.py``, which is also the page:
    who changes there how something is measured plays it anew.
    """

    tells: str
    of: tuple[str, ...]
    by: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """Their paths."""
        of = (f"src/midflight/interfaces/voice/{name}.py" for name in self.of)
        return (*of, *(f"bench/{name}.py" for name in self.by))


LINE = (*HEARS, *JUDGES, *OBEYS, *SPEAKS)
MEASURED = {
    "soon": Part("how soon we stop", LINE, ("voice_stage", "voice_scene")),
    "lists": Part("commands, assents and noises", LINE, ("voice_scene",)),
    "clarify": Part("what is not understood", (*HEARS, *JUDGES), ("voice_clarity", "voice_scene")),
    "many": Part("many lines at once", LINE, ("voice_stage", "voice_scene")),
    "sockets": Part("many pages at once", (*LINE, *SENDS), ("voice_stage", "voice_sockets")),
    "pipecat": Part("Pipecat", (), ("pipecat_side", "pipecat_program")),
}
PLAYED = ("soon", "lists", "clarify")
"""Parts of the benchmark that play the list to what hears and judges."""

FIRST = "first_played"
OF_ANOTHER_LIST = """
**Of the list before** are the figures of {parts}:
they were measured before this list was written, and before what hears and judges last changed.
"""
OF_OTHER_CODE = """
**Before the last change** of what they hang on, or of how that is measured, these were measured:
the figures of {parts}.
"""
UNTOUCHED = """with which nothing was chosen
that hears or judges: they were first played after its last change"""
TOUCHED = """but not new any longer
to what hears and judges: that was changed since they were first played"""
NOT_YET = """which were not
played yet"""


@cache
def codes() -> dict[str, str]:
    """What every part hangs on, as it was when this process first asked: what it runs."""
    return {name: _hashed(part.files) for name, part in MEASURED.items()}


@cache
def hearing() -> str:
    """What hears and judges, likewise."""
    return _hashed(Part("", (*HEARS, *JUDGES), ()).files)


def _hashed(files: tuple[str, ...]) -> str:
    whole = hashlib.sha256()
    for file in files:
        whole.update((ROOT / file).read_bytes())
    return whole.hexdigest()[:16]


def stamp(part: str, before: dict[str, Any]) -> dict[str, Any]:
    """What goes on record with the figures of a part."""
    first, code = _first(before), {f"{part}_code": codes()[part]}
    return code | {f"{part}_list": LIST, FIRST: first} if part in PLAYED else code


def _first(before: dict[str, Any]) -> dict[str, str]:
    """By what this list was first played; nobody knows where that was not noted."""
    noted: dict[str, str] = before.get(FIRST, {})
    if noted.get("list") == LIST:
        return noted
    played = any(before.get(f"{part}_list") == LIST for part in PLAYED)
    return {"list": LIST, "code": "" if played else hearing()}


def stale(results: dict[str, Any]) -> str:
    """Which figures are of another list, or of other code, than those that are there."""
    other = [part for part in PLAYED if results.get(f"{part}_list") != LIST]
    changed = [part for part, code in codes().items() if results.get(f"{part}_code") != code]
    coded = [part for part in changed if part not in other]
    told = ""
    for text, old in ((OF_ANOTHER_LIST, other), (OF_OTHER_CODE, coded)):
        parts = " and of ".join(MEASURED[part].tells for part in old)
        told += text.format(parts=parts) * bool(old)
    return told


def first_played(results: dict[str, Any]) -> str:
    """Whether the list that is there was new to what hears and judges it now."""
    if not any(results.get(f"{part}_list") == LIST for part in PLAYED):
        return NOT_YET
    new = results.get(FIRST) == {"list": LIST, "code": hearing()}
    return UNTOUCHED if new else TOUCHED
