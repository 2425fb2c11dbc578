"""A conversation in words: who speaks, and what became of what they have said."""

from __future__ import annotations

from typing import Final, NamedTuple

from midflight.terminal.looks import one_line
from midflight.verbs.transcript import CUT, UNHEARD, Line

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
"""What was chosen -> what a person may want instead."""
HEARD: Final = {CUT: ", cut short", UNHEARD: ", not all of it heard"}
"""What became of words that were spoken -> the same behind who said them."""
SAID: Final = frozenset({"said: text", "said: aside", "said: cancel?", "said: triage"})


class Told(NamedTuple):
    """Who, in which tone, and what."""

    who: str
    tone: str
    text: str


def told(line: Line) -> Told | None:
    """What somebody has said, if that is what the line is."""
    match line.kind:
        case "message":
            return Told(line.by, "accent", line.text)
        case "question aside":
            return Told(f"{line.by}, aside", "accent", line.text)
        case kind if kind in SAID:
            return Told(AGENT + HEARD.get(line.status, ""), "ok", line.text)
        case kind if kind.startswith("said"):
            who = kind.removeprefix("said: ") + HEARD.get(line.status, "")
            return Told(who, "soft", one_line(line.text, KEPT_MAX))
        case _:
            return None


def outcome(line: Line) -> str:
    """What became of a message, in a word or a few."""
    if line.status == "withdrawn":
        return "Withdrawn"
    if line.choice in OUTCOMES:
        return OUTCOMES[line.choice]
    words = {"stored": "Sent", "put off": "Deferred", "read": "Read"}
    return words.get(line.status, line.status)


def event(line: Line) -> str:
    """What has happened in the conversation beside what was said, as one line of news."""
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
        case "todo dropped" | "todo removed":
            return f"To do {line.todo} is {line.kind.removeprefix('todo ')}"
        case _:
            return ""
