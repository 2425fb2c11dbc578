"""What the operating system was really asked to do before an append was acknowledged."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from midflight.stores.sqlite import SqliteStore
from stores.programs import command, environment

pytestmark = [pytest.mark.slow, pytest.mark.strace, pytest.mark.anyio]

APPENDS = 40
CALL = re.compile(r"^(?P<thread>\d+) +(?P<time>[\d.]+) (?P<what>.*)$")


def traced(options: list[str], program: list[str]) -> str:
    """Run a program under ``strace``, and return what it printed."""
    done = subprocess.run(
        ["strace", "-f", *options, *program],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    return done.stdout


def test_each_acknowledged_append_is_preceded_by_a_sync_that_began_after_its_write(
    tmp_path: Path,
) -> None:
    trace = tmp_path / "trace"
    program = command("appender.py", str(tmp_path / "journals.db"), "r-1", str(APPENDS))
    calls = "trace=pwrite64,fdatasync,fsync,write"
    printed = traced(["-ttt", "-y", "-s", "16", "-o", str(trace), "-e", calls], program)
    assert len(printed.split()) == APPENDS

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


async def test_when_the_sync_of_a_commit_fails_nobody_says_that_nothing_was_appended(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journals.db"
    failing = ["-o", "/dev/null", "-e", "inject=fdatasync:error=EIO:when=20+"]
    printed = traced(failing, command("broken_disk.py", str(path)))
    acknowledged, unsure, error = printed.splitlines()

    async with SqliteStore.open(path) as store:
        head = (await store.row("r-1")).head

    assert head == int(acknowledged) + 1, "the log that the dead program left has the append"
    assert unsure == "True"
    assert "Nothing was appended" not in error
    assert "the disk has failed" in error
