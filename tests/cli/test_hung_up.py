"""A terminal is closed while a command drives a run in it: the run is held, and goes on later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.scene import Scene
from cli.terminal import Terminal
from ports import free_port

pytestmark = pytest.mark.slow
INPUT = ("--input", '{"seconds": 2}')


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


@pytest.mark.parametrize("how", ["picture", "--plain", "--json"])
def test_a_run_is_held_when_its_terminal_is_closed_and_goes_on_with_the_next_command(
    scene: Scene, terminals: list[Terminal], how: str
) -> None:
    options = () if how == "picture" else (how,)
    terminals.append(
        window := Terminal(
            scene.folder, scene.env, "run", "cli.staff:porter", "tea", *INPUT, *options
        )
    )
    window.until("File")
    run = scene.until_shown("last", lambda shown: shown["done"] == 1)["run"]
    window.hang_up()

    assert window.process.wait(timeout=20) == 130
    shown = scene.json("show", run)
    assert (shown["phase"], shown["holds"], shown["in_flight"]) == ("paused", ["drain"], [])
    told = scene.said("run", "cli.staff:porter", "--continue", run)
    assert "Done  closed tea" in told
    assert [step["attempt"] for step in scene.json("show", run)["steps"]] == [1, 1, 1]


def test_a_server_leaves_in_good_order_when_its_terminal_is_closed(
    scene: Scene, terminals: list[Terminal]
) -> None:
    serve = ("serve", "cli.staff:porter", "--port", str(free_port()))
    terminals.append(window := Terminal(scene.folder, scene.env, *serve))
    leaves_in_good_order(scene, window, "#code=")


def test_a_worker_leaves_in_good_order_when_its_terminal_is_closed(
    scene: Scene, terminals: list[Terminal]
) -> None:
    worker = ("worker", "cli.staff:porter")
    terminals.append(window := Terminal(scene.folder, scene.env, *worker))
    leaves_in_good_order(scene, window, "drives runs of")


def leaves_in_good_order(scene: Scene, window: Terminal, greeting: str) -> None:
    """Close the window of a command that drives a run: the run is held, and its step has ended."""
    window.until(greeting)
    run = scene.json("run", "cli.staff:porter", "tea", *INPUT, "--detach")["run"]
    scene.until_shown(run, lambda shown: shown["done"] == 1)
    window.hang_up()

    assert window.process.wait(timeout=20) == 0
    shown = scene.json("show", run)
    assert (shown["phase"], shown["holds"], shown["in_flight"]) == ("paused", ["drain"], [])
