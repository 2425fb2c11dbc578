"""An overview of the work in words, for a triage and for a side question alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from midflight.assistant.words import STRANGER, TRUSTED, name, quoted, short
from midflight.conversation import REPORT, Spoken

SPOKEN = 12  # turns of the conversation that are shown
LINE = 300  # characters of each


def overview(
    brief: str, status: str, plan: Sequence[str], transcript: Sequence[Spoken], *, key: str
) -> str:
    """Return the brief, the status, the plan and the conversation. ``key``: see ``quoted``."""
    steps = "\n".join(f"- {step}" for step in plan) or "(none)"
    said = "\n".join(map(partial(_line, key), transcript[-SPOKEN:])) or "(nothing)"
    return (
        f"The work: {brief}\nIt is now: {status}\nIts plan:\n{steps}\n\n"
        f"The conversation so far:\n{said}"
    )


def is_trusted(spoken: Spoken) -> bool:
    """Return whether only people who may direct the work had a part in these words."""
    if spoken.run:
        return not spoken.untrusted and spoken.kind != REPORT
    return spoken.role in TRUSTED


def _line(key: str, spoken: Spoken) -> str:
    text = short(spoken.text, LINE)
    if is_trusted(spoken):
        return f"{name(spoken.by)}: {text}"
    if spoken.run:
        return quoted(key, f"the run {spoken.run}", text, why=STRANGER)
    return quoted(key, spoken.by, text)
