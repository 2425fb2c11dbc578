"""The table of commands: the module of each, its help, and its panel. It imports none of them."""

from __future__ import annotations

from typing import Final, NamedTuple

ABOUT: Final = "Agents that people can interrupt while they work."


class Place(NamedTuple):
    """One entry of the table: the module of a command, its help, and its panel."""

    module: str
    about: str
    panel: str


COMMANDS: Final = {
    "demo": Place("demo", "An agent at work on data of its own: try to interrupt it.", "Begin"),
    "run": Place("run", "Run an agent here, or on a server, and watch it.", "Begin"),
    "serve": Place("serve", "Drive agents and serve them over HTTP.", "Begin"),
    "worker": Place("worker", "Drive agents for servers elsewhere.", "Begin"),
    "discord": Place("discord", "Talk to an agent on Discord.", "Begin"),
    "voice": Place("voice", "Talk to an agent, with sound from a file.", "Begin"),
    "tui": Place("tui", "Watch and steer runs in the terminal.", "Begin"),
    "runs": Place("look", "List runs, newest first.", "Look"),
    "show": Place("look", "How a run stands: steps, questions, receipt.", "Look"),
    "watch": Place("watch", "Follow a run until it ends.", "Look"),
    "thread": Place("thread", "What was said in a thread, and by whom.", "Look"),
    "todos": Place("talk", "What is still to be done in a thread.", "Look"),
    "pause": Place("steer", "Hold a run; resume keeps its context.", "Steer"),
    "resume": Place("steer", "Go on where it was.", "Steer"),
    "redirect": Place("steer", "Change course: the next step is rewritten.", "Steer"),
    "cancel": Place("steer", "Stop: abort, undo, save partial work.", "Steer"),
    "answer": Place("talk", "Answer a question of a run.", "Steer"),
    "raise": Place("hold", "Raise a cap; held there, it goes on.", "Steer"),
    "take-over": Place("hold", "Do it yourself: the run holds.", "Steer"),
    "hand-back": Place("hold", "Give back a run that a person has.", "Steer"),
    "stop-effect": Place("hold", "Abort the effect that a pause waits for.", "Steer"),
    "send": Place("talk", "Write to a run while it works.", "Steer"),
    "aside": Place("talk", "Ask about a run without touching it.", "Steer"),
    "overrule": Place("thread", "Want another choice about a message.", "Steer"),
    "edit": Place("thread", "Change a message that nobody has read.", "Steer"),
    "withdraw": Place("thread", "Take back one that nobody has read.", "Steer"),
    "fork": Place("steer", "Try again from a step of a run that has ended.", "Steer"),
    "undo": Place("steer", "Undo effects of a run that has ended.", "Steer"),
    "kill": Place("operate", "Stop everything in a scope at once.", "Operate"),
    "release": Place("operate", "Let a scope move again.", "Operate"),
    "recover": Place("steer", "Bring a killed run back, paused.", "Operate"),
    "purge": Place("operate", "Remove runs that ended long ago.", "Operate"),
    "audit": Place("audit", "Export the audit, and check that it is whole.", "Operate"),
    "token": Place("token", "A token for a program, or a link for a person.", "Operate"),
    "kit": Place("kit", "Measure how well runtimes can be interrupted.", "Operate"),
    "doctor": Place("doctor", "See whether everything is in order here.", "Operate"),
}
SERVING: Final = (["serve"], ["worker"], ["discord"], ["demo"])
"""What they print is a greeting: they serve whether anybody reads it or not."""
PANELS: Final = ("Begin", "Look", "Steer", "Operate")


def version_line() -> str:
    """Return the name and the version of the program."""
    from importlib.metadata import version

    return f"midflight {version('midflight')}"
