"""What `make demo` and `make test` do before anything of ours is there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PYTHON = """#!/bin/sh
echo "$@" >> asked.txt
case "$2" in venv) rm -rf .venv && mkdir -p .venv/bin && cp "$0" .venv/bin/python ;; esac
"""
"""Stands for a Python that works: it writes down what it is asked, and installs nothing."""
WITHOUT_PIP = "#!/bin/sh\nexit 1\n"


def made(folder: Path) -> list[str]:
    """What Python was asked by `make` in a checkout in this folder."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    stub = folder / "python-stub"
    stub.write_text(PYTHON, encoding="utf-8")
    stub.chmod(0o755)
    subprocess.run(
        ["make", f"PYTHON={stub}", ".venv/.demo-ready"],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=30,
    )
    return (folder / "asked.txt").read_text(encoding="utf-8").splitlines()


def test_an_environment_that_was_left_half_made_is_made_anew(tmp_path: Path) -> None:
    half = tmp_path / ".venv" / "bin" / "python"  # a file: a link would lead to a real Python
    half.parent.mkdir(parents=True)
    half.write_text(WITHOUT_PIP, encoding="utf-8")
    half.chmod(0o755)

    asked = made(tmp_path)

    assert "-m venv --clear .venv" in asked
    assert "-e .[" in asked[-1]


def test_an_environment_that_works_is_kept(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / ".venv" / ".demo-ready").unlink()
    (tmp_path / "asked.txt").unlink()

    assert not [asked for asked in made(tmp_path) if "venv --clear" in asked]


def test_the_demo_is_installed_with_all_that_its_greeting_names(tmp_path: Path) -> None:
    extras = made(tmp_path)[-1].partition(".[")[2].rstrip("]").split(",")

    assert {"server", "tui"} <= set(extras)
