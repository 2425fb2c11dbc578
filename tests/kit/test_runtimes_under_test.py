"""The quick profile: what we promise is kept, and a runtime that keeps nothing is seen through."""

from __future__ import annotations

import pytest

from midflight.kit.catalogue import SCENARIOS
from midflight.kit.playing import NEEDED, PROFILES, Player, Results
from midflight.kit.score import TIMES

CAUGHT_BY = {
    "stream": {"streamed_on"},
    "tool": {"after_stopped", "untrue"},
    "blocking": {"after_stopped", "untrue"},
    "process": {"orphans", "untrue"},
    "batch": {"unlisted", "after_stopped"},
    "first": {"unlisted", "after_stopped"},
    "scale": {"after_stopped"},
    "undo": {"not_taken_back"},
    "transcript": {"invalid"},
    "pause": {"while_paused", "duplicates"},
    "crash": {"duplicates"},
    "message": {"lost"},
    "messages": {"lost"},
    "stale": {"in_spite"},
    "switch": {"not_back"},
}
"""For each scenario, what the broken runtime does that it is meant to find."""

NO_FAILURE = {"tokens", "listed", "unknown", *TIMES}
"""What is no failure, or is in flight when the stop is heard."""


async def played(runtime: str) -> Results:
    return await Player(PROFILES["quick"]).play([runtime], SCENARIOS)


def failures(results: Results) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in results.rows:
        if row.failures:
            found.setdefault(row.scenario, set()).add(row.metric)
    return found


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.timeout(180)
async def test_a_runtime_that_keeps_nothing_is_caught_by_every_scenario() -> None:
    results = await played("broken")

    caught = failures(results)
    assert CAUGHT_BY.keys() == {scenario.name for scenario in SCENARIOS}
    missed = {name: meant - caught.get(name, set()) for name, meant in CAUGHT_BY.items()}
    assert {name: meant for name, meant in missed.items() if meant} == {}
    assert all(row.offered for row in results.rows)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["immediate", "boundary"])
async def test_midflight_keeps_what_it_promises(mode: str) -> None:
    results = await played(f"midflight-{mode}")

    amiss = {name: found - NO_FAILURE for name, found in failures(results).items()}
    assert {name: found for name, found in amiss.items() if found} == {}, results.failures
    assert all(row.offered for row in results.rows)
    assert {row.scenario for row in results.rows} >= CAUGHT_BY.keys()
    assert all(row.trials for row in results.rows if row.metric not in TIMES)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.timeout(180)
async def test_a_bare_loop_leaves_threads_processes_and_open_calls_behind() -> None:
    results = await played("bare-asyncio")

    found = failures(results)
    assert "after_stopped" in found["blocking"]
    assert "orphans" in found["process"]
    assert "invalid" in found["transcript"]
    absent = {row.scenario for row in results.rows if not row.offered and row.metric not in NEEDED}
    assert absent == {"undo", "pause", "crash", "stale", "switch"}
