"""Runtimes of others are installed with pinned versions, and never beside ours."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from midflight.kit.adapters.stage import Runtime
from midflight.kit.subject import ADAPTERS, KINDS, REQUIREMENTS, SHOWN, Kind, version_of

FOREIGN = [kind for kind in KINDS.values() if kind.requirements]


PINS = [*sorted(REQUIREMENTS.glob("*.txt")), Path(__file__).parents[2] / "bench/dbos.txt"]


@pytest.mark.parametrize("path", PINS, ids=lambda path: path.stem)
def test_requirements_are_plain_pins(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()

    assert lines
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+-]+", line) for line in lines)


@pytest.mark.parametrize("kind", FOREIGN, ids=lambda kind: kind.name)
def test_a_report_names_the_version_that_is_pinned(kind: Kind) -> None:
    assert all(name in version_of(kind) for name in SHOWN[kind.requirements])


@pytest.mark.parametrize("path", sorted(ADAPTERS.glob("*.py")), ids=lambda path: path.stem)
def test_an_adapter_imports_of_midflight_only_its_own_folder_unless_it_is_ours(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    ours = {name for name in modules if name.partition(".")[0] == "midflight"}

    if path.stem != "on_midflight":
        assert all(name.startswith("midflight.kit.adapters") for name in ours)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_an_adapter_overrides_only_verbs_that_there_are(kind: Kind) -> None:
    tree = ast.parse((ADAPTERS / f"{kind.adapter}.py").read_text(encoding="utf-8"))
    marked = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)
        and any(isinstance(d, ast.Name) and d.id == "override" for d in node.decorator_list)
    }

    assert marked - {"think"} <= set(vars(Runtime))


def test_an_adapter_needs_nothing_of_midflight_but_its_own_folder(tmp_path: Path) -> None:
    alone = tmp_path / "midflight/kit"
    alone.mkdir(parents=True)
    (alone / "adapters").symlink_to(ADAPTERS)
    code = "import midflight.kit.adapters.stage, sys; print('msgspec' in sys.modules)"

    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )

    assert done.stdout == "False\n"
