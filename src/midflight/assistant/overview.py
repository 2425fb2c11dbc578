"""What can be seen of the work from the side: the same for a triage and for a side question."""

from __future__ import annotations

from collections.abc import Sequence

from midflight.assistant.words import TRUSTED, quoted, short
from midflight.conversation import Spoken

SPOKEN = 12  # turns of the conversation that are shown
LINE = 300  # characters of each


def overview(brief: str, status: str, plan: Sequence[str], transcript: Sequence[Spoken]) -> str:
    """The work, how it stands, what is to come and what was said."""
    steps = "\n".join(f"- {step}" for step in plan) or "(none)"
    said = "\n".join(map(_line, transcript[-SPOKEN:])) or "(nothing)"
    return (
        f"The work: {brief}\nIt is now: {status}\nIts plan:\n{steps}\n\n"
        f"The conversation so far:\n{said}"
    )


def _line(spoken: Spoken) -> str:
    text = short(spoken.text, LINE)
    ours = bool(spoken.run) or spoken.role in TRUSTED
    return f"{spoken.by}: {text}" if ours else quoted(spoken.by, text)
