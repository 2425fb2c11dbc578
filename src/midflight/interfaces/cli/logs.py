"""Logs as lines of JSON: the message is a sentence, the fields are for grep.

Trouble that repeats is logged a few times and then counted: a stranger must not fill a disk.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any, Final

import msgspec
from typing_extensions import override

from midflight.interfaces.terminal.safe_text import escaped, visible
from midflight.tools.secret import hide

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


USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class Lines(logging.Formatter):
    """One line a record, with everything it was given."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """See ``logging.Formatter``."""
        line: dict[str, Any] = {
            "at": record.created,
            "level": record.levelname.lower(),
            "log": record.name,
            "message": hide(record.getMessage()),
        }
        line |= {key: value for key, value in vars(record).items() if key not in USUAL}
        if record.exc_info or record.exc_text:
            told = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type]
            line["exception"] = hide(told)
        return escaped(msgspec.json.encode(line, enc_hook=str).decode())


class Words(logging.Formatter):
    """For a person who runs an agent: the message alone, and nothing in it steers the terminal."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """See ``logging.Formatter``."""
        return visible(hide(super().format(record)))


def log_to_stderr() -> None:
    """Write what this package logs to standard error, and of others only their trouble."""
    handler = logging.StreamHandler()
    handler.setFormatter(Lines())
    handler.addFilter(Repeats())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("midflight").setLevel(logging.INFO)


def keep_tracebacks_off_the_screen() -> None:
    """Have an agent's failure told in one line; its traceback only if the environment asks."""
    if logging.lastResort is not None:  # for records that no handler takes
        logging.lastResort.setFormatter(Words())
    if not os.environ.get("MIDFLIGHT_TRACEBACK"):
        for name in ("midflight.runtime.run_session", "midflight.runtime.steps.step_recovery"):
            logging.getLogger(name).addFilter(_has_no_traceback)


def _has_no_traceback(record: logging.LogRecord) -> bool:
    return getattr(record, "action", "") not in {"agent_failed", "tool_raised"}
