"""Trouble that repeats is logged a few times and then counted: a stranger must not fill a disk."""

from __future__ import annotations

import logging
import time
from typing import Final

from midflight.overriding import override

OFTEN: Final = 20  # of one kind, in ...
WITHIN_S: Final = 60.0
KINDS_MAX: Final = 1_000
AUDIT: Final = "midflight.audit"


class Repeats(logging.Filter):
    """Lets through so many records of one place in a minute, and says how many it kept back."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}  # since when, how many

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record: always if it is of the audit, or below a warning."""
        if record.levelno < logging.WARNING or record.name == AUDIT:
            return True
        kind, now = (record.name, str(record.msg)[:200]), time.monotonic()
        since, count = self._seen.get(kind, (now, 0))
        if now - since >= WITHIN_S:
            if count > OFTEN:
                record.not_logged_before = count - OFTEN
            since, count = now, 0
        if len(self._seen) > KINDS_MAX:
            self._seen.clear()
        self._seen[kind] = (since, count + 1)
        return count < OFTEN
