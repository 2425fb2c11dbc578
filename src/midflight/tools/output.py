"""The output of a tool, kept within bounds: the beginning and the end of each stream."""

from __future__ import annotations

from collections.abc import Callable

OnOutput = Callable[[str, bytes], None]
"""Called with ``"stdout"`` or ``"stderr"`` and what has just come, on the event loop."""


class Kept:
    """The beginning and the end of a stream: programs say first what they do, last what failed."""

    def __init__(self, limit: int) -> None:
        self._head_max = limit // 2
        self._tail_max = limit - limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._cut = 0

    def add(self, data: bytes) -> None:
        """Take what has come."""
        room = max(self._head_max - len(self._head), 0)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_max:  # seldom, because it moves what is kept
            self._trim()

    def whole(self) -> bytes:
        """All that is kept, with a note where something is missing."""
        self._trim()
        note = f"\n[… {self._cut:,} bytes cut …]\n".encode() if self._cut else b""
        return bytes(self._head) + note + bytes(self._tail)

    def _trim(self) -> None:
        excess = max(len(self._tail) - self._tail_max, 0)
        del self._tail[:excess]
        self._cut += excess


class Output:
    """The streams of a tool: two that are kept in part and passed on, and a result kept whole."""

    def __init__(self, limit: int, on_output: OnOutput | None) -> None:
        self.stdout = Kept(limit)
        self.stderr = Kept(limit)
        self.result = bytearray()
        self._on_output = on_output

    def take(self, name: str, data: bytes) -> None:
        """Take what has come from one of them."""
        if name == "result":
            self.result += data
            return
        (self.stdout if name == "stdout" else self.stderr).add(data)
        if self._on_output is not None:
            self._on_output(name, data)
