"""A test that was not run has not passed: what `make test` leaves out it names, and CI refuses."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent

TESTS = """
import pytest

def test_that_runs():
    pass

def test_that_skips_itself():
    pytest.skip("needs a moon")

@pytest.mark.skipif(True, reason="needs two moons")
def test_that_is_not_even_begun():
    raise AssertionError
"""


@pytest.fixture
def script() -> ModuleType:
    """``scripts/test.py``."""
    spec = importlib.util.spec_from_file_location("make_test", ROOT / "scripts" / "test.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_test_that_skips_itself_is_named_with_its_reason(
    script: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "test_moons.py").write_text(TESTS, encoding="utf-8")

    passed, skipped = script.run_tests("-n", "1", "-p", "no:cacheprovider", str(tmp_path))

    assert passed
    assert {name.partition("::")[2]: why for name, why in skipped.items()} == {
        "test_that_skips_itself": "needs a moon",
        "test_that_is_not_even_begun": "needs two moons",
    }


@pytest.mark.parametrize(("ci", "accepted"), [("true", False), ("", True)])
def test_what_was_left_out_is_said_and_in_ci_refused(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ci: str,
    accepted: bool,
) -> None:
    monkeypatch.setenv("CI", ci)

    assert script.account_for({"test_moons::test_that_skips_itself": "needs a moon"}) is accepted
    assert "test_that_skips_itself: needs a moon" in capsys.readouterr().out
    assert script.account_for({})
