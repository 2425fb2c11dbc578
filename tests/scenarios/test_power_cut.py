"""The power goes, at any moment, and comes back: nothing that was acknowledged is lost.

A real process works on a real store under ``strace``. From what it has asked of the disk the files
are built as they may be after a cut, fifty times (see ``traced_disk``), and are opened again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import msgspec
import pytest

from scenarios.aftermath import Aftermath
from scenarios.powered import Known
from scenarios.stories import environment
from scenarios.traced_disk import STRACE, TracedDisk, lines_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.strace,
    pytest.mark.anyio,
    pytest.mark.timeout(240),
]

CUTS = 50
SEED = int(os.environ.get("POWER_CUT_SEED", "23"))


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a process that has worked and was killed, with a trace of what it did."""
    folder = tmp_path_factory.mktemp("life")
    (folder / "disk").mkdir()
    program = [sys.executable, str(Path(__file__).parent / "powered.py"), str(folder)]
    with (folder / "log").open("wb") as log:
        subprocess.run(
            [*STRACE, "-o", str(folder / "trace"), *program],
            env=environment(),
            stderr=log,
            check=False,
            timeout=120,
        )
    log_said = (folder / "log").read_text()
    assert "Traceback" not in log_said, log_said
    return folder


def disk_of(life: Path) -> TracedDisk:
    return TracedDisk(life / "disk" / "journals.db", life / "said")


def test_the_trace_has_all_that_the_process_has_written(life: Path) -> None:
    """What is built from it would be worth nothing otherwise."""
    disk, log_began = disk_of(life), 0
    for line in lines_of(life / "trace"):
        disk.repeat(line)
        log_began += b"pwrite64(" in line and b"-wal>" in line and line.endswith(b", 32, 0) = 32")

    for name in ("journals.db", "journals.db-wal"):
        file = disk.file(name)
        assert file is not None
        found = (life / "disk" / name).read_bytes()
        assert found in {file.whole(), file.whole(begun=True)}, f"{name} is another one"
    assert b"".join(disk.said) == (life / "said").read_bytes()
    assert log_began >= 6, "the log has gone round in each of the two lives"
    assert disk.synced > 20


async def test_fifty_power_cuts_lose_nothing_that_was_acknowledged(
    life: Path, tmp_path: Path
) -> None:
    trace, chance = list(lines_of(life / "trace")), Random(SEED)
    moments = moments_of(trace, disk_of(life), chance)
    disk, cuts, faults = disk_of(life), 0, {}
    for at, line in enumerate(trace):
        disk.repeat(line)
        if at in moments:
            folder = tmp_path / f"{at}"
            disk.cut_power(chance, folder)
            said = [msgspec.json.decode(one, type=Known) for one in disk.said]
            if found := await Aftermath(folder, said).faults():
                faults[at] = found[:5]
            cuts += 1

    assert cuts == CUTS
    assert not faults, f"of seed {SEED}, by the line of the trace: {faults}"


def moments_of(trace: list[bytes], disk: TracedDisk, chance: Random) -> set[int]:
    """Choose lines of the trace: half of them just after something was said."""
    told: list[int] = []
    later: list[int] = []
    for at, line in enumerate(trace):
        before = len(disk.said)
        disk.repeat(line)
        if len(disk.said) > before:
            told.append(at)
        elif disk.said:
            later.append(at)
    return {*chance.sample(told, CUTS // 2), *chance.sample(later, CUTS - CUTS // 2)}
