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
    "demo": Place(
        "demo_command", "An agent at work on data of its own: try to interrupt it.", "Begin"
    ),
    "run": Place("run_command", "Run an agent here, or on a server, and watch it.", "Begin"),
    "serve": Place("serve_command", "Drive agents and serve them over HTTP.", "Begin"),
    "worker": Place("worker_command", "Drive agents for servers elsewhere.", "Begin"),
    "discord": Place("discord_command", "Talk to an agent on Discord.", "Begin"),
    "voice": Place("voice_command", "Talk to an agent, with sound from a file.", "Begin"),
    "tui": Place("tui_command", "Watch and steer runs in the terminal.", "Begin"),
    "runs": Place("look_commands", "List runs, newest first.", "Look"),
    "show": Place("look_commands", "How a run stands: steps, questions, receipt.", "Look"),
    "watch": Place("watch_command", "Follow a run until it ends.", "Look"),
    "thread": Place("talk_commands", "What was said in a thread, and by whom.", "Look"),
    "todos": Place("talk_commands", "What is still to be done in a thread.", "Look"),
    "pause": Place("control_commands", "Hold a run; resume keeps its context.", "Steer"),
    "resume": Place("control_commands", "Go on where it was.", "Steer"),
    "redirect": Place("control_commands", "Change course: the next step is rewritten.", "Steer"),
    "cancel": Place("control_commands", "Stop: abort, undo, save partial work.", "Steer"),
    "answer": Place("talk_commands", "Answer a question of a run.", "Steer"),
    "raise": Place("control_commands", "Raise a cap; held there, it goes on.", "Steer"),
    "take-over": Place("control_commands", "Do it yourself: the run holds.", "Steer"),
    "hand-back": Place("control_commands", "Give back a run that a person has.", "Steer"),
    "stop-effect": Place("control_commands", "Abort the effect that a pause waits for.", "Steer"),
    "send": Place("talk_commands", "Write to a run while it works.", "Steer"),
    "aside": Place("talk_commands", "Ask about a run without touching it.", "Steer"),
    "overrule": Place("talk_commands", "Want another choice about a message.", "Steer"),
    "edit": Place("talk_commands", "Change a message that nobody has read.", "Steer"),
    "withdraw": Place("talk_commands", "Take back one that nobody has read.", "Steer"),
    "fork": Place("control_commands", "Try again from a step of a run that has ended.", "Steer"),
    "undo": Place("control_commands", "Undo effects of a run that has ended.", "Steer"),
    "kill": Place("operator_commands", "Stop everything in a scope at once.", "Operate"),
    "release": Place("operator_commands", "Let a scope move again.", "Operate"),
    "recover": Place("control_commands", "Bring a killed run back, paused.", "Operate"),
    "purge": Place("operator_commands", "Remove runs that ended long ago.", "Operate"),
    "audit": Place("audit_command", "Export the audit, and check that it is whole.", "Operate"),
    "token": Place("token_command", "A token for a program, or a link for a person.", "Operate"),
    "kit": Place("kit_command", "Measure how well runtimes can be interrupted.", "Operate"),
    "doctor": Place("doctor_command", "See whether everything is in order here.", "Operate"),
}
SERVING: Final = (["serve"], ["worker"], ["discord"], ["demo"])
"""What they print is a greeting: they serve whether anybody reads it or not."""
PANELS: Final = ("Begin", "Look", "Steer", "Operate")


def version_line() -> str:
    """Return the name and the version of the program."""
    from importlib.metadata import version

    return f"midflight {version('midflight')}"
