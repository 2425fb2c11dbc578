"""Figures of several sittings in one file: what is later replaces what it has measured anew."""

from __future__ import annotations

from midflight.kit.durable import Figure
from midflight.kit.results import POOLED, STOPS, Results, sittings
from midflight.kit.score import Row


def row(scenario: str, trials: int = 100, failures: int = 0, metric: str = "unlisted") -> Row:
    return Row("mine", scenario, metric, trials=trials, failures=failures, total=failures)


def test_a_later_sitting_takes_the_place_of_what_it_has_measured_and_of_nothing_else() -> None:
    results = Results()
    first = results.sit("mine", "mine 1.0", commit="aaa")
    for name in STOPS:
        results.replace(first, name, [row(name)])
    second = results.sit("mine", "mine 1.1", commit="bbb")

    results.replace(second, "batch", [row("batch", failures=3)])

    assert {r.scenario for r in results.rows if r.sitting == second.number} == {"batch"}
    assert {r.scenario for r in results.rows if r.sitting == first.number} == {*STOPS} - {"batch"}
    told = sittings(results).splitlines()
    assert "mine 1.0; commit aaa" in told[2]
    assert "mine 1.1; commit bbb | batch |" in told[3]


def test_all_stops_together_are_made_of_what_is_there_now() -> None:
    results = Results()
    sitting = results.sit("mine", "mine 1.0")
    for name in STOPS[:-1]:
        results.replace(sitting, name, [row(name)])
    assert results.of("mine", POOLED, "unlisted") is None

    results.replace(sitting, STOPS[-1], [row(STOPS[-1], failures=2)])
    pooled = results.of("mine", POOLED, "unlisted")
    assert pooled is not None
    assert (pooled.trials, pooled.failures) == (600, 2)
    assert results.trials("mine", POOLED) == 600

    results.replace(sitting, STOPS[-1], [row(STOPS[-1], trials=50)])
    pooled = results.of("mine", POOLED, "unlisted")
    assert pooled is not None
    assert (pooled.trials, pooled.failures) == (550, 0)


def test_a_sitting_of_which_no_figure_is_left_is_not_told_of() -> None:
    results = Results()
    first, second = results.sit("mine", "1.0"), results.sit("mine", "1.1")
    results.replace_steps(first, [Figure("mine", "", "speed", 200)])
    results.replace_steps(second, [Figure("mine", "", "speed", 200)])

    results.forget_unused()

    assert [sitting.version for sitting in results.sittings] == ["1.1"]
    assert results.sit("mine", "1.2").number == 3


def test_runs_that_never_came_are_no_trials() -> None:
    results = Results()
    sitting = results.sit("mine", "mine 1.0")
    results.replace(sitting, "tool", [row("tool", 9), row("tool", 12, 3, metric="never_came")])

    assert results.trials("mine", "tool") == 9
