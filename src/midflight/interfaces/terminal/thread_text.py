"""A conversation as lines of text, with the speaker and the outcome of each message."""

from __future__ import annotations

from typing import Final, NamedTuple

from midflight.control.transcript import CUT, UNHEARD, Line
from midflight.interfaces.terminal.looks import one_line

SAID_MAX: Final = 2_000  # characters; the page has all of it
KEPT_MAX: Final = 240  # of partial work that was saved
AGENT: Final = "agent"
OUTCOMES: Final = {
    "incorporate": "Incorporated",
    "switch": "Switched to this now",
    "defer": "Deferred",
    "pause": "Paused",
    "redirect": "Redirected",
    "back": "Went back",
    "undo": "Undone",
}
BACK: Final = {"switch": "back", "defer": "switch"}
"""A choice -> the choice that a person may want instead."""
HEARD: Final = {CUT: ", cut short", UNHEARD: ", not all of it heard"}
"""The status of spoken words -> the note behind the name of their speaker."""
SAID: Final = frozenset({"said: text", "said: aside", "said: cancel?", "said: triage"})


class Told(NamedTuple):
    """Words in a conversation: their speaker, their tone and their text."""

    who: str
    tone: str
    text: str


def told(line: Line) -> Told | None:
    """Return the words that a line holds, or None if it is another kind of line."""
    match line.kind:
        case "message":
            return Told(line.by, "accent", line.text)
        case "question aside":
            return Told(f"{line.by}, aside", "accent", line.text)
        case kind if kind in SAID:
            return Told(AGENT + HEARD.get(line.status, ""), "ok", line.text)
        case _ if line.said:
            who = line.said + HEARD.get(line.status, "")
            return Told(who, "soft", one_line(line.text, KEPT_MAX))
        case _:
            return None


def outcome(line: Line) -> str:
    """Return the outcome of a message, in a word or a few."""
    if line.status == "withdrawn":
        return "Withdrawn"
    if line.choice in OUTCOMES:
        return OUTCOMES[line.choice]
    words = {"stored": "Sent", "put off": "Deferred", "read": "Read"}
    return words.get(line.status, line.status)


def event(line: Line) -> str:
    """Return one line of news about a choice or a todo, and nothing for other lines."""
    what = OUTCOMES.get(line.choice, line.choice or "Open again")
    match line.kind:
        case "choice":
            return f"{line.message} {what}" + (f": {line.why}" if line.why else "")
        case "overruled":
            return f"{line.message} overruled by {line.by}: {line.choice}"
        case "todo: parked" | "todo: deferred":
            return f"To do {line.position}: {line.text}"
        case "todo taken":
            return f"To do {line.todo} is taken up"
        case "todo dropped":
            return f"To do {line.todo} is dropped"
        case "todo removed":
            return f"To do {line.todo} is removed"
        case _:
            return ""
