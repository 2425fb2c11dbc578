"""A witness outside: a process of its own that puts everything it is told into one order.

    python ledger.py SOCKET

Whoever tells it something waits for the answer, so what is told after that has a higher number. It
ends when its standard input does, which is also when whoever started it dies.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

SOCKET = "TORTURE_LEDGER"
"""The variable that names the ledger's socket, for tools in processes of their own too."""


class Told(Struct, frozen=True, array_like=True):
    """One thing that happened, and its place in the order."""

    number: int
    what: str
    about: str


class Ledger:
    """The way to the witness, from any thread of any process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._mine = threading.local()
        self._links: list[socket.socket] = []

    def tell(self, what: str, about: str = "") -> int:
        """Block until it is written down; give its number."""
        return int(self._ask(f"{what} {about}"))

    def read(self) -> list[Told]:
        return msgspec.json.decode(self._ask("read"), type=list[Told])

    def _ask(self, line: str) -> bytes:
        if not hasattr(self._mine, "link"):
            self._mine.link = socket.socket(socket.AF_UNIX)
            self._mine.link.connect(self._path)
            self._links.append(self._mine.link)
        self._mine.link.sendall(line.encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            answer += self._mine.link.recv(1 << 20)
        return answer

    def close(self) -> None:
        for link in self._links:
            link.close()


@contextmanager
def witness(folder: Path) -> Iterator[Ledger]:
    """Start a ledger and end it with the block."""
    path = str(folder / "ledger")
    process = subprocess.Popen(
        [sys.executable, __file__, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"listening\n"
    ledger = Ledger(path)
    try:
        yield ledger
    finally:
        ledger.close()
        process.stdin.close()
        process.stdout.close()
        process.wait(10)


async def serve(path: str) -> None:
    told: list[Told] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line == b"read\n":
                writer.write(msgspec.json.encode(told) + b"\n")
                continue
            what, _, about = line.decode().rstrip("\n").partition(" ")
            told.append(Told(len(told) + 1, what, about))
            writer.write(b"%d\n" % len(told))
        writer.close()

    async with await asyncio.start_unix_server(hear, path, limit=1 << 24):
        os.write(1, b"listening\n")
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
