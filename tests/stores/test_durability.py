"""What the operating system was really asked to do before an append was acknowledged."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from stores.programs import command, environment

pytestmark = [pytest.mark.slow, pytest.mark.strace]

APPENDS = 40
CALL = re.compile(r"^(?P<thread>\d+) +(?P<time>[\d.]+) (?P<what>.*)$")


def test_each_acknowledged_append_is_preceded_by_a_sync_that_began_after_its_write(
    tmp_path: Path,
) -> None:
    trace = tmp_path / "trace"
    program = command("appender.py", str(tmp_path / "journals.db"), "r-1", str(APPENDS))
    watch = ["strace", "-f", "-ttt", "-y", "-s", "16", "-o", str(trace)]
    calls = "trace=pwrite64,fdatasync,fsync,write"
    done = subprocess.run(
        [*watch, "-e", calls, *program],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    assert len(done.stdout.split()) == APPENDS

    written, syncing, synced, acknowledged = False, False, False, 0
    for line in trace.read_text(encoding="utf-8").splitlines():
        found = CALL.match(line)
        assert found is not None, line
        what = found["what"]
        if "-wal>" in what and what.startswith("pwrite64("):
            written, syncing, synced = True, False, False
        elif re.match(r"fd?a?t?a?sync\(.*-wal>", what):
            syncing = written
            synced = syncing and "unfinished" not in what
        elif re.match(r"<\.\.\. fd?a?t?a?sync resumed>", what):
            synced = syncing
        elif re.match(r'write\(1<.*"\d+\\n"', what):
            acknowledged += 1
            assert written, f"acknowledged and nothing written: {line}"
            assert synced, f"acknowledged before its sync had ended: {line}"
            written = synced = False
    assert acknowledged == APPENDS
