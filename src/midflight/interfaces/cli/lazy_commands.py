"""Commands that are listed before they are imported."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from midflight.interfaces.cli.command_table import COMMANDS, PANELS, version_line
from midflight.interfaces.cli.console import print


class Commands(TyperGroup):
    """Knows every command by its one line; the command itself is imported when it is called."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for panel in PANELS:
            for name, place in COMMANDS.items():
                if place.panel == panel:
                    self.commands[name] = TyperCommand(
                        name, help=place.about, rich_help_panel=place.panel
                    )

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of the table, not of the alphabet."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import what is called."""
        if args and args[0] in COMMANDS:
            self.commands[args[0]] = imported(args[0])
        return super().resolve_command(ctx, args)


def imported(name: str) -> Any:
    """Import the command, with what it needs."""
    module = import_module(f"midflight.interfaces.cli.commands.{COMMANDS[name].module}")
    return get_group(module.app).commands[name]


def _say_version(asked: bool) -> None:
    if asked:
        print(version_line())
        raise typer.Exit


def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Say which version this is.", callback=_say_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Agents that people can interrupt while they work."""
