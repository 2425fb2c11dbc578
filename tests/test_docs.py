"""What is written is still true: the diagram, the code in the README, the public names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import midflight
from midflight.stores.opening import open_store
from stores.runs import running

ROOT = Path(__file__).resolve().parent.parent


def test_the_state_diagram_is_drawn_from_the_table() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from diagram import PAGE, redrawn
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    page = PAGE.read_text(encoding="utf-8")

    assert "cancelling --> cancelled" in page
    assert redrawn(page) == page, "run `make diagram`"


@pytest.mark.anyio
async def test_the_code_in_the_readme_cancels_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_store("sqlite:midflight.db") as store:
        driving = await running(store)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    scope: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), scope)
    cancel = scope["cancel"]
    assert callable(cancel)

    assert await cancel(driving.run) == driving.state.head + 1


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_every_example_runs(example: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, check=False, timeout=50
    )

    assert done.returncode == 0, done.stderr
    assert "final (irreversible)" in done.stdout


def test_the_public_names_are_these() -> None:
    assert midflight.__all__ == sorted(midflight.__all__)
    assert set(midflight.__all__) == {
        "MidflightError",
        "Phase",
        "Refused",
        "Store",
        "StoreError",
        "Who",
        "open_store",
    }


def test_the_core_imports_nothing_that_was_not_asked_for() -> None:
    code = "import sys, midflight; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not set(done.stdout.split()) & {"asyncpg", "sqlite3", "fastapi", "textual", "rich"}
