"""The list of protecting layers points at code and tests that are there: `make mutants` is slow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

sys.path.insert(0, str(ROOT / "scripts"))
try:
    from layers_all import MUTANTS
finally:
    sys.path.remove(str(ROOT / "scripts"))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.layer)
def test_a_layer_is_found_in_one_place_and_its_tests_are_there(mutant: Any) -> None:
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).exists()
        if name:
            assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_each_layer_is_listed_once() -> None:
    assert len({mutant.layer for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)
