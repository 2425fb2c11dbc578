"""A console on which nothing but our own styles steers the terminal."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from typing_extensions import override

from midflight.interfaces.terminal.safe_text import visible


class Screen(Console):
    """Rich's, for text of others: no markup and no names of emoji unless asked for.

    Whatever is printed, be it a string, a table or a live picture, is rendered here: no call can
    forget it. Segments with ``control`` are Rich's own, such as moving the cursor.
    """

    def __init__(self, answering: Callable[[], AbstractContextManager[None]]) -> None:
        terminal = sys.stdout.isatty()
        self._answering = answering  # tells trouble with the answer from trouble with the work
        super().__init__(highlight=False, soft_wrap=not terminal, markup=False, emoji=False)
        if not self.is_terminal:
            self.width = 1000  # the program that reads it may cut lines

    @override
    def print(self, *objects: Any, **how: Any) -> None:
        """See Rich, which drops some control characters of a string before it is rendered."""
        shown = (visible(each) if isinstance(each, str) else each for each in objects)
        with self._answering():
            super().print(*shown, **how)

    @override
    def on_broken_pipe(self) -> None:
        """See Rich: the reader has left, which is no failure of the command."""
        raise BrokenPipeError(errno.EPIPE, "who reads has left")

    @override
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """See Rich."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else _shown(segment)


def _shown(segment: Segment) -> Any:
    text = visible(segment.text)
    return segment if text == segment.text else Segment(text, segment.style)
