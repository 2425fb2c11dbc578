"""A test that was not run has not passed: what `make test` leaves out it names, and CI refuses."""

from __future__ import annotations

import importlib.util
import os
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

    passed, skipped = script.run_tests(
        "-n", "0", "-p", "no:cacheprovider", str(tmp_path), again=False
    )

    assert passed
    assert {name.partition("::")[2]: why for name, why in skipped.items()} == {
        "test_that_skips_itself": "needs a moon",
        "test_that_is_not_even_begun": "needs two moons",
    }


ONCE = """
from pathlib import Path

def test_that_fails_once():
    failed = Path(__file__).with_name("failed")
    there = failed.exists()
    failed.touch()
    assert there
"""
STOPPED = """
def test_in_whose_middle_somebody_stops_it():
    raise KeyboardInterrupt
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("after", "passes"), [("", True), (STOPPED, False)], ids=["all run", "stopped"]
)
def test_one_test_that_failed_gets_another_chance_if_all_others_were_run(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, after: str, passes: bool
) -> None:
    (tmp_path / "test_once.py").write_text(ONCE + after, encoding="utf-8")
    monkeypatch.setattr(script, "ROOT", tmp_path)

    passed, _ = script.run_tests("-n", "0", again=True)

    assert passed is passes


APT_GET = """#!/bin/sh
echo "$@" >> "$HOME/asked.txt"
case "$*" in *nowhere*) exit 1 ;; esac
for package in "$@"; do : > "$HOME/$package"; done
"""
"""Stands for one that installs everything but a package that is not to be had."""


def test_a_package_that_is_not_to_be_had_leaves_out_its_own_part_alone(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    apt_get = tmp_path / "apt-get"
    apt_get.write_text(APT_GET, encoding="utf-8")
    apt_get.chmod(0o755)
    for name, value in (("HOME", str(tmp_path)), ("PATH", f"{tmp_path}:{os.environ['PATH']}")):
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(script.BESIDE, name, value)
    monkeypatch.setattr(script.os, "geteuid", lambda: 0)
    there = [("test", "-f", str(tmp_path / name)) for name in ("sun", "moon", "never")]
    packages = zip(there, ("sun", "nowhere", "dust"), strict=True)
    monkeypatch.setattr(script, "PARTS", dict(zip(("sun", "moon", "star"), packages, strict=True)))
    monkeypatch.setattr(script, "INSTEAD", {})
    monkeypatch.setattr(script, "NODE", ())

    left_out = script.provide_parts()

    assert left_out == {
        "moon": "apt-get could not install nowhere",
        "star": f"`{' '.join(there[2])}` is not allowed on this machine",
    }
    asked = (tmp_path / "asked.txt").read_text(encoding="utf-8").splitlines()
    assert [one for one in asked if one.startswith("update")] == ["update -qq"]
    assert asked[1] == "install -y -qq sun nowhere dust"


def test_a_part_is_not_left_out_where_something_else_does_as_well(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(script, "PARTS", {"sun": (("false",), "sun"), "moon": (("false",), "moon")})
    monkeypatch.setattr(script, "INSTEAD", {"sun": ("true",), "moon": ("false",)})
    monkeypatch.setattr(script, "NODE", ())

    assert script.provide_parts() == {"moon": "`false` does not work; install the package moon"}


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
