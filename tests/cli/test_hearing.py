"""What is said is heard at the command line: by who follows, who looks, and who asks beside."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.scene import Scene, Server
from cli.terminal import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Server]]:
    folder = tmp_path_factory.mktemp("hearing")
    server = Server(folder, "cli.staff")
    Scene(folder).said("token", "ann", "--role", "operator", "--save")
    yield folder, server
    server.leave()


@pytest.fixture(params=["store", "server"])
def scene(request: pytest.FixtureRequest, house: tuple[Path, Server]) -> Scene:
    folder, server = house
    where = ("--store", "midflight.db") if request.param == "store" else ("--server", server.url)
    return Scene(folder, *where)


def begin(scene: Scene, agent: str, brief: str = "tea") -> str:
    name = agent if "--server" in scene.where else f"cli.staff:{agent}"
    return str(json.loads(scene.said("run", name, brief, "--detach", "--json"))["run"])


def until_chosen(scene: Scene, run: str, choice: str) -> None:
    deadline = time.monotonic() + 40
    while choice not in {line["choice"] for line in scene.json("thread", run)["lines"]}:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_what_a_run_says_is_in_what_follows_it_also_when_it_ends_at_once(scene: Scene) -> None:
    run = begin(scene, "herald")
    told = scene.said("watch", run)
    assert told.index("agent: first things first") < told.index("agent: and so on")
    assert told.index("agent: and so on") < told.index("Done  cried")


def test_who_follows_as_it_goes_hears_each_word_once(scene: Scene) -> None:
    if "--server" in scene.where:
        told = scene.said("run", "herald", "tea")
    else:
        told = scene.said("run", "cli.staff:herald", "tea")
    assert told.count("agent: first things first") == 1
    assert told.count("agent: and so on") == 1


def test_a_thread_is_read_with_who_spoke_and_what_became_of_it(scene: Scene) -> None:
    run = begin(scene, "host")
    scene.until(run, "running")
    scene.said("send", run, "later: the yard")
    until_chosen(scene, run, "defer")

    told = scene.said("thread", run)
    (said,) = [line for line in told.splitlines() if line.endswith(": later: the yard")]
    number = said.split()[0]
    assert told.splitlines()[told.splitlines().index(said) + 1].strip() == "Deferred"
    assert "To do" in told
    assert "later: the yard  (deferred)" in told
    assert f"midflight overrule {scene.json('thread', run)['thread'][:14]}" in told
    assert "now: later: the yard" in scene.said("overrule", run, number, "switch")
    assert scene.json("show", run)["holds"] == ["parked"]
    scene.said("cancel", run, "--now")


def test_a_message_that_nobody_has_read_is_edited_and_withdrawn(scene: Scene) -> None:
    run = begin(scene, "porter")
    scene.said("pause", run)
    number = str(scene.json("send", run, "with milk")["position"])
    scene.said("edit", run, number, "with sugar")
    told = scene.said("thread", run)
    assert "with sugar" in told
    assert "with milk" not in told
    scene.said("withdraw", run, number)
    assert "Withdrawn" in scene.said("thread", run)
    told = scene.said("edit", run, number, "again", status=1)
    assert f"there is no message {number} that can still be changed, nor any other." in told
    scene.said("cancel", run, "--now")


def test_a_side_question_is_answered_where_it_was_asked(scene: Scene) -> None:
    run = begin(scene, "neighbour")
    scene.until(run, "running")
    assert scene.said("aside", run, "how far?") == "beside: how far?\n"
    assert scene.json("aside", run, "and now?")["answer"] == "beside: and now?"
    assert scene.said("aside", run, "still?", "--no-wait").startswith("stored  started r-")
    told = scene.said("thread", run)
    assert "aside: how far?" in told
    assert "agent: beside: how far?" in told
    scene.said("cancel", run, "--now")


def test_words_that_come_with_the_end_of_a_run_are_heard_by_who_follows_it(scene: Scene) -> None:
    run = begin(scene, "neighbour")
    scene.until(run, "running")
    beside = scene.json("aside", run, "slowly?", "--no-wait")["target"]
    assert "agent: beside: slowly?" in scene.said("watch", beside)
    scene.said("cancel", run, "--now")


def test_where_nobody_drives_a_side_question_says_so_and_does_not_wait(tmp_path: Path) -> None:
    alone = Scene(tmp_path)
    run = json.loads(alone.said("run", "cli.staff:neighbour", "tea", "-d", "--json"))["run"]
    assert "it goes on with: midflight serve MODULE:neighbour\n" in alone.said(
        "aside", run, "how far?"
    )


def test_a_picture_shows_what_is_said_redirected_and_chosen(house: tuple[Path, Server]) -> None:
    folder, server = house
    scene = Scene(folder, "--server", server.url)
    run = begin(scene, "host", "call the yard")
    scene.until(run, "running")
    terminal = Terminal(folder, scene.env, "watch", run, "--server", server.url)
    try:
        terminal.until("Ctrl-C leaves")
        scene.said("send", run, "later: the gate")
        terminal.until("ann: later: the gate")
        terminal.until("Deferred")
        scene.said("redirect", run, "call the barn")
        terminal.until("Redirected  call the ~yard~ =barn=  (ann)")
        scene.said("pause", run)
        terminal.until("‖ Paused")
        scene.said("redirect", run, "call the mill", "--wait", "0")
        scene.said("resume", run)
        terminal.until("Changed meanwhile  call the ~barn~ =mill=")
        terminal.press("\x03")
        terminal.until("Detached")
    finally:
        terminal.close()
    scene.said("cancel", run, "--now")


def test_a_thread_is_followed_until_one_leaves(house: tuple[Path, Server]) -> None:
    folder, server = house
    scene = Scene(folder, "--server", server.url)
    run = begin(scene, "porter")
    terminal = Terminal(folder, scene.env, "thread", run, "--follow", "--server", server.url)
    try:
        terminal.until("t-")
        scene.said("send", run, "also the garden")
        terminal.until("ann: also the garden")
        terminal.press("\x03")
        assert terminal.ended() == 130
    finally:
        terminal.close()
    assert scene.json("show", run)["phase"] == "running"
    scene.said("cancel", run, "--now")
