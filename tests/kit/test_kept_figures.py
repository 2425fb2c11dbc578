"""What the figures in the repository must show, and that each of them says where it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from midflight.kit.catalogue import SCENARIOS
from midflight.kit.durable import RAW_NAME
from midflight.kit.results import POOLED, STOPS, Results, read
from midflight.kit.subject import ALL
from midflight.kit.trial_runs import PROMISED

KEPT = Path(__file__).resolve().parents[2] / "bench/results/kit.json"
NO_FAILURE = {"tokens", "listed", "stop_ms", "ack_ms"}
OTHERS = [scenario.name for scenario in SCENARIOS if scenario.name not in STOPS]


@pytest.fixture(scope="module")
def kept() -> Results:
    return read(KEPT)


def test_nothing_that_is_promised_was_seen_to_fail(kept: Results) -> None:
    ours = [row for row in kept.rows if row.runtime == PROMISED and row.metric not in NO_FAILURE]

    assert {row.scenario for row in ours} == {scenario.name for scenario in SCENARIOS}
    amiss = [(row.scenario, row.metric, row.failures) for row in ours if row.failures]
    assert amiss == []
    assert all(row.offered for row in ours)


def test_two_thousand_stops_of_ours_count_and_two_hundred_of_each_other_trial(
    kept: Results,
) -> None:
    assert kept.trials(PROMISED, POOLED) >= 2_000
    assert {name: n for name in OTHERS if (n := kept.trials(PROMISED, name)) < 200} == {}


def test_a_run_of_ours_grows_by_as_many_bytes_a_step_however_long_it_is(kept: Results) -> None:
    ours = [f for f in kept.durable if (f.runtime, f.what) == (PROMISED, "growth")]
    a_step = {figure.steps: figure.disk_bytes / figure.steps for figure in ours}

    assert a_step.keys() == {200, 1_000, 5_000}
    assert max(a_step.values()) < 1.1 * min(a_step.values())


def test_each_figure_names_its_sitting_and_each_sitting_what_was_measured(kept: Results) -> None:
    sittings = {sitting.number: sitting for sitting in kept.sittings}

    assert all(sittings[row.sitting].runtime == row.runtime for row in kept.rows)
    measured = [figure for figure in kept.durable if figure.runtime != RAW_NAME]
    assert all(sittings[figure.sitting].runtime == figure.runtime for figure in measured)
    assert all(one.commit and one.version and one.machine for one in kept.sittings)


def test_every_runtime_has_a_row_for_every_scenario_and_metric(kept: Results) -> None:
    there = {(row.runtime, row.scenario) for row in kept.rows}

    assert there >= {(runtime, scenario.name) for runtime in ALL for scenario in SCENARIOS}
