"""The page that is in the package: the build of its sources, and light enough to open at once."""

from __future__ import annotations

import gzip
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
WEB = ROOT / "web"
BUILT = ROOT / "src/midflight/_web"
FIRST_LOAD_MAX = 200_000  # bytes of JavaScript, gzipped
BOUND_S = 110.0

needs_node = [pytest.mark.node, pytest.mark.slow, pytest.mark.timeout(120)]


def npx(*command: str) -> None:
    """Run one of the page's own tools, and show what it says if it fails."""
    ran = subprocess.run(
        ("npx", "--no-install", *command),
        cwd=WEB,
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_S,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def contents(folder: Path) -> dict[str, bytes]:
    """Every file by its name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


class TestTheBuild:
    pytestmark = needs_node

    def test_what_is_committed_is_the_build_of_the_sources(self, tmp_path: Path) -> None:
        npx("vite", "build", "--outDir", str(tmp_path / "fresh"), "--logLevel", "error")

        fresh, committed = contents(tmp_path / "fresh"), contents(BUILT)
        assert fresh.keys() == committed.keys(), "run `make web` and commit what it builds"
        assert fresh == committed, "run `make web` and commit what it builds"

    def test_its_types_hold(self) -> None:
        npx("tsc", "--noEmit")

    def test_what_it_knows_and_how_it_folds_news_is_tested_beside_it(self) -> None:
        npx("vitest", "run")


def first_load() -> list[Path]:
    """The scripts that the page loads before it shows anything, and the worker that they start."""
    index = (BUILT / "index.html").read_text("utf-8")
    named = re.findall(r'(?:src|href)="\./(assets/[^"]+\.js)"', index)
    (worker,) = BUILT.glob("assets/worker-*.js")
    return [*(BUILT / name for name in named), worker]


def test_the_first_load_is_within_its_budget() -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in first_load()}

    assert sizes
    assert sum(sizes.values()) <= FIRST_LOAD_MAX, sizes


def test_the_page_asks_for_nothing_that_its_policy_forbids() -> None:
    index = (BUILT / "index.html").read_text("utf-8")

    assert not re.search(r"<script(?![^>]*\bsrc=)", index), "an inline script"
    assert not re.search(r"<style|\sstyle=|\son\w+=", index), "an inline style or handler"
    assert not re.search(r'(?:src|href)="(?:https?:)?//', index), "something from elsewhere"
    assert '<base href="/">' in index  # where the app is mounted, the server writes its place


def test_nothing_that_node_installs_is_committed_and_the_lock_names_no_registry() -> None:
    lock = (WEB / "package-lock.json").read_text("utf-8")
    tracked = subprocess.run(
        ("git", "ls-files", "web"), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout

    assert '"resolved"' not in lock
    assert "node_modules" not in tracked
