"""A run whose process was killed: every command says that nobody drives it, and its clock stops."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from cli.scene import MIDFLIGHT, Scene
from forks import Forked

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder: Path = tmp_path_factory.mktemp("dead")
    return Scene(folder, "--store", "midflight.db")


@pytest.fixture(scope="module")
def dead(scene: Scene) -> str:
    """The id of a run that was in the middle of a step when its process was killed."""
    driving = Forked(
        [*MIDFLIGHT, "run", "cli.staff:mason", "wall", "--plain", *scene.where],
        cwd=scene.folder,
        env=scene.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert driving.stdout is not None
    run = driving.stdout.readline().split()[0]
    scene.until_shown(run, lambda shown: [step["status"] for step in shown["steps"]] == ["running"])
    driving.kill()
    driving.wait(timeout=20)
    driving.stdout.close()
    return run


def test_show_says_it_first_and_names_what_was_cut_off(scene: Scene, dead: str) -> None:
    told = scene.said("show", dead)

    assert "∅ Nobody drives this  It was running; it goes on when" in told
    assert "a process with agent mason runs" in told
    assert "∅ Build" in told
    assert "Cut off" in told
    assert "Running" not in told


def test_the_clock_does_not_go_on(scene: Scene, dead: str) -> None:
    before = scene.json("show", dead)
    time.sleep(1.2)
    after = scene.json("show", dead)

    assert after["undriven_since"] == before["undriven_since"] is not None
    assert after["spent"]["seconds"] == before["spent"]["seconds"]
    assert after["status"].startswith("nobody drives this, for ")
    first = _meter(scene.said("show", dead))
    time.sleep(1.2)
    assert _meter(scene.said("show", dead)) == first


def _meter(told: str) -> str:
    return told.splitlines()[3].split("  ")[0]


def test_the_list_of_runs_says_it(scene: Scene, dead: str) -> None:
    assert "∅ Nobody drives this" in scene.said("runs")
    (row,) = scene.json("runs")["rows"]
    assert (row["journal"], row["phase"], row["undriven"]) == (dead, "running", True)


def test_whoever_watches_is_told(scene: Scene, dead: str) -> None:
    watching = Forked(
        [*MIDFLIGHT, "watch", dead, "--plain", *scene.where],
        cwd=scene.folder,
        env=scene.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    told = [watching.stdout.readline() for _ in range(2)]
    watching.terminate()
    watching.wait(timeout=20)
    watching.stdout.close()

    assert "Nobody drives this. It was running; it goes on when" in told[1]


def test_a_message_to_it_is_answered_with_that(scene: Scene, dead: str) -> None:
    sent = json.loads(scene.said("send", dead, "hurry up", "--json"))

    assert sent["status"].startswith("nobody drives this, for ")


def test_an_undo_that_nobody_works_on_is_not_called_under_way(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.said("run", "cli.staff:porter", "tea", "--input", '{"seconds": 0}')
    asked = scene.said("undo", "last", "--wait", "0")
    assert "under way" not in asked
    shown = scene.until_shown("last", lambda shown: shown["undriven_since"] is not None)
    assert shown["status"].startswith("nobody drives this, ")
    told = scene.said("show", "last")
    assert "Nobody drives this" in told
    assert "undo asked for" in told
    assert "under way" not in told
    assert "Undo one with" not in told
    assert "∅ Nobody drives this" in scene.said("runs")


def test_who_takes_a_run_up_does_not_say_that_nobody_drives_it(scene: Scene, dead: str) -> None:
    driving = Forked(
        [*MIDFLIGHT, "run", "cli.staff:mason", "--continue", dead, "--plain", *scene.where],
        cwd=scene.folder,
        env=scene.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    told: list[str] = []
    try:
        assert driving.stdout is not None
        while "Went on after its process was lost" not in "".join(told):
            told.append(driving.stdout.readline())
            assert told[-1], told  # or it has ended
    finally:
        driving.kill()
        driving.communicate(timeout=20)
    assert "Nobody drives this" not in "".join(told)
