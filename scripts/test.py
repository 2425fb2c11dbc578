"""Everything that must hold before a change lands: ``make test``; with ``--fast``: ``make check``.

Parts that need a program from outside Python are provided here, by apt-get when we may. What cannot
be provided is left out and named at the end, and so is every test that skips itself. With
``CI=true`` that is a failure: a test that was not run has not passed. One test may fail beside the
others if it passes alone three times; it is named as unsteady.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

NODE = (
    ROOT / "tests/server/agui",
    ROOT / "tests/server/agui_uis",
    ROOT / "tests/engines",
    ROOT / "web",
    ROOT / "tests/type_checks",
)  # where a package.json names what is needed
PAGES = ROOT / "tests/server/agui_uis"  # CopilotKit and assistant-ui, built with the Vite of web/

RECORDING = "/usr/share/pocketsphinx/test/data/cards/001.wav"
PARTS = {
    "strace": (("strace", "-o", "/dev/null", "true"), "strace"),
    "namespaces": (("unshare", "-rm", "true"), "util-linux"),
    "node": (("npm", "--version"), "npm"),
    "curl": (("curl", "--version"), "curl"),
    "tmux": (("tmux", "-V"), "tmux"),
    "flite": (("flite", "-lv"), "flite"),
    "recordings": (("test", "-f", RECORDING), "pocketsphinx-testdata"),
    "chromium": (("chromium-headless-shell", "--version"), "chromium-headless-shell"),
}
"""pytest marker -> a command that works where the part is there, and the Debian package for it."""
INSTEAD = {"chromium": ("chromium", "--version")}
"""pytest marker -> a command that works where there is something else that does as well.

The whole Chromium draws the same pages, and computes four times as much for each of its windows.
"""

DOORS = (
    "assistant", "attacks", "chat", "cli", "client", "demo", "doors", "engines", "kit",
    "models", "page", "remote", "server", "telemetry", "tools", "tui", "type_checks", "voice",
    "web",
)  # fmt: skip
"""Folders of tests that the fast loop leaves out: they start servers and processes."""

HURRY = ("-n", "3", *(f"--ignore={ROOT / 'tests' / door}" for door in DOORS))
"""A test waits as often as it works; but every worker reads all tests before it runs its share."""

WHOLE = ("-n", "4", "--durations=30", "--durations-min=5")
"""Most of what is slow waits: for processes, leases that run out; see ``tests/shares.py``."""
FAILED = 1  # pytest's status: it has run all tests, and some have failed
READ = ("pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
"""Reads all tests once, so that their bytecode is there: or each worker would make it anew."""

CHECKS = (
    ("format", ("ruff", "format", "--check", ".")),
    ("lint", ("ruff", "check", ".")),
    ("imports", ("lint-imports", "--no-logo")),
)
LARGE = ("anthropic.*", "openai.*", "schemathesis.*")
"""Six in ten of all types that there are to read, and three modules of ours that use them."""

BESIDE = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The tests start many interpreters: without bytecode each would compile everything anew."""
BESIDE["NO_MKDOCS_2_WARNING"] = "1"  # not about us: a notice of the theme's authors, at every build


def main() -> int:
    """Run the checks in order, all of them, and sum up."""
    fast = "--fast" in sys.argv[1:]
    if fast:
        BESIDE["MIDFLIGHT_HURRY"] = "1"
    types = hurried_types() if fast else ("mypy",)
    with ThreadPoolExecutor(len(CHECKS) + 2) as beside:
        checks = {
            name: beside.submit(run, name, *command)
            for name, command in (("types", types), *CHECKS)
        }
        left_out: dict[str, str] = {}
        if not fast:
            read = beside.submit(run, "reading", *READ, silent=True)
            left_out = provide_parts()
            read.result()
        tests = HURRY if fast else WHOLE
        passed, skipped = run_tests(*tests, "-m", selection(fast, left_out), again=not fast)
    failed = [name for name, check in checks.items() if not check.result()]
    if not passed:
        failed.append("tests")
    if not account_for(left_out | skipped):
        failed.append("left-out parts")
    if fast:
        left = ", ".join(
            [*DOORS, "Postgres", "SQLite stories", "types of large packages", "the site"]
        )
        say(f"Left to `make test`: {left}, what is slow.")
    say(f"Failed: {', '.join(failed)}." if failed else "All is well.")
    return 1 if failed else 0


def hurried_types() -> tuple[str, ...]:
    """How to check our types without reading all of the largest packages that we build on."""
    config = ROOT / ".mypy_cache" / "hurry.toml"
    config.parent.mkdir(exist_ok=True)
    skipped = f'[[tool.mypy.overrides]]\nmodule = {list(LARGE)}\nfollow_imports = "skip"\n'
    config.write_text(f"{(ROOT / 'pyproject.toml').read_text()}\n{skipped}")
    return ("mypy", "--config-file", str(config), "--cache-dir", str(config.with_suffix("")))


def run_tests(*arguments: str, again: bool) -> tuple[bool, dict[str, str]]:
    """Run pytest: whether it passed, and which tests skipped themselves for which reason.

    ``again``: one test that failed beside the others gets another chance, alone; but not where
    pytest was stopped before it had run them all.
    """
    with tempfile.TemporaryDirectory() as folder:
        report, cache = Path(folder) / "report.xml", Path(folder) / "cache"
        keep = (f"--junitxml={report}", "-o", f"cache_dir={cache}")
        status = status_of("tests", "pytest", "-q", *keep, *arguments)
        passed = status == 0
        if status == FAILED and again:
            passed = steady_alone(failed_in(cache))
        return passed, skipped_in(report) if report.exists() else {}


def failed_in(cache: Path) -> list[str]:
    """Return the names of the tests that failed, as pytest has noted them."""
    noted = cache / "v/cache/lastfailed"
    return sorted(json.loads(noted.read_text())) if noted.exists() else []


def steady_alone(failed: list[str]) -> bool:
    """Run the one test that failed beside the others again, alone: it has to pass three times.

    It is named, because a race in the test or in the product is behind it. Where two have failed,
    something is wrong, and nothing is run again.
    """
    if len(failed) != 1 or "::" not in failed[0]:
        return False
    say(f"Failed beside the others, now run alone, three times: {failed[0]}")
    steady = all(run(f"alone, time {count}", "pytest", "-q", *failed) for count in (1, 2, 3))
    if steady:
        say(f"UNSTEADY, to be mended (see CONTRIBUTING.md): {failed[0]}")
    return steady


def skipped_in(report: Path) -> dict[str, str]:
    """The tests that pytest reports as skipped, each with its reason."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        for skipped in case.iter("skipped"):
            if skipped.get("type") == "pytest.skip":
                name = f"{case.get('classname')}::{case.get('name')}"
                found[name] = skipped.get("message", "")
    return found


def account_for(left_out: dict[str, str]) -> bool:
    """Say what was left out and why. False if nothing may be: on the machine that decides."""
    if left_out:
        say("Left out:")
        for part, why in left_out.items():
            say(f"  {part}: {why}")
    return not left_out or os.environ.get("CI") != "true"  # layer test-not-run-has-not-passed


def selection(fast: bool, left_out: dict[str, str]) -> str:
    """The pytest marker expression."""
    without = ["live", *left_out, *(["slow", "postgres"] if fast else [])]
    return " and ".join(f"not {marker}" for marker in without)


def provide_parts() -> dict[str, str]:
    """Install the programs that are missing, and say why where it cannot be done."""
    missing = {part: one for part, one in PARTS.items() if not works(*one[0])}
    may = os.geteuid() == 0 and shutil.which("apt-get") is not None
    failed = install(*(package for _, package in missing.values())) if may and missing else set()
    left_out: dict[str, str] = {}
    for part, (probe, package) in missing.items():
        if part in INSTEAD and not works(*probe) and works(*INSTEAD[part]):
            continue
        if not may:
            left_out[part] = f"`{' '.join(probe)}` does not work; install the package {package}"
        elif package in failed:
            left_out[part] = f"apt-get could not install {package}"
        elif not works(*probe):
            left_out[part] = f"`{' '.join(probe)}` is not allowed on this machine"
    for folder in NODE:
        if "node" not in left_out and not install_locked(folder):
            left_out["node"] = f"`npm install` has failed in {folder.relative_to(ROOT)}"
    if PAGES in NODE and "node" not in left_out and not build_pages():
        left_out["node"] = f"the pages of {PAGES.relative_to(ROOT)} cannot be built"
    return left_out


def build_pages() -> bool:
    """Build the pages of other people's interfaces, unless nothing of them is newer."""
    built = PAGES / "built/copilotkit.html"
    sources = (PAGES / "vite.config.js", PAGES / "package-lock.json", *(PAGES / "pages").iterdir())
    if built.exists() and all(built.stat().st_mtime >= one.stat().st_mtime for one in sources):
        return True
    vite = ROOT / "web/node_modules/vite/bin/vite.js"
    return run("AG-UI pages", "node", str(vite), "build", "--config", str(PAGES / "vite.config.js"))


def install_locked(folder: Path) -> bool:
    """Install what the lock file of a folder names, unless that is done; no package's script runs.

    By ``npm ci``, except for the page: that refuses a lock which does not name the parts for other
    platforms, and those of the page's builder are not to be had from every registry. What the lock
    names is compared with its hashes in both cases.
    """
    locked, installed = folder / "package-lock.json", folder / "node_modules/.package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= locked.stat().st_mtime:
        return True
    how = ("install", "--no-save") if folder.name == "web" else ("ci",)
    quietly = ("--ignore-scripts", "--silent", "--no-audit", "--no-fund")
    return run(f"npm {how[0]}", "npm", *how, *quietly, "--prefix", str(folder))


def works(*probe: str) -> bool:
    """Whether a command can be run here."""
    if shutil.which(probe[0]) is None:
        return False
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def install(*packages: str) -> set[str]:
    """Install Debian packages, all at once; those that could not be, for each is tried alone."""
    installed = ("apt-get", "install", "-y", "-qq")
    if not run("apt-get update", "apt-get", "update", "-qq"):
        return set(packages)
    if run(f"install {', '.join(packages)}", *installed, *packages):
        return set()
    return {package for package in packages if not run(f"install {package}", *installed, package)}


def run(name: str, *command: str, silent: bool = False) -> bool:
    """Run one command from the project's root, and return whether it passed."""
    return status_of(name, *command, silent=silent) == 0


def status_of(name: str, *command: str, silent: bool = False) -> int:
    """Run one command; say how long it took and whether it passed, and return its exit status."""
    program = BIN / command[0]
    began = time.monotonic()
    full = (str(program) if program.exists() else command[0], *command[1:])
    if name == ("tests" if "MIDFLIGHT_HURRY" in BESIDE else "types"):
        full = ("nice", *full)  # in a hurry the types take longest, otherwise the tests
    into = subprocess.DEVNULL if silent else None
    status = subprocess.run(full, cwd=ROOT, check=False, env=BESIDE, stdout=into).returncode
    say(f"{'FAIL' if status else 'ok  '} {name} ({time.monotonic() - began:.1f} s)")
    return status


def say(line: str) -> None:
    """Print at once, between the lines of what we run."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
