"""Time that a story lets pass at once.

A deadline that a story must come before can so be longer than any machine dawdles, and one that it
must see pass costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from midflight.inputs import steady, wall_clock
from midflight.runtime import journal_client
from midflight.runtime.replay import history
from midflight.runtime.steps import attempt, bounds, tool_call

A_MOMENT_S = 0.01  # by which a deadline is over, and not just reached


class Hours:
    """The world's clock, the loop's and the steady one, put forward together by what was skipped.

    Not those of other processes: a tool that runs in one has the time that it has.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._skipped = 0.0
        self._stepped = 0.0
        self._settable = False
        self._bounds: list[anyio.CancelScope] = []

    def now(self) -> float:
        """A clock for stores and engines."""
        return wall_clock() + self._skipped + self._stepped

    def steadily(self) -> float:
        """A steady clock for stores: it moves with all that was skipped."""
        return steady() + self._skipped

    def step(self, seconds: float) -> None:
        """Somebody sets the world's clock; no time has passed, and the steady clock knows that."""
        self._stepped += seconds

    def skip(self, seconds: float) -> None:
        """What was to happen within them is due when the loop comes round."""
        if not self._settable:
            self._set_clocks()
        self._skipped += seconds
        for bound in self._bounds:
            bound.deadline += seconds

    def _set_clocks(self) -> None:
        self._settable = True
        loop = asyncio.get_running_loop()
        really = loop.time
        self._patch.setattr(loop, "time", lambda: really() + self._skipped)
        for module in (attempt, tool_call, history, bounds, journal_client):
            self._patch.setattr(module, "steady", lambda: steady() + self._skipped)

    def skip_to(self, moment: float) -> None:
        """Let everything pass until just after it; nothing if it has come already."""
        self.skip(max(0.0, moment - self.now()) + A_MOMENT_S)

    @contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        """``fail_after`` so many seconds that have really passed."""
        with anyio.fail_after(seconds) as bound:
            self._bounds.append(bound)
            try:
                yield
            finally:
                self._bounds.remove(bound)
