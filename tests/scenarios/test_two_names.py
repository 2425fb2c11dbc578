"""Two processes on one store, by every pair of names, while its file is read, copied, taken away.

No effect happens twice. What was acknowledged is in the store, or the process that would have lost
it has stopped, with an error, before it acknowledged anything.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from scenarios import two_names

pytestmark = [pytest.mark.slow, pytest.mark.namespaces, pytest.mark.timeout(600)]

SEED = 20
TRIALS = 200
WAYS = ("path", "symlink", "hard link", "relative", "folder mount", "file mount")
REFUSED = {"hard link", "file mount"}


def specs(folder: Path, seed: int, trials: int) -> list[dict[str, Any]]:
    """Every pair of names and everything that may happen, several times, in a random mix."""
    chance = random.Random(seed)
    pairs = list(product(WAYS, WAYS))
    whats = two_names.HARMLESS + two_names.HARMFUL
    told = []
    for number in range(trials):
        what = whats[number % len(whats)]
        late = chance.random() < 0.3
        told.append(
            {
                "folder": str(folder / f"{number}"),
                "ways": pairs[number % len(pairs)],
                "what": what,
                "at": chance.randrange(10),
                "late": late,  # the second process comes when it has happened
                "kills": chance.random() < 0.4 and not (late and what in two_names.HARMFUL),
            }
        )
    return told


def played(folder: Path, told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    paths = [str(Path(__file__).parents[1]), *filter(None, sys.path)]
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, two_names.__file__, str(folder)],
        input="".join(f"{json.dumps(spec)}\n" for spec in told),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_no_effect_happens_twice_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    results = played(tmp_path, specs(tmp_path, SEED, TRIALS))

    assert len(results) == TRIALS
    for faults in ("twice", "lost", "after", "late", "log"):
        assert [found for found in results if found[faults]] == [], faults
    assert {found["whole"] for found in results} == {"ok"}
    for found in results:
        assert set(found["ends"]) <= {0, 3, -9}, found
        used = set(found["spec"]["ways"])
        if not used & REFUSED and found["spec"]["what"] in two_names.HARMLESS:
            assert found["stopped"] == [], found
    assert_something_was_tried(results)


def assert_something_was_tried(results: list[dict[str, Any]]) -> None:
    """Refused names alone would fill the trials with stops: those are not counted here."""
    counted = Counter[str]()
    for found in results:
        counted.update({"told": found["told"], "done": found["done"]})
        counted["met"] += found["together"]
        counted["taken over"] += found["taken over"] > 0
        if not set(found["spec"]["ways"]) & REFUSED:
            counted["stopped"] += len(found["stopped"])
    assert counted["told"] > TRIALS, counted
    assert counted["done"] > TRIALS / 2, counted
    assert counted["met"] > TRIALS / 4, counted  # two living processes on the same store
    assert counted["taken over"] > TRIALS / 40, counted  # another than the first one had the effect
    assert counted["stopped"] > TRIALS / 10, counted  # their file was taken from them
