"""A process that holds a store and does what a test tells it: see ``holder.py``."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forks import Forked
from stores.programs import command, environment, next_line


class Holder:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.opened = next_line(process)

    def does(self, line: str) -> str:
        """Have it do something, and hear its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return next_line(self.process)

    def dies(self) -> None:
        """Kill it, with -9."""
        self.process.kill()
        self.process.wait(10)


@contextmanager
def holder(
    path: str | Path, *, cwd: Path | None = None, through: tuple[str, ...] = ()
) -> Iterator[Holder]:
    """Start one; it is killed at the end of the block. ``through`` is a command that starts it."""
    start = subprocess.Popen if through else Forked
    process: subprocess.Popen[str] = start(
        [*through, *command("holder.py", str(path))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=cwd,
    )
    try:
        yield Holder(process)
    finally:
        process.kill()
        process.wait(10)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
