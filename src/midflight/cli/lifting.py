"""What answers a question: an answer, a higher cap, or the hand of the person who has the run."""

from __future__ import annotations

from collections.abc import Callable

from midflight.cli.caps import OPTIONS
from midflight.cli.desk import SHOWN
from midflight.kernel.decide import HANDED_OVER
from midflight.sheets import RunSheet
from midflight.sheets.caps import CAP, raised, typed
from midflight.sheets.shapes import Asked
from midflight.terminal import looks

Command = Callable[..., str]


def way_out(command: Command, sheet: RunSheet, asked: Asked) -> str:
    """The command that lets the run go on, as it has to be typed."""
    run = sheet.run[:SHOWN]
    if asked.kind == CAP:
        return command("raise", run, *raising(sheet))
    if asked.kind == HANDED_OVER:
        return command("hand-back", run, "WHAT_YOU_DID")
    several = sum(looks.is_answered(one) for one in sheet.questions) > 1
    return command("answer", run, "ANSWER", *_which(asked, several))


def _which(asked: Asked, several: bool) -> list[str]:
    return ["--question", str(asked.question)] if several else []


def raising(sheet: RunSheet) -> list[str]:
    """The options that would let it go on for as long again."""
    return [f"{OPTIONS[name]} {typed(cap)}" for name, cap in raised(sheet).items()]


def ways_on(command: Command, sheet: RunSheet) -> list[str]:
    """How a run goes on that a person has without being asked to: nothing else would say it."""
    asked = any(one.kind == HANDED_OVER for one in sheet.questions)
    held = "human" in sheet.holds and not asked
    return [command("hand-back", sheet.run[:SHOWN], "WHAT_YOU_DID")] if held else []
