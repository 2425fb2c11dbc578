"""Asks for confirmation at the terminal, before something that cannot be taken back."""

from __future__ import annotations

import sys

from midflight.cli.printing import print

YES = frozenset({"y", "yes"})


def confirmed(question: str) -> bool:
    """Ask the person at the terminal, and return whether they say yes; anything else is no.

    It is asked on standard error to the last sign: standard output is for the answer, which a
    program may read. Typer's own question leaves a space there.
    """
    print(f"{question} [y/N]: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().casefold() in YES
