"""Reads an event stream of sheets as the page does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from typing_extensions import override

from server.reader import Reader
from view.patching import patched


class Viewer(Reader):
    """One page: holds the sheets as they were told, patched."""

    def __init__(self, port: int, token: str, watch: Iterable[str], *, index: bool = False) -> None:
        super().__init__(port, token, watch)
        self.query = [("views", "1"), *([("index", "1")] if index else [])]
        self.views: dict[str, Any] = {}
        self.history: list[tuple[str, Any]] = []
        self.rows: dict[str, Any] = {}
        self.switches: list[Any] | None = None
        self.told: Counter[str] = Counter()
        self.times: list[float] = []
        self.enough: Callable[[Viewer], bool] = lambda viewer: False

    @override
    def take(self, frame: str) -> str:
        fields = dict(line.partition(": ")[::2] for line in frame.split("\n"))
        if "data" not in fields:
            self.comments += "alive" in frame
            return ""
        data = json.loads(fields["data"])
        kind = fields["event"]
        self.told[kind] += 1
        self.last_id = fields.get("id", self.last_id)
        match kind:
            case "view":
                self.views[data["journal"]] = data["view"]
            case "patch":
                journal = data["journal"]
                self.views[journal] = patched(self.views[journal], data["patch"])
                assert self.views[journal]["head"] == data["head"]
            case "delta":
                self._text(data["step"], data["offset"], data["text"])
            case "row":
                self.rows[data["row"]["journal"]] = data["row"]
            case "switches":
                self.switches = data["switches"]
            case _:
                raise AssertionError(frame)
        if kind in {"view", "patch"}:
            self.history.append((data["journal"], self.views[data["journal"]]))
        return "enough" if self.enough(self) else ""

    async def until(self, enough: Callable[[Viewer], bool]) -> bool:
        """Read until something is seen; False if the stream ends before."""
        self.enough = enough
        return await self.read("enough")

    async def until_ended(self, run: str) -> bool:
        ends = {"done", "failed", "cancelled", "killed"}
        return await self.until(lambda viewer: viewer.views.get(run, {}).get("phase") in ends)
