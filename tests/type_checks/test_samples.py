"""The public API has types that both type checkers understand in the same way."""

from __future__ import annotations

from typing import Final

import pytest

from type_checks.checkers import CHECKERS, HERE, ROOT, Checker

SAMPLES: Final = HERE / "samples"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def wrong_lines(sample: str) -> list[int]:
    """Return the lines on which a sample says that it is wrong."""
    lines = (SAMPLES / sample).read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# error")]


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("sample", ["good.py", "bad.py"])
def test_type_checkers_find_the_mistakes_and_nothing_else(sample: str, checker: Checker) -> None:
    found = checker(ROOT, [SAMPLES / sample])
    assert sorted({each.line for each in found}) == wrong_lines(sample), found


def test_there_are_mistakes_to_find() -> None:
    assert wrong_lines("good.py") == []
    assert len(wrong_lines("bad.py")) >= 12
