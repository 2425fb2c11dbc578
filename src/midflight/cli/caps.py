"""The caps of a run as options: the same for a run that is begun and for one that is held."""

from __future__ import annotations

from typing import Annotated, Final

import typer

Usd = Annotated[float | None, typer.Option(min=0, help="At most so many dollars.")]
Seconds = Annotated[float | None, typer.Option(min=0, help="At most so long in motion.")]
Steps = Annotated[int | None, typer.Option(min=0, help="At most so many steps.")]
Tokens = Annotated[int | None, typer.Option(min=0, help="At most so many tokens.")]
ToolCalls = Annotated[int | None, typer.Option(min=0, help="At most so many calls of tools.")]
Repeats = Annotated[
    int | None, typer.Option(min=0, help="The same call with the same result, so often again.")
]
OPTIONS: Final = {
    "steps": "--steps",
    "usd": "--usd",
    "tokens": "--tokens",
    "seconds": "--seconds",
    "tool_calls": "--tool-calls",
    "repeats": "--repeats",
}
"""Cap -> the option that sets it."""
