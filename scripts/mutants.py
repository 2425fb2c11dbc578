"""Removes each protecting layer alone and sees its test go red: ``make mutants``.

Layers hide each other's holes: without the comparison of positions the key of the table still
refuses, without the key the comparison still does. So each is taken away by itself, in a copy of
the project, and some test must notice. A mutant that survives is a layer nobody tests. Where a
layer is, a mark says in the code: see ``marks.py``.

Only a test that failed counts, and only if it passes while the layer is there. A mutant that cannot
even be imported, or whose tests are not found, has proved nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from layers_all import MUTANTS
from marks import Mutant, NotHere, marks, place_of

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 300.0  # a layer that is missing may leave somebody waiting for ever
ALL_OF_THEM_S = 1200.0
FAILED = re.compile(r"^FAILED (\S+::.+?)(?: - |$)", re.MULTILINE)


def main() -> int:
    """Try every mutant, or those whose layer contains the words given."""
    words = " ".join(sys.argv[1:]).lower()
    chosen = [mutant for mutant in MUTANTS if words in mutant.layer.lower()]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "midflight"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", ".*_cache"))
        red = red_already(copy, chosen)
        survived = [mutant.layer for mutant in chosen if not noticed(copy, mutant, red)]
    print(f"{len(chosen) - len(survived)} of {len(chosen)} layers are tested by themselves.")
    return 1 if survived else 0


def red_already(copy: Path, chosen: Sequence[Mutant]) -> set[str]:
    """Tests that fail with every layer in its place: their being red later says nothing."""
    red = set()
    for marked in {kind_of(mutant) for mutant in chosen}:
        names = {name for mutant in chosen if kind_of(mutant) == marked for name in mutant.tests}
        code, said = run_tests(copy, sorted(names), marked, "-n", "2", patience=ALL_OF_THEM_S)
        found = set(FAILED.findall(said))
        for name in sorted(found):
            print(f"RED    {name}  ← also with every layer in its place", flush=True)
        if code and not found:
            raise SystemExit(f"The tests cannot be run as they are:\n{said[-2000:]}")
        red |= found
    return red


def noticed(copy: Path, mutant: Mutant, red: set[str]) -> bool:
    """Take a layer out, run its tests, put it back. True if a test failed, as it should."""
    try:
        ((path, line),) = marks(copy).get(mutant.mark, [])
        place = place_of(path, line)
        without = mutant.way.out_of(place)
    except (NotHere, ValueError) as error:
        print(f"GONE   {mutant.layer}: at its mark {mutant.mark}: {error}", flush=True)
        return False
    path.write_text(without, encoding="utf-8")
    try:
        skipped = [f"--deselect={name}" for name in red]
        code, said = run_tests(copy, mutant.tests, kind_of(mutant), "-x", *skipped)
    finally:
        path.write_text(place.text, encoding="utf-8")
    failed = FAILED.search(said)
    if code == 1 and failed:
        print(f"red    {mutant.layer}  ← {failed[1].partition('::')[2]}", flush=True)
        return True
    if code == 0:
        print(f"ALIVE  {mutant.layer}  ← no test noticed", flush=True)
    else:
        print(f"BROKEN {mutant.layer}  ← no test failed, pytest ended with {code}", flush=True)
        print(said[-2000:], flush=True)
    return False


def kind_of(mutant: Mutant) -> str:
    """Which of its tests count: the others run on a store that has not this layer."""
    return "postgres" if mutant.layer.startswith("Postgres") else "not postgres"


def run_tests(
    copy: Path, names: Sequence[str], marked: str, *options: str, patience: float = PATIENCE_S
) -> tuple[int, str]:
    """How pytest ended and what it said. Whatever it started is ended with it."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *names]
    paths = os.pathsep.join([str(copy / "src"), str(copy / "tests")])
    process = subprocess.Popen(
        [*command, "-m", marked],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        said = f"it did not end within {patience:g} s"
    finally:
        with suppress(ProcessLookupError):  # its own session: nobody else is in that group
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode, said


if __name__ == "__main__":
    sys.exit(main())
