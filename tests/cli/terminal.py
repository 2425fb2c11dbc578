"""A pseudo-terminal with somebody in front of it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from pathlib import Path

from cli.scene import MIDFLIGHT
from forks import Forked

ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-Z0-9]|[=>])")


class Terminal:
    """A command in a terminal of its own; what it has shown is kept, without its colours."""

    def __init__(self, folder: Path, env: dict[str, str], *arguments: str) -> None:
        self._fd, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.process = Forked(
            [*MIDFLIGHT, *arguments],
            cwd=folder,
            env=env,
            stdin=child,
            stdout=child,
            stderr=child,
            start_new_session=True,
        )
        os.close(child)
        self._raw = b""
        self._closed = False

    @property
    def raw(self) -> bytes:
        """All that was sent to the terminal."""
        return self._raw

    @property
    def shown(self) -> str:
        return ESCAPES.sub("", self._raw.decode(errors="replace")).replace("\r", "")

    def until(self, words: str, seconds: float = 40.0) -> str:
        """Wait until these words were shown."""
        deadline = time.monotonic() + seconds
        while words not in self.shown:
            left = deadline - time.monotonic()
            assert left > 0, f"{words!r} was not shown:\n{self.shown[-3000:]}"
            if select.select([self._fd], [], [], min(left, 0.5))[0]:
                try:
                    self._raw += os.read(self._fd, 65_536)
                except OSError:  # the other side is closed
                    assert words in self.shown, self.shown[-3000:]
        return self.shown

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def ended(self) -> int:
        """Its exit status, once it has ended and all that it has shown was read."""
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline:
            if select.select([self._fd], [], [], 0.1)[0]:
                try:
                    self._raw += os.read(self._fd, 65_536)
                except OSError:
                    break
            elif self.process.poll() is not None:
                break
        return self.process.wait(timeout=20)

    def hang_up(self) -> None:
        """Close the window, as people do: nothing that is written to it arrives any more."""
        self._closed = True
        os.close(self._fd)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=10)
        if not self._closed:
            os.close(self._fd)
