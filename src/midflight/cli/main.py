"""The command ``midflight``: one file a subcommand, an error in words and never a traceback."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from midflight.cli import demo, discord, serve, token
from midflight.errors import MidflightError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit status."""
    parser = argparse.ArgumentParser(
        prog="midflight", description="Agents that people can interrupt while they work."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    demo.add_to(commands)
    serve.add_to(commands)
    token.add_to(commands)
    discord.add_to(commands)
    chosen = parser.parse_args(arguments)
    try:
        return int(chosen.run(chosen))
    except (MidflightError, ImportError) as error:
        print(f"midflight: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
