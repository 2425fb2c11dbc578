"""Removes each protecting layer alone and sees its test go red: ``make mutants``.

Layers hide each other's holes: without the comparison of positions the key of the table still
refuses, without the key the comparison still does. So each is taken away by itself, in a copy of
the project, and some test must notice. A mutant that survives is a layer nobody tests.

Only a test that failed counts. A mutant that cannot even be imported, or whose tests are not found,
has proved nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from layers import Mutant
from layers_all import MUTANTS

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 300.0  # a layer that is missing may leave somebody waiting for ever
FAILED = re.compile(r"^FAILED \S+::(.+?)(?: - |$)", re.MULTILINE)


def main() -> int:
    """Try every mutant, or those whose layer contains the words given."""
    words = " ".join(sys.argv[1:]).lower()
    chosen = [mutant for mutant in MUTANTS if words in mutant.layer.lower()]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "midflight"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", ".*_cache"))
        survived = [mutant.layer for mutant in chosen if not noticed(copy, mutant)]
    print(f"{len(chosen) - len(survived)} of {len(chosen)} layers are tested by themselves.")
    return 1 if survived else 0


def noticed(copy: Path, mutant: Mutant) -> bool:
    """Take a layer out, run its tests, put it back. True if a test failed, as it should."""
    path = copy / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        print(f"GONE   {mutant.layer}: the place in {mutant.file} has changed", flush=True)
        return False
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        code, said = run_tests(copy, mutant)
    finally:
        path.write_text(text, encoding="utf-8")
    failed = FAILED.search(said)
    if code == 1 and failed:
        print(f"red    {mutant.layer}  ← {failed[1]}", flush=True)
        return True
    if code == 0:
        print(f"ALIVE  {mutant.layer}  ← no test noticed", flush=True)
    else:
        print(f"BROKEN {mutant.layer}  ← no test failed, pytest ended with {code}", flush=True)
        print(said[-2000:], flush=True)
    return False


def run_tests(copy: Path, mutant: Mutant) -> tuple[int, str]:
    """How pytest ended and what it said. Whatever it started is ended with it."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests]
    which = "postgres" if mutant.layer.startswith("Postgres") else "not postgres"
    paths = os.pathsep.join([str(copy / "src"), str(copy / "tests")])
    process = subprocess.Popen(
        [*command, "-m", which],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        said = f"it did not end within {PATIENCE_S:g} s"
    finally:
        with suppress(ProcessLookupError):  # its own session: nobody else is in that group
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode, said


if __name__ == "__main__":
    sys.exit(main())
