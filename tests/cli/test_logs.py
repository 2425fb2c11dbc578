"""The log of a server, as an operator greps it."""

from __future__ import annotations

import logging

import msgspec

from midflight.interfaces.cli.console import LogLines


def test_a_line_says_of_which_log_it_is_so_that_the_audit_can_be_told_from_the_rest() -> None:
    fields = {"by": "olga", "status": 200}
    record = logging.makeLogRecord({"name": "midflight.audit", "msg": "Control", **fields})

    line = msgspec.json.decode(LogLines().format(record))
    assert line["log"] == "midflight.audit"
    assert {"message": "Control", **fields}.items() <= line.items()
