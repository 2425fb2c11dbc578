"""The tests with browsers go to one worker from the beginning, and to a second one in the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from shares import BROWSERS_MAX, Shares, border

BROWSER = "tests/page/test_matrix.py::test_"
OTHER = "tests/journal/test_pause.py::test_"


class Worker:
    """Stands for one of xdist's: it is told what to run, and runs nothing."""

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="one of them")
        self.told: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, chosen: list[int]) -> None:
        self.told += chosen

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def workers() -> list[Any]:
    return [Worker() for _ in range(4)]


@pytest.fixture
def config(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> pytest.Config:
    monkeypatch.setattr(pytestconfig.option, "tx", ["4*popen"])
    return pytestconfig


def run_all(config: pytest.Config, workers: list[Any], tests: list[str]) -> None:
    """Each worker in turn runs its next test, until all have ended."""
    shares = Shares(config, None)
    for worker in workers:
        shares.add_node(worker)
        shares.add_node_collection(worker, tests)
    shares.schedule()
    while any(shares.node2pending.values()):
        for worker in workers:
            if shares.node2pending[worker]:
                shares.mark_test_complete(worker, shares.node2pending[worker][0])


def test_each_test_is_run_once_and_no_worker_runs_another_after_one_with_a_browser(
    config: pytest.Config, workers: list[Any]
) -> None:
    tests = [f"{OTHER}{n}" for n in range(100)] + [f"{BROWSER}{n}" for n in range(100)]

    run_all(config, workers, tests)

    assert sorted(n for worker in workers for n in worker.told) == list(range(200))
    assert all(worker.told == sorted(worker.told) for worker in workers)
    assert all(worker.shutting_down for worker in workers)
    assert workers[0].told[0] == 100
    assert sum(worker.told[-1] >= 100 for worker in workers) <= BROWSERS_MAX


@pytest.mark.parametrize("kind", [OTHER, BROWSER])
def test_where_all_are_of_one_kind_every_worker_has_some(
    config: pytest.Config, workers: list[Any], kind: str
) -> None:
    run_all(config, workers, [f"{kind}{n}" for n in range(40)])

    assert sorted(n for worker in workers for n in worker.told) == list(range(40))
    assert all(worker.told for worker in workers)


def test_the_tests_with_a_browser_are_those_at_the_end_whose_file_says_so() -> None:
    mixed = ["tests/attacks/test_login.py::a", f"{OTHER}b", "tests/attacks/test_login.py::c"]

    assert border([*mixed, f"{BROWSER}d"]) == 2
    assert border([f"{OTHER}a"]) == 1
