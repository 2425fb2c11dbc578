"""The quick profile: what we promise is kept, and runtimes that keep nothing are seen through."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midflight.kit.catalogue import SCENARIOS
from midflight.kit.results import Results
from midflight.kit.score import METRICS, TIMES
from midflight.kit.subject import OWN
from midflight.kit.trial_runs import NEEDED, PROFILES, Player, Profile

CAUGHT_BY = {
    "stream": {"streamed_on"},
    "tool": {"after_stopped", "untrue"},
    "blocking": {"after_stopped", "untrue"},
    "process": {"orphans", "untrue"},
    "batch": {"unlisted", "after_stopped"},
    "first": {"unlisted", "after_stopped"},
    "scale": {"after_stopped"},
    "undo": {"not_taken_back", "untrue"},
    "transcript": {"invalid"},
    "pause": {"while_paused", "duplicates"},
    "crash": {"duplicates"},
    "message": {"lost"},
    "messages": {"lost"},
    "stale": {"in_spite"},
    "switch": {"not_back"},
}
"""For each scenario, what the broken runtime does that it is meant to find."""

FORGOTTEN = {
    "stream": {"hung"},
    "tool": {"hung", "untrue"},
    "blocking": {"hung", "untrue"},
    "process": {"hung", "unknown"},
    "batch": {"hung", "untrue"},
    "first": {"hung"},
    "scale": {"hung", "untrue"},
    "undo": {"hung", "untrue", "not_taken_back"},
    "transcript": {"hung", "forgot"},
    "pause": {"hung", "undone_things"},
    "crash": {"hung", "undone_things"},
    "message": {"hung", "turned_away"},
    "messages": {"hung", "turned_away"},
    "switch": {"duplicates"},
}
"""The same of the forgetful one, which is right where the broken one is wrong."""

NO_FAILURE = {"tokens", "listed", *TIMES}
"""What is no failure, or is in flight when the stop is heard."""

FEW = Profile(stops=4, others=4, scale=8, together=True)
QUICK_S = 180


def failures(results: Results, runtime: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in results.rows:
        if row.failures and row.runtime == runtime:
            found.setdefault(row.scenario, set()).add(row.metric)
    return found


def missed(meant: dict[str, set[str]], caught: dict[str, set[str]]) -> dict[str, set[str]]:
    left = {name: metrics - caught.get(name, set()) for name, metrics in meant.items()}
    return {name: metrics for name, metrics in left.items() if metrics}


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.timeout(180)
async def test_a_runtime_that_keeps_nothing_is_caught_by_every_scenario() -> None:
    results = await Player(PROFILES["quick"]).play(["broken"], SCENARIOS)

    assert CAUGHT_BY.keys() == {scenario.name for scenario in SCENARIOS}
    assert missed(CAUGHT_BY, failures(results, "broken")) == {}
    assert all(row.offered for row in results.rows)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.timeout(180)
async def test_a_runtime_that_forgets_is_caught_by_what_the_broken_one_does_right() -> None:
    results = await Player(FEW).play(["forgetful"], SCENARIOS)

    assert missed(FORGOTTEN, failures(results, "forgetful")) == {}


def test_every_metric_is_seen_to_fail_by_some_runtime() -> None:
    caught = set().union(*CAUGHT_BY.values(), *FORGOTTEN.values())

    assert METRICS.keys() - caught == {"tokens", "listed", "never_came"}


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.timeout(120)
async def test_a_runtime_that_does_nothing_is_caught_by_every_scenario() -> None:
    hasty = [replace(scenario, moment_s=1.0) for scenario in SCENARIOS]

    results = await Player(FEW).play(["idle"], hasty)

    assert failures(results, "idle") == {s.name: {"never_came"} for s in SCENARIOS}
    assert {row.trials for row in results.rows if row.metric != "never_came"} == {0}


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.timeout(2 * QUICK_S)
async def test_the_quick_profile_takes_less_than_three_minutes_and_finds_what_we_promise() -> None:
    results = await Player(PROFILES["quick"]).play(OWN, SCENARIOS)

    for runtime in ("midflight-immediate", "midflight-boundary"):
        keeps_its_promises(results, runtime)
    leaves_things_behind(results, "bare-asyncio")
    assert sum(sitting.seconds for sitting in results.sittings) < QUICK_S


def keeps_its_promises(results: Results, runtime: str) -> None:
    found = failures(results, runtime)
    amiss = {name: metrics - NO_FAILURE for name, metrics in found.items()}
    assert {name: metrics for name, metrics in amiss.items() if metrics} == {}, results.failures
    ours = [row for row in results.rows if row.runtime == runtime]
    assert all(row.offered for row in ours)
    assert {row.scenario for row in ours} == CAUGHT_BY.keys()
    for scenario in SCENARIOS:
        wanted = PROFILES["quick"].trials(runtime, scenario.name)
        assert results.trials(runtime, scenario.name) == wanted, scenario.name


def leaves_things_behind(results: Results, runtime: str) -> None:
    found = failures(results, runtime)
    assert "after_stopped" in found["blocking"]
    assert "orphans" in found["process"]
    assert "invalid" in found["transcript"]
    ours = [row for row in results.rows if row.runtime == runtime]
    absent = {row.scenario for row in ours if not row.offered and row.metric not in NEEDED}
    assert absent == {"undo", "pause", "crash", "stale", "switch"}
