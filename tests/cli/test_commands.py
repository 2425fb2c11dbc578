"""The commands, on a store and on a server alike: what they say, and how they end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.scene import Scene, Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
AGENTS = ("cli.staff",)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Server]]:
    """One server for all stories here; each begins runs of its own."""
    folder = tmp_path_factory.mktemp("house")
    server = Server(folder, *AGENTS)
    Scene(folder).said("token", "ann", "--role", "operator", "--save")
    yield folder, server
    server.leave()


@pytest.fixture(params=["store", "server"])
def scene(request: pytest.FixtureRequest, house: tuple[Path, Server]) -> Scene:
    folder, server = house
    where = ("--store", "midflight.db") if request.param == "store" else ("--server", server.url)
    return Scene(folder, *where)


def begin(scene: Scene, agent: str, brief: str = "tea", **given: float) -> str:
    """Put a run on record; the server takes it up."""
    name = agent if "--server" in scene.where else f"cli.staff:{agent}"
    more = ["--input", json.dumps(given)] if given else []
    started = json.loads(scene.said("run", name, brief, "--detach", "--json", *more))
    return str(started["run"])


def test_an_agent_that_is_not_there_is_not_found(scene: Scene) -> None:
    name = "nobody" if "--server" in scene.where else "cli.staff:nobody"
    assert "nobody" in scene.said("run", name, "tea", status=4)


def test_a_run_is_paused_redirected_watched_and_cancelled_with_its_receipt(scene: Scene) -> None:
    run = begin(scene, "porter")
    scene.until_shown(run, lambda shown: [s["status"] for s in shown["steps"][:1]] == ["done"])

    assert "paused" in scene.said("pause", run, "--wait", "20")
    shown = scene.json("show", run)
    assert (shown["phase"], shown["plan"]) == ("paused", ["File", "Look", "Close"])
    assert shown["steps"][0]["status"] == "done"
    assert "Paused" in scene.said("show", run)
    turned = scene.json("redirect", run, "coffee", "--resume", "--wait", "20")
    assert (turned["delivery"], turned["driven"]) == ("applied", True)
    done = scene.json("cancel", run, "--wait", "20")
    assert (done["phase"], done["delivery"]) == ("cancelled", "applied")
    words = {line["word"] for line in done["receipt"]["lines"]}
    assert words == {"undone"}
    told = scene.said("watch", run, status=11)
    assert "Cancelled" in told
    assert "note tea: undone" in told


def test_a_run_is_followed_to_its_end_in_lines_and_in_json(scene: Scene) -> None:
    run = begin(scene, "porter", seconds=0.5)
    told = scene.said("tui", run, "--plain")
    assert "✓ File" in told
    assert "Done  closed tea" in told
    lines = scene.lines("watch", run[2:16])
    assert [line["type"] for line in lines] == ["sheet", "ended"]
    assert (lines[-1]["phase"], lines[-1]["result"]) == ("done", "closed tea")


def test_a_message_and_a_side_question_are_answered_with_how_it_stands(scene: Scene) -> None:
    run = begin(scene, "porter")
    scene.said("pause", run, "--wait", "20")
    sent = scene.json("send", run, "also the garden")
    assert "kept until you resume" in sent["status"]
    assert scene.said("aside", run, "how far?") == "paused\n"
    scene.said("cancel", run, "--now")


def test_a_question_is_shown_with_what_fits_it_and_takes_that_only(scene: Scene) -> None:
    run = begin(scene, "asker")
    scene.until(run, "waiting")
    asked = scene.said("answer", run)
    assert "Which colour?" in asked
    assert "As before   (red)" in asked
    assert "still open" in scene.said("answer", run, "blue", status=1)
    scene.said("answer", run, "Green")
    assert scene.lines("watch", run)[-1]["result"].startswith("green by ")
    assert "asks nothing" in scene.said("answer", run, "red", status=1)


def test_a_run_that_has_ended_is_forked_and_undone(scene: Scene) -> None:
    run = begin(scene, "porter", seconds=0.1)
    scene.said("watch", run)
    undone = scene.json("undo", run)
    assert undone["receipt"]["lines"][0]["word"] == "undone"
    new = scene.json("fork", run, "Close", "--brief", "milk")["run"]
    assert new != run
    assert "Nothing was changed" in scene.said("fork", new + "0", "Close", status=4)


def test_an_operator_stops_an_agent_and_brings_its_run_back(scene: Scene) -> None:
    run = begin(scene, "host")
    scene.until(run, "running")
    assert "Confirm with --yes" in scene.said("kill", "agent:host", status=1)
    killed = scene.json("kill", "agent:host", "--yes", "--reason", "too loud")
    assert run in killed["killed"]
    assert scene.said("watch", run, status=12).startswith(run)
    name = "host" if "--server" in scene.where else "cli.staff:host"
    assert "has stopped all runs" in scene.said("run", name, "x", "-d", status=1)
    assert scene.json("release", "agent:host") == {"scope": "agent:host", "released": True}
    assert scene.json("recover", run)["phase"] == "paused"
    scene.said("cancel", run)


def test_what_is_put_off_is_listed_and_removed(scene: Scene) -> None:
    run = begin(scene, "host")
    scene.said("send", run, "later: the yard")
    listed = scene.json("todos", run)
    for _ in range(200):
        if listed["todos"]:
            break
        time.sleep(0.1)
        listed = scene.json("todos", run)
    (todo,) = listed["todos"]
    assert (todo["kind"], todo["text"]) == ("deferred", "later: the yard")
    assert "deferred" in scene.said("todos", run)
    scene.said("todos", run, "--remove", str(todo["todo"]))
    assert scene.json("todos", listed["thread"])["todos"] == []
    scene.said("cancel", run)


def test_a_run_may_be_named_by_its_beginning_or_as_the_last(scene: Scene) -> None:
    begin(scene, "porter", seconds=0.1)
    run = begin(scene, "porter", seconds=0.1)
    assert scene.json("show", "last")["run"] == run
    assert scene.json("show", run[:24])["run"] == run
    assert "is the beginning of several ids" in scene.said("show", "r-0", status=4)
    assert "there is no run r-zz" in scene.said("show", "zz", status=4)
    listed = scene.json("runs", "--limit", "1")
    assert (listed["rows"][0]["journal"], listed["next"]) == (run, run)
    assert run[:14] in scene.said("runs", "--agent", "porter")


def test_a_run_that_fails_says_why_and_ends_the_command_so(scene: Scene) -> None:
    run = begin(scene, "broken")
    assert "the roof is off" in scene.said("watch", run, status=10)


def test_what_is_refused_is_one_line_and_as_json_one_object(scene: Scene) -> None:
    run = begin(scene, "porter", seconds=0.1)
    scene.said("watch", run)
    done = scene.call("pause", run)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("midflight: run r-")
    told = json.loads(scene.call("pause", run, "--json").stderr)
    assert (told["error"], told["exit"]) == ("illegal_signal", 1)


def test_the_doctor_says_who_you_are_and_what_is_there(scene: Scene) -> None:
    found = scene.json("doctor")
    assert found["ok"]
    says = {check["name"]: check["says"] for check in found["checks"]}
    place = "server" if "--server" in scene.where else "store"
    assert "live run" in says[place]
    if place == "server":
        assert "knows you as ann, operator" in says[place]


def test_the_agent_of_another_name_is_said_to_be_unknown(scene: Scene) -> None:
    name = "nobody" if "--server" in scene.where else "cli.staff:nobody"
    assert "nobody" in scene.said("run", name, "x", "--detach", status=4)


def test_a_refused_command_says_back_what_was_written(scene: Scene) -> None:
    run = begin(scene, "porter")
    scene.said("cancel", run, "--now", "--wait", "20")

    for command in (["redirect", run, "by bus, not by train"], ["hand-back", run, "it is paid"]):
        told = scene.said(*command, status=1)
        assert told.rstrip().endswith(f"You wrote: {command[-1]}")
