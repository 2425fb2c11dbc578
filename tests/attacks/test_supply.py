"""Nothing is installed by a name that is not ours yet, and nothing that nobody has pinned."""

from __future__ import annotations

import ast
import importlib.util
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


@pytest.mark.parametrize("name", ["web", "agui"])
def test_no_script_of_an_npm_package_is_run_when_the_tests_install_it(
    tmp_path: Path, name: str
) -> None:
    """The command is put together there, so an ``npm`` of ours says what it was given."""
    spec = importlib.util.spec_from_file_location("make_test", ROOT / "scripts" / "test.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    folder, told = tmp_path / name, tmp_path / "told"
    folder.mkdir()
    (folder / "package-lock.json").write_text("{}", encoding="utf-8")
    npm = tmp_path / "npm"
    npm.write_text(f'#!/bin/sh\necho "$@" >> {told}\n', encoding="utf-8")
    npm.chmod(0o755)
    script.BESIDE["PATH"] = f"{tmp_path}:{script.BESIDE['PATH']}"

    assert script.install_locked(folder)

    (given,) = told.read_text(encoding="utf-8").splitlines()
    assert "--ignore-scripts" in given.split()
    assert given.split()[0] == ("install" if name == "web" else "ci")


def test_npm_installs_in_one_place_of_the_scripts_alone() -> None:
    """So the test above sees all that they install."""
    found = []
    for path in sorted((ROOT / "scripts").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            words = getattr(node, "elts", None) or getattr(node, "args", None)
            words = words if isinstance(words, list) else []
            if any(isinstance(word, ast.Constant) and word.value == "npm" for word in words[:-1]):
                found.append((path.name, ast.unparse(node)))
    probe, installing = sorted(found, key=lambda one: "--version" not in one[1])
    assert probe == ("test.py", "('npm', '--version')")
    assert "*how, *quietly" in installing[1]


@pytest.mark.parametrize("name", ["restate", "postgres"])
def test_images_of_others_can_be_named_by_their_digests(name: str) -> None:
    text = (ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8")
    variable = f"MIDFLIGHT_{name.upper()}_IMAGE"
    assert re.search(rf'^    image: "\$\{{{variable}:-[\w/]+:[\d.]+\}}"$', text, re.MULTILINE)
    assert re.search(rf"^#   export {variable}=\S+@sha256:…", text, re.MULTILINE)
