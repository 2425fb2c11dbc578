"""Nothing is installed by a name that is not ours yet, and nothing that nobody has pinned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from midflight.errors import to_install

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "deploy" / "Dockerfile", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted((ROOT / "src" / "midflight").rglob("*.py"))
INSTALLING = [
    *(ROOT / name for name in ("Makefile", ".ci/run", "CONTRIBUTING.md", "README.md")),
    *(ROOT / "deploy").glob("*"),
    *(ROOT / "scripts").glob("*.py"),
    *(ROOT / "docs").rglob("*.md"),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nobody_is_told_to_install_us_by_name(page: Path) -> None:
    if page.parent.name == "decisions":
        return  # they say what was thought at the time
    by_name = re.findall(r"pip install[^\n`]* '?\"?midflight\b", page.read_text(encoding="utf-8"))
    assert by_name == []


def test_errors_say_how_to_install_an_extra_in_one_place_and_not_by_name() -> None:
    told = [path.name for path in SOURCES if "pip install" in path.read_text(encoding="utf-8")]
    assert told == ["errors.py"]
    assert to_install("server", "tui").startswith("pip install './midflight[server,tui]'")


def test_the_image_is_built_on_a_digest_and_on_nothing_else() -> None:
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"^ARG PYTHON.*$", text, re.MULTILINE) == ["ARG PYTHON"] * 2  # no default
    assert "*@sha256:*) ;;" in text
    for line in re.findall(r"pip install.*", text):
        assert "--require-hashes" in line or "--no-index --no-deps /wheels/" in line
    assert "${MIDFLIGHT_PYTHON:?" in (ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8")


def test_every_package_of_the_image_has_a_hash_and_the_version_that_is_tested() -> None:
    text = (ROOT / "deploy" / "locked.txt").read_text(encoding="utf-8")
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    tested = dict(re.findall(r"^([\w.-]+)==(\S+)", constraints, re.MULTILINE))
    packages = re.findall(r"^([\w.-]+)==(\S+)((?:.*\\\n)(?:    --hash=.*\n)*)", text, re.MULTILINE)
    assert len(packages) == len(re.findall(r"^\S", text, re.MULTILINE)) > 20
    for name, version, hashes in packages:
        assert tested[name] == version
        assert "--hash=sha256:" in hashes, name
    assert "://" not in text


@pytest.mark.parametrize("path", INSTALLING, ids=lambda path: path.name)
def test_no_script_of_an_npm_package_is_run_when_it_is_installed(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        if re.search(r"\bnpm (ci|install|i) ", line):
            assert "--ignore-scripts" in line, line
