"""Removes each protecting layer alone and sees its test go red: ``make mutants``.

Layers hide each other's holes: without the comparison of positions the key of the table still
refuses, without the key the comparison still does. So each is taken away by itself, in a copy of
the project, and some test must notice. A mutant that survives is a layer nobody tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Mutant:
    """A layer, the place where it is taken out, and the tests that must notice."""

    layer: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


KERNEL, STORES = "src/midflight/kernel/", "src/midflight/stores/"
EXECUTOR = "src/midflight/executor/"

MUTANTS = (
    Mutant(
        "a paused run starts nothing (the table)",
        KERNEL + "machine.py",
        "    PG: _stay(PG, *DRIVERS,",
        "    PG: _stay(PG, *STARTS, *DRIVERS,",
        ("tests/kernel/test_pause.py",),
    ),
    Mutant(
        "an older epoch decides nothing",
        KERNEL + "machine.py",
        "    if event.epoch != expected:",
        "    if False:",
        ("tests/kernel/test_drivers.py",),
    ),
    Mutant(
        "a request after upto is not consumed",
        KERNEL + "fold.py",
        "if v == verb and p <= upto]",
        "if v == verb]",
        ("tests/kernel/test_pause.py",),
    ),
    Mutant(
        "a redirect is delivered up to what the driver has read",
        KERNEL + "machine.py",
        'verb == "redirect" and p <= event.upto for p',
        'verb == "redirect" for p',
        ("tests/kernel/test_redirect.py",),
    ),
    Mutant(
        "no end while something is in flight",
        KERNEL + "machine.py",
        '    return "something is in flight" if s.open or s.undos else None',
        "    return None",
        ("tests/kernel/test_cancel.py",),
    ),
    Mutant(
        "an outcome is taken once",
        KERNEL + "decide.py",
        "            if attempt is None or attempt.outcome not in {None, Outcome.UNKNOWN}:",
        "            if attempt is None:",
        ("tests/kernel/test_facts.py",),
    ),
    Mutant(
        "a living driver keeps its run",
        KERNEL + "decide.py",
        "    if state.driver and not (lease_gone or state.driver == driver):",
        "    if False:",
        ("tests/stores/test_contract_drivers.py",),
    ),
    Mutant(
        "the switch is read by start and resume",
        KERNEL + "decide.py",
        '    if isinstance(request, MOVES) or getattr(request, "resume", False):',
        "    if False:",
        ("tests/stores/test_contract_kill.py",),
    ),
    Mutant(
        "a kill is appended to runs in motion",
        KERNEL + "decide.py",
        "    if state.phase in IN_MOTION:\n        return (msgspec",
        "    if False:\n        return (msgspec",
        ("tests/stores/test_contract_kill.py",),
    ),
    Mutant(
        "a kill revokes the drivers of resting runs",
        KERNEL + "decide.py",
        "    return (e.DriverRevoked(scope=killed.scope),) if state.driver else ()",
        "    return ()",
        ("tests/stores/test_contract_kill.py",),
    ),
    Mutant(
        "positions are compared",
        STORES + "plan.py",
        "        if head != entry.expected:",
        "        if False:",
        ("tests/stores/test_contract_append.py",),
    ),
    Mutant(
        "every store asks the table",
        STORES + "plan.py",
        "            check(state, event)\n",
        "",
        ("tests/stores/test_contract_append.py",),
    ),
    Mutant(
        "rows carry a checksum",
        STORES + "codec.py",
        "    if zlib.crc32(body) != checksum:",
        "    if False:",
        ("tests/stores/test_sqlite_trouble.py",),
    ),
    Mutant(
        "a gap is noticed",
        STORES + "codec.py",
        "        if position != after:",
        "        if False:",
        ("tests/stores/test_sqlite_trouble.py",),
    ),
    Mutant(
        "SQLite: a place can be taken once (the key)",
        STORES + "sql/sqlite_001.sql",
        "    PRIMARY KEY (journal, position)      -- the lock: no two appends can take one place\n",
        "    CHECK (position > 0)\n",
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: folded states are trusted only while data_version stands",
        STORES + "sqlite_ledger.py",
        "        if state is not None and seen == self._version:",
        "        if state is not None:",
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: what failed half-way is folded again",
        STORES + "sqlite_ledger.py",
        "            self._forget(touched)  # half",
        "            pass  # half",
        ("tests/stores/test_contract_append.py", "tests/stores/test_contract_submit.py"),
    ),
    Mutant(
        "SQLite: a repeated decision is recognised",
        STORES + "sqlite_ledger.py",
        "            if all(self._append_at(*place) == (decision.id,) for place in begins):",
        "            if False:",
        ("tests/stores/test_contract_repeats.py",),
    ),
    Mutant(
        "SQLite: a repeated request is recognised",
        STORES + "sqlite_ledger.py",
        '        if begins := self._db.execute(SQL["find_request"], (request.id,)).fetchall():',
        "        if begins := []:",
        ("tests/stores/test_contract_repeats.py",),
    ),
    Mutant(
        "SQLite: an append is synced before it is acknowledged",
        STORES + "sqlite_file.py",
        "PRAGMA synchronous = FULL",
        "PRAGMA synchronous = NORMAL",
        ("tests/stores/test_durability.py",),
    ),
    Mutant(
        "SQLite: the turnstile",
        STORES + "turnstile.py",
        "            fcntl.flock(self._gate, how)",
        "            pass",
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: nudges",
        STORES + "sqlite_nudge.py",
        "        peers = self._others()",
        "        peers: list[str] = []",
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: polling, where a nudge is lost",
        STORES + "sqlite.py",
        "        if version != seen:",
        "        if False:",
        ("tests/stores/test_sqlite_processes.py",),
    ),
    Mutant(
        "SQLite: watchers are told before the author",
        STORES + "sqlite_writer.py",
        "        self._deliver([job for job in jobs if job.error is None])\n"
        "        for job in jobs:",
        "        self._loop.call_later(\n"
        "            0.01, self._deliver, [job for job in jobs if job.error is None]\n"
        "        )\n        for job in jobs:",
        ("tests/stores/test_contract_watch.py",),
    ),
    Mutant(
        "the kill switch is an operator's",
        KERNEL + "decide.py",
        "    if who.role is not Role.OPERATOR:",
        "    if False:",
        ("tests/stores/test_contract_kill.py",),
    ),
    Mutant(
        "SQLite: a lease is held only under a name that others see",
        STORES + "sqlite_lease.py",
        "                if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):",
        "                if True:",
        ("tests/stores/test_sqlite_lease.py",),
    ),
    Mutant(
        "Postgres: a request can be taken once (the index)",
        STORES + "sql/postgres_001.sql",
        "CREATE UNIQUE INDEX events_by_request",
        "CREATE INDEX events_by_request",
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: a place can be taken once (the key)",
        STORES + "sql/postgres_001.sql",
        "    PRIMARY KEY (journal, position) ",
        "    CHECK (position > 0) ",
        ("tests/stores/test_postgres.py",),
    ),
    Mutant(
        "Postgres: facts and decisions of others reach watchers by NOTIFY",
        STORES + "postgres_news.py",
        "        self._hub.moved(heads)\n",
        "        pass\n",
        ("tests/stores/test_postgres_lost.py",),
    ),
    Mutant(
        "SQLite: who gives up at the turnstile has appended nothing",
        STORES + "sqlite_writer.py",
        "            batch = [job for job in jobs if not job.taken]",
        "            batch = jobs",
        ("tests/stores/test_sqlite_trouble.py",),
    ),
    Mutant(
        "Crash: what a dead driver had in flight is in doubt",
        EXECUTOR + "moves.py",
        "outcome = Outcome.UNKNOWN if attempt.effect.touches_world else Outcome.ABORTED",
        "outcome = Outcome.DONE",
        ("tests/scenarios/test_crash.py",),
    ),
    Mutant(
        "Crash: what must happen once is not repeated without a word",
        EXECUTOR + "steps.py",
        "        if self.tool.effect is Effect.WRITE:\n            return True",
        "        if True:\n            return True",
        ("tests/scenarios/test_crash.py",),
    ),
    Mutant(
        "Crash: an undo that was cut off is done again",
        EXECUTOR + "moves.py",
        'why="worker lost", final=False',
        'why="worker lost", final=True',
        ("tests/scenarios/test_crash.py",),
    ),
    Mutant(
        "Crash: a back-off is waited out by whoever takes over",
        EXECUTOR + "steps.py",
        "left = driver.log.state.timers.get(timer, 0.0) - driver.clock()",
        "left = 0.0",
        ("tests/scenarios/test_timers.py",),
    ),
    Mutant(
        "Crash: a takeover gives no more tries",
        EXECUTOR + "replay.py",
        "                self.timers[event.name] += 1",
        "                pass",
        ("tests/scenarios/test_timers.py",),
    ),
)


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
        print(f"GONE  {mutant.layer}: the place in {mutant.file} has changed")
        return False
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        failed = run_tests(copy, mutant)
    finally:
        path.write_text(text, encoding="utf-8")
    print(
        f"{'red ' if failed else 'ALIVE'}  {mutant.layer}  ← {failed or 'no test noticed'}",
        flush=True,
    )
    return bool(failed)


def run_tests(copy: Path, mutant: Mutant) -> str:
    """The name of the first test that fails, or nothing."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests]
    which = "postgres" if mutant.layer.startswith("Postgres") else "not postgres"
    paths = os.pathsep.join([str(copy / "src"), str(copy / "tests")])
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, "-m", which],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split("::")[-1].split(" - ")[0] if lines else f"exit code {done.returncode}"


if __name__ == "__main__":
    sys.exit(main())
