"""Which worker runs which tests: one has the browsers from the beginning, beside all others.

A test with a browser works as long as it runs, most others wait: for processes, leases, timers. So
some of both run at any time. What is slow comes before what is fast, so that no worker is left
alone with it in the end.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler.load import LoadScheduling

ROOT = Path(__file__).resolve().parent.parent
BROWSERS_MAX = 2
"""So many workers have a browser at most: one for each core of a small machine."""
CHUNK_MAX = 12


def in_order(items: list[pytest.Item]) -> None:
    """Sort tests: slow files, fast files, browsers.

    A browser keeps a loop of its own running in its worker, where no other loop can run after it.
    """
    slow = {item.path for item in items if "slow" in item.keywords}
    items.sort(key=lambda item: ("chromium" in item.keywords, item.path not in slow))


class Shares(LoadScheduling):
    """Gives few tests at a time to each worker, and those with browsers to few workers."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self.collection: list[str] | None = None
        self._border = 0
        self._with_browser: list[Any] = []

    def schedule(self) -> None:
        if self.collection is None:
            if not self._check_nodes_have_same_collection():
                return
            collection = next(iter(self.node2collection.values()))
            self.collection = collection
            self.pending[:] = range(len(collection))
            self._border = border(collection)
            if 0 < self._border < len(collection) and len(self.nodes) > BROWSERS_MAX:
                self._with_browser = self.nodes[:1]
        for node in self.nodes:
            self.check_schedule(node)

    def check_schedule(self, node: Any, duration: float = 0) -> None:
        """Keep two tests ready for a worker, or it would not begin the first."""
        if node.shutting_down or len(self.node2pending[node]) > 2:
            return
        others = bisect_left(self.pending, self._border)
        if not others and self._border and not self._may_have_browser(node):
            node.shutdown()
        elif node in self._with_browser:
            self._send(node, others, len(self.pending) - others)
        else:
            self._send(node, 0, others or len(self.pending))

    def _may_have_browser(self, node: Any) -> bool:
        if node not in self._with_browser and len(self._with_browser) < BROWSERS_MAX:
            self._with_browser.append(node)
        return node in self._with_browser

    def _send(self, node: Any, start: int, there: int) -> None:
        """Send some of the tests that are there from ``start`` on; without any, the worker ends."""
        count = min(there, CHUNK_MAX, max(2, there // (4 * len(self.nodes))))
        chosen = self.pending[start : start + count]
        if not chosen:
            node.shutdown()
            return
        del self.pending[start : start + count]
        self.node2pending[node].extend(chosen)
        node.send_runtest_some(chosen)


def border(collection: list[str]) -> int:
    """The number of the first test with a browser: those are the last ones."""
    at = len(collection)
    while at and has_browser(collection[at - 1].partition("::")[0]):
        at -= 1
    return at


@cache
def has_browser(file: str) -> bool:
    path = ROOT / file
    return path.exists() and "pytest.mark.chromium" in path.read_text(encoding="utf-8")
