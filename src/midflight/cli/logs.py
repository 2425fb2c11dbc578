"""Logs as lines of JSON: the message is a sentence, the fields are for grep."""

from __future__ import annotations

import logging
import os
from typing import Any, Final

import msgspec

from midflight.cli.log_limits import Repeats
from midflight.overriding import override
from midflight.terminal.visible import escaped, visible
from midflight.tools.secret import hide

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
