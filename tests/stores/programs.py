"""Starts the test programs as processes of their own, and ends just those."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forks import Forked

TESTS = Path(__file__).resolve().parent.parent


def command(program: str, *arguments: str) -> list[str]:
    return [sys.executable, str(TESTS / "stores" / program), *arguments]


def environment() -> dict[str, str]:
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    """A test program; whoever starts it ends it."""
    return Forked(
        command(program, *arguments), stdout=subprocess.PIPE, text=True, env=environment()
    )


@contextmanager
def started(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A test program, killed at the end of the block if it is still there."""
    process = start(program, *arguments)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


def next_line(process: subprocess.Popen[str]) -> str:
    """What the program says next; an error if it has ended instead."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"the program ended with {process.wait(10)}"
    return line.strip()
