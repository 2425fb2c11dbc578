"""Logs as lines of JSON: the message is a sentence, the fields are for grep."""

from __future__ import annotations

import logging
import os
from typing import Any, Final

import msgspec

from midflight.overriding import override
from midflight.terminal.visible import escaped, visible

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
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in USUAL}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escaped(msgspec.json.encode(line, enc_hook=str).decode())


class Words(logging.Formatter):
    """For a person who runs an agent: the message alone, and nothing in it steers the terminal."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """See ``logging.Formatter``."""
        return visible(super().format(record))


def log_to_stderr() -> None:
    """Write what this package logs to standard error, and of others only their trouble."""
    handler = logging.StreamHandler()
    handler.setFormatter(Lines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("midflight").setLevel(logging.INFO)


def keep_tracebacks_off_the_screen() -> None:
    """People are told in one line that an agent failed, and by what; where, to who asks for it."""
    if logging.lastResort is not None:  # what is logged where nobody has said how
        logging.lastResort.setFormatter(Words())
    if not os.environ.get("MIDFLIGHT_TRACEBACK"):
        place = logging.getLogger("midflight.executor.function")
        place.addFilter(lambda record: getattr(record, "action", "") != "agent_failed")
