"""No dead ends: what the commands print at a cap, at a hand-over and at a stop is what lifts it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.scene import Scene, Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Server]]:
    folder = tmp_path_factory.mktemp("ways")
    server = Server(folder, "cli.staff")
    Scene(folder).said("token", "ann", "--role", "operator", "--save")
    yield folder, server
    server.leave()


@pytest.fixture(params=["store", "server"])
def scene(request: pytest.FixtureRequest, house: tuple[Path, Server]) -> Scene:
    folder, server = house
    where = ("--store", "midflight.db") if request.param == "store" else ("--server", server.url)
    return Scene(folder, *where)


def begin(scene: Scene, agent: str, *more: str) -> str:
    name = agent if "--server" in scene.where else f"cli.staff:{agent}"
    started = json.loads(scene.said("run", name, "tea", "--detach", "--json", *more))
    return str(started["run"])


def printed_command(told: str, name: str) -> list[str]:
    """The words behind ``midflight`` of the command that was printed; where it works is known."""
    (line,) = [line for line in told.splitlines() if f"midflight {name} " in line]
    words = shlex.split(line.partition("midflight ")[2].rstrip(")"))
    return words[: words.index("--server")] if "--server" in words else words


@pytest.mark.parametrize(
    ("option", "shown"), [("--steps", "2 of 2 steps"), ("--tool-calls", "2 of 2 tool calls")]
)
def test_at_a_cap_the_command_that_is_printed_lets_the_run_go_on(
    scene: Scene, option: str, shown: str
) -> None:
    run = begin(scene, "counter", option, "2")
    scene.until(run, "paused")

    told = scene.said("show", run)
    assert f"Paused at the cap  {shown} used" in told
    assert "midflight answer" not in told
    words = printed_command(told, "raise")
    assert words == ["raise", run[:14], option, "4"]
    assert " ".join(words) in scene.said("answer", run, "yes", status=1)
    assert " ".join(words) in scene.said("answer", run)
    assert shown in scene.said("raise", run)
    scene.said(*words)
    assert scene.lines("watch", run)[-1]["result"] == "counted"


def test_all_caps_can_be_given_when_a_run_is_begun_and_raised_later(scene: Scene) -> None:
    caps = {"steps": 2, "seconds": 50.0, "tokens": 70, "usd": 3.0, "tool_calls": 9, "repeats": 4}
    options = [
        word for name, cap in caps.items() for word in (f"--{name.replace('_', '-')}", f"{cap:g}")
    ]
    run = begin(scene, "counter", *options)
    scene.until(run, "paused")
    assert scene.json("raise", run)["limits"] == caps
    scene.said("raise", run, "--repeats", "5", "--seconds", "60")
    kept = scene.json("raise", run)["limits"]
    assert kept == {**caps, "repeats": 5, "seconds": 60.0}
    scene.said("raise", run, "--no-caps")
    assert scene.json("raise", run)["limits"] == {}
    assert scene.lines("watch", run)[-1]["result"] == "counted"


def test_a_run_that_was_handed_over_goes_on_when_it_is_handed_back(scene: Scene) -> None:
    run = begin(scene, "deferential")
    scene.until(run, "paused")

    told = scene.said("show", run)
    assert "Handed to a person  Please sign the lease" in told
    assert "agent: This one is for a person." in told
    assert "midflight answer" not in told
    words = printed_command(told, "hand-back")
    assert "hand-back" in scene.said("answer", run, "yes", status=1)
    scene.said(*words[:-1], "done it")
    assert scene.lines("watch", run)[-1]["result"].startswith("signed: done it by ")
    assert "Handed back: done it" in scene.said("watch", run)


def test_a_person_takes_a_run_over_and_is_told_how_to_give_it_back(scene: Scene) -> None:
    run = begin(scene, "porter")
    scene.until(run, "running")
    words = printed_command(scene.said("take-over", run), "hand-back")
    told = scene.said("show", run)
    assert "has it" in told
    assert "Nothing is running" not in told
    scene.said(*words)
    assert scene.json("show", run)["phase"] == "running"
    scene.said("cancel", run, "--now")


def test_the_effect_that_a_pause_waits_for_is_stopped(scene: Scene) -> None:
    run = begin(scene, "mason")
    scene.until_shown(run, lambda shown: bool(shown["in_flight"]))
    assert "nothing in flight" not in scene.said("pause", run, "--wait", "0")
    assert "stop-effect" in scene.said("show", run)
    scene.said("stop-effect", run)
    shown = scene.until(run, "paused")
    assert shown["receipt"]["lines"][0]["word"] == "unknown"
    assert "nothing in flight" in scene.said("stop-effect", run, status=1)
    scene.said("cancel", run, "--now")


def test_a_stop_of_what_was_never_seen_says_so_and_holds(scene: Scene) -> None:
    for scope, told in (("agent:nosuch", "No agent"), ("thread:t-xx", "No thread")):
        assert f"{told} of that name was ever seen here" in scene.said("kill", scope, "--yes")
        assert "may move again" in scene.said("release", scope)
    begin(scene, "counter")
    assert "ever seen" not in scene.said("kill", "agent:counter", "--yes")
    name = "counter" if "--server" in scene.where else "cli.staff:counter"
    refused = scene.said("run", name, "x", "-d", status=1)
    scene.said(*printed_command(refused, "release"))
    begin(scene, "counter")


def test_a_resume_prints_in_one_line_what_was_changed_meanwhile(scene: Scene) -> None:
    run = begin(scene, "porter")
    scene.until(run, "running")
    scene.said("pause", run)
    scene.until(run, "paused")
    scene.said("redirect", run, "green tea", "--wait", "0")

    told = scene.said("resume", run)
    assert "=green= tea" in told
    scene.said("cancel", run)
