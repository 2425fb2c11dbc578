"""Every protecting layer has its mark in the code and can be taken out: `make mutants` is slow."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

sys.path.insert(0, str(ROOT / "scripts"))
try:
    from layers_all import MUTANTS
    from marks import (
        ALWAYS,
        DROP,
        NEVER,
        Instead,
        NotHere,
        Place,
        Swap,
        Value,
        Without,
        marks,
        place_of,
    )
finally:
    sys.path.remove(str(ROOT / "scripts"))

MARKS = marks()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.layer)
def test_a_layer_can_be_taken_out_at_its_mark_and_its_tests_are_there(mutant: Any) -> None:
    ((path, line),) = MARKS[mutant.mark]
    place = place_of(path, line)
    without = mutant.way.out_of(place)

    assert without != place.text
    if path.suffix == ".py":
        ast.parse(without)
    for test in mutant.tests:
        named, _, name = test.partition("::")
        assert (ROOT / named).exists()
        if name:
            assert f"def {name}(" in (ROOT / named).read_text(encoding="utf-8")


def test_each_layer_is_listed_once() -> None:
    assert len({mutant.layer for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.mark, mutant.way) for mutant in MUTANTS}) == len(MUTANTS)


def test_every_mark_is_that_of_a_layer_and_stands_in_one_place() -> None:
    assert MARKS.keys() == {mutant.mark for mutant in MUTANTS}
    assert not {mark: places for mark, places in MARKS.items() if len(places) != 1}


CODE = """
def f(a, b):
    # layer above
    if a and b():
        call(a, key=b)  # layer beside
        return [a, b]
    try:
        return a if b else 0
    except ValueError:
        settings = {
            "one": call(a),
            "two": 2,
        }
    match a:
        case 1:
            return a
"""


@pytest.mark.parametrize(
    ("line", "way", "old", "new"),
    [
        (4, NEVER, "if a and b():", "if False:"),
        (4, ALWAYS, "if a and b():", "if True:"),
        (4, Without(0), "a and b()", "((b()))"),
        (4, Swap("b()", "b"), "b():", "b:"),
        (5, DROP, "call(a, key=b)", "pass"),
        (5, Without("key"), "call(a, key=b)", "call(a, )"),
        (5, Instead("raise"), "call(a, key=b)", "raise"),
        (6, Value("None"), "[a, b]", "None"),
        (6, Without(1), "[a, b]", "[a, ]"),
        (8, NEVER, "if b", "if False"),
        (9, NEVER, "ValueError", "()"),
        (12, DROP, '            "two": 2,', ""),
        (15, NEVER, "case 1", "case 1 if False"),
    ],
)
def test_a_way_takes_out_what_it_says(line: int, way: Any, old: str, new: str) -> None:
    without = way.out_of(Place(CODE, line, sql=False))

    assert without == CODE.replace(old, new)
    ast.parse(without)


@pytest.mark.parametrize(
    ("line", "way"),
    [(5, NEVER), (5, Value("1")), (4, Swap("return", "")), (6, Without(2)), (9, DROP), (9, ALWAYS)],
)
def test_a_way_that_does_not_fit_is_refused(line: int, way: Any) -> None:
    if (line, way) == (5, Value("1")):
        assert "1  # layer" in way.out_of(Place(CODE, line, sql=False))
        return
    with pytest.raises(NotHere):
        way.out_of(Place(CODE, line, sql=False))


def test_a_mark_is_found_beside_its_code_and_above_it(tmp_path: Path) -> None:
    source = tmp_path / "src/midflight/some.py"
    source.parent.mkdir(parents=True)
    source.write_text(CODE, encoding="utf-8")

    assert marks(tmp_path) == {"above": [(source, 4)], "beside": [(source, 5)]}
