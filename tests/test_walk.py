"""The way that data takes through the code does not grow longer: see `make walk`."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def walk() -> ModuleType:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module("walk")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


@pytest.mark.slow
def test_no_walk_has_grown_past_its_bounds() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/walk.py")], capture_output=True, text=True, timeout=50
    )

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert [line.split()[1] for line in done.stdout.splitlines()[2:]] == [
        "step",
        "cancel",
        "message",
        "wait",
    ]


def test_the_figures_in_the_docs_are_those_of_the_script(walk: ModuleType) -> None:
    today = walk.table({name: known.today for name, known in walk.WALKS.items()})

    assert today in (ROOT / "CONTRIBUTING.md").read_text("utf-8"), today


def test_a_figure_that_grows_past_its_bound_is_named(walk: ModuleType) -> None:
    today = walk.WALKS["step"].today
    most = walk.Figures(*map(walk.bound, today))

    assert walk.over("step", most) == []
    grown = most._replace(crossings=most.crossings + 1)
    assert walk.over("step", grown) == [
        f"step: {grown.crossings} crossings, and at most {most.crossings} are allowed"
    ]


def test_a_figure_may_grow_by_two_hundredths_and_by_four_at_least(walk: ModuleType) -> None:
    assert [walk.bound(figure) for figure in (0, 100, 201, 500)] == [4, 104, 206, 510]


def test_crossings_and_pairs_are_counted_thread_by_thread(walk: ModuleType) -> None:
    def called(*way: tuple[str, str]) -> list[object]:
        return [walk.Call(module, "f", 0, False, thread) for module, thread in way]

    there_and_back = called(("a", "one"), ("b", "one"), ("b", "one"), ("a", "one"))
    alternating = called(("a", "one"), ("b", "two"), ("a", "one"), ("b", "two"))

    assert walk.measure(there_and_back) == walk.Figures(modules=2, crossings=2, calls=4, pairs=1)
    assert walk.measure(alternating) == walk.Figures(modules=2, crossings=0, calls=4, pairs=0)


def test_a_trace_notes_that_a_function_goes_on_after_a_yield(walk: ModuleType) -> None:
    source = "def f():\n    yield 1\n    yield 2\n"
    names: dict[str, Callable[[], Iterator[int]]] = {}
    exec(compile(source, f"{walk.SOURCE}traced.py", "exec"), names)
    trace, before = walk.Trace(), sys.getprofile()
    try:
        sys.setprofile(trace._note)
        with trace.recording():
            list(names["f"]())
    finally:
        sys.setprofile(before)

    traced = [(call.module, call.function, call.resumed) for call in trace.calls]
    assert traced == [("traced", "f", False), ("traced", "f", True), ("traced", "f", True)]
