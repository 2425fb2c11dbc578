"""Runtimes of others are installed with pinned versions, and never beside ours."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from midflight.kit.runtimes import KINDS, REQUIREMENTS, SHOWN, version_of
from midflight.kit.subject import ADAPTERS

FOREIGN = [kind for kind in KINDS.values() if kind.requirements]


@pytest.mark.parametrize("path", sorted(REQUIREMENTS.glob("*.txt")), ids=lambda path: path.stem)
def test_requirements_are_plain_pins(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()

    assert lines
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+-]+", line) for line in lines)


@pytest.mark.parametrize("kind", FOREIGN, ids=lambda kind: kind.name)
def test_a_report_names_the_version_that_is_pinned(kind: object) -> None:
    assert isinstance(kind, type(FOREIGN[0]))
    assert all(name in version_of(kind) for name in SHOWN[kind.requirements])


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
