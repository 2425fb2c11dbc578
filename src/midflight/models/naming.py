"""Names of tools and ids of calls as providers take them: letters, digits, ``_`` and ``-``.

A conversation may go on with another provider than it began with, and MCP tools have dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from midflight.models.base import ToolSpec

NAME_MAX: Final = 64
ID_MAX: Final = 40
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")


class WireNames:
    """The names in one prompt, there and back: ``crm.search`` is ``crm_search`` on the way."""

    def __init__(self, tools: Iterable[ToolSpec] = (), *, longest: int = NAME_MAX) -> None:
        self._longest = longest
        self._there: dict[str, str] = {}
        self._back: dict[str, str] = {}
        for tool in sorted(tools, key=lambda tool: fits(tool.name), reverse=True):
            self.there(tool.name)  # those that fit keep their names

    def there(self, name: str) -> str:
        """As it is sent; no two names become one."""
        if name not in self._there:
            fit = taken = _UNFIT.sub("_", name)[: self._longest] or "_"
            count = 1
            while taken in self._back:
                count += 1
                taken = f"{fit[: self._longest - 4]}_{count}"
            self._there[name], self._back[taken] = taken, name
        return self._there[name]

    def back(self, name: str) -> str:
        """As we know it; a name that the model has made up stays as it is."""
        return self._back.get(name, name)


def fits(name: str) -> bool:
    """Return whether a name can be sent as it is."""
    return 0 < len(name) <= NAME_MAX and not _UNFIT.search(name)
