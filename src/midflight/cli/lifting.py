"""The command that settles a question: an answer, a higher cap, or a run that is handed back."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from midflight.cli.caps import OPTIONS
from midflight.cli.desk import SHOWN
from midflight.kernel.decide import HANDED_OVER
from midflight.terminal.forms import wanted
from midflight.view import RunSheet, control_bar
from midflight.view.cap_proposals import CAP, raised, typed
from midflight.view.data import Asked

Command = Callable[..., str]


def way_out(command: Command, sheet: RunSheet, asked: Asked) -> str:
    """The command that lets the run go on, as it has to be typed."""
    run = sheet.run[:SHOWN]
    if asked.kind == CAP:
        return command("raise", run, *raising(sheet))
    if asked.kind == HANDED_OVER:
        return command("hand-back", run, "WHAT_YOU_DID")
    several = sum(control_bar.is_answered(one) for one in sheet.questions) > 1
    return command("answer", run, "ANSWER", *_which(asked, several))


def question_lines(command: Command, sheet: RunSheet, asked: Asked) -> list[str]:
    """Return all that a person needs to decide, for ``show``, ``run``, ``watch`` and ``answer``.

    That is the message, the facts of the question, the answers that it takes, and the command.
    """
    fitting = wanted(msgspec.json.decode(asked.schema)) if control_bar.is_answered(asked) else []
    return [asked.message, *fitting, way_out(command, sheet, asked)]


def _which(asked: Asked, several: bool) -> list[str]:
    return ["--question", str(asked.question)] if several else []


def raising(sheet: RunSheet) -> list[str]:
    """The options that would let it go on for as long again."""
    return [f"{OPTIONS[name]} {typed(cap)}" for name, cap in raised(sheet).items()]


def ways_on(command: Command, sheet: RunSheet) -> list[str]:
    """Return the command to hand back a run that a person has taken over without a question."""
    asked = any(one.kind == HANDED_OVER for one in sheet.questions)
    held = "human" in sheet.holds and not asked
    return [command("hand-back", sheet.run[:SHOWN], "WHAT_YOU_DID")] if held else []
