"""The driving process is killed with -9, again and again; the run ends as if it had not been."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

WORKER = Path(__file__).parent / "worker.py"
ROUNDS = 6


def work(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, str(WORKER), str(folder), *words],
        env=os.environ,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"driving\n"
    process.stdout.close()
    return process


def ledger(folder: Path) -> Counter[str]:
    path = folder / "ledger"
    return Counter(path.read_text().split("\n")[:-1]) if path.exists() else Counter()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Counter[str], list[object]]:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert work(folder, "start").wait(60) == 0
    return ledger(folder), msgspec.json.decode((folder / "result").read_bytes())


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_applied_keys_and_result_equal_those_of_an_undisturbed_run(
    tmp_path: Path, seed: int, undisturbed: tuple[Counter[str], list[object]]
) -> None:
    chance, kills = random.Random(seed), 0
    process = work(tmp_path, "start")
    for _ in range(60):
        try:
            assert process.wait(chance.random() * 0.25) == 0
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
            kills += 1
            process = work(tmp_path)
    else:
        process.kill()
        pytest.fail("the run did not get on")

    keys, result = undisturbed
    assert ledger(tmp_path) == keys, "each effect once, none missing"
    found = msgspec.json.decode((tmp_path / "result").read_bytes())
    # A person who says that an order happened does not know what it had returned.
    assert all(mine in (whole, None) for mine, whole in zip(found, result, strict=True))
    assert kills > 0
