"""An answer that finds no place: what was done is not called undone."""

from __future__ import annotations

import errno
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import httpx
import pytest

from cli.scene import CALL_S, MIDFLIGHT, Scene, Server
from forks import Forked, ran
from midflight.interfaces.cli.console import UNREACHABLE, said
from ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
FULL = Path("/dev/full")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path)
    made.said("run", "cli.staff:asker", "tea", "--detach")
    return made


def ended(
    scene: Scene,
    command: Sequence[str],
    stdin: int = subprocess.DEVNULL,
    stdout: int | TextIO = subprocess.PIPE,
    stderr: int | TextIO = subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    """How a command ends that is read, or not, by whom a test wants it to be."""
    start = ran if command[0] == sys.executable else subprocess.run
    return start(
        [*command],
        cwd=scene.folder,
        env=scene.env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        text=True,
        check=False,
        timeout=CALL_S,
    )


def answered_to(place: Path, scene: Scene, *arguments: str) -> subprocess.CompletedProcess[str]:
    with place.open("w", encoding="utf-8") as out:
        return ended(scene, [*MIDFLIGHT, *arguments], stdout=out)


@contextmanager
def nobody_reading() -> Iterator[TextIO]:
    """An output whose reader has left already."""
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as out:
        yield out


def test_a_kill_whose_answer_cannot_be_written_says_so_and_not_that_nothing_changed(
    scene: Scene,
) -> None:
    done = answered_to(FULL, scene, "kill", "all", "--yes")
    assert done.returncode == 1
    assert "the answer could not be written: No space left on device." in done.stderr
    assert "stays done" in done.stderr
    assert "Nothing was changed" not in done.stderr
    assert done.stderr.count("\n") == 1  # and Python adds no complaint of its own
    assert "all  stopped by" in scene.said("release")

    done = answered_to(FULL, scene, "release", "all", "--json")
    assert (done.returncode, json.loads(done.stderr)["error"]) == (1, "answer_lost")
    assert "Nothing is stopped" in scene.said("release")


def test_a_table_in_colour_that_cannot_be_written_is_an_answer_too(scene: Scene) -> None:
    done = answered_to(FULL, scene, "runs")
    assert (done.returncode, done.stderr.count("could not be written")) == (1, 1)


def test_of_other_trouble_of_the_system_it_is_not_claimed_that_nothing_was_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def half_way() -> int:
        raise OSError(errno.ENOSPC, "No space left on device", "half.db")

    assert said(half_way, as_json=False) == UNREACHABLE
    assert capsys.readouterr().err == "midflight: half.db: No space left on device.\n"


def in_a_shell(scene: Scene, words: str) -> subprocess.CompletedProcess[str]:
    return ended(scene, ["sh", "-c", f"{shlex.join(MIDFLIGHT)} {words}"])


@pytest.mark.parametrize("words", ["runs", "token bob --json", "kill all --yes", "show last"])
def test_a_closed_output_is_an_answer_that_cannot_be_written(scene: Scene, words: str) -> None:
    done = in_a_shell(scene, f"{words} >&-")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the answer could not be written: Bad file descriptor." in done.stderr
    if words.startswith("kill"):
        assert "all  stopped by" in scene.said("release")


@pytest.mark.parametrize("words", ["serve cli.staff --port {port}", "worker cli.staff"])
def test_what_serves_does_so_whether_its_greeting_is_read_or_not(scene: Scene, words: str) -> None:
    with closed_output(scene, words.format(port=free_port())):
        scene.said("run", "cli.staff:counter", "tea", "--detach")
        scene.until("last", "done")


def test_so_does_the_demo(scene: Scene) -> None:
    port = free_port()
    with closed_output(scene, f"demo --no-open --pace 0 --model demo --port {port}") as process:
        until_it_serves(port, process)


@contextmanager
def closed_output(scene: Scene, given: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that has nowhere to write, and ends well when it is told to."""
    with subprocess.Popen(
        ["sh", "-c", f"exec {shlex.join(MIDFLIGHT)} {given} >&-"],
        cwd=scene.folder,
        env=scene.env,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
    assert process.returncode == 0


def until_it_serves(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + CALL_S
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=CALL_S) as http:
        while True:
            assert process.poll() is None, f"it has ended with {process.returncode}"
            assert time.monotonic() < until, "it does not serve"
            try:
                assert http.get("/healthz").status_code == 200
            except httpx.TransportError:  # nobody listens yet
                time.sleep(0.05)
            else:
                return


def test_a_closed_input_is_one_that_nobody_can_be_asked_on(scene: Scene) -> None:
    done = in_a_shell(scene, "kill all <&-")
    assert (done.returncode, "Confirm with --yes" in done.stderr) == (1, True)
    assert in_a_shell(scene, "runs 2>&-").returncode == 0


@pytest.mark.parametrize("store", [".", "..", "sqlite:", "sqlite:.", "/", "folder"])
@pytest.mark.parametrize("command", [["runs"], ["run", "cli.staff:asker", "tea"], ["doctor"]])
def test_a_folder_is_no_store_and_no_bug(scene: Scene, store: str, command: list[str]) -> None:
    (scene.folder / "folder").mkdir()
    told = scene.said(*command, "--store", store, status=1 if command == ["doctor"] else 3)
    assert "is a folder: name a file in it" in told


@pytest.mark.parametrize("words", [["runs"], ["show", "last"], ["runs", "--json"], ["--help"]])
def test_who_leaves_before_all_was_read_makes_no_failure(scene: Scene, words: list[str]) -> None:
    with nobody_reading() as out:
        done = ended(scene, [*MIDFLIGHT, *words], stdout=out)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_asked_before_a_cancel_is_no_part_of_the_answer(scene: Scene) -> None:
    server = Server(scene.folder, "cli.staff")
    person, terminal = pty.openpty()
    try:
        scene.said("run", "cli.staff:notary", "tea", "--detach")
        scene.until_shown("last", lambda shown: shown["in_flight"])
        os.write(person, b"n\n")
        done = ended(scene, [*MIDFLIGHT, "cancel", "last", "--json"], stdin=terminal)
        assert (done.returncode, done.stdout) == (1, "")
        assert "cannot be stopped. Cancel anyway? [y/N]" in done.stderr
    finally:
        os.close(person)
        os.close(terminal)
        server.leave(signal.SIGKILL)


def left_after_a_line(scene: Scene, *words: str) -> tuple[int, str]:
    """The status and the errors of a command whose reader leaves when it has read one line."""
    with Forked(
        [*MIDFLIGHT, *words],
        cwd=scene.folder,
        env=scene.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            process.stdout.close()
            assert process.stderr is not None
            return process.wait(timeout=CALL_S), process.stderr.read()
        finally:
            process.kill()


@pytest.mark.parametrize("how", [["--plain"], ["--json"]])
def test_a_run_that_is_left_by_its_reader_is_not_called_done(scene: Scene, how: list[str]) -> None:
    given = ("cli.staff:porter", "tea", "--input", '{"seconds": 2}')
    status, told = left_after_a_line(scene, "run", *given, *how)
    assert status == 130
    assert scene.json("show", "last")["phase"] != "done"
    if how == ["--plain"]:  # who reads the errors is still there
        back = told.split("or with: midflight ")[1].split("\n")[0].split()
        assert "Done  closed tea" in scene.said(*back)


def test_the_way_back_goes_to_the_same_folders_and_names_the_agent(scene: Scene) -> None:
    given = ("cli.staff:porter", "tea", "--input", '{"seconds": 2}', "--workdir", "its folders")
    _, told = left_after_a_line(scene, "run", *given, "--plain")
    assert "`midflight serve --workdir 'its folders'` runs with agent porter" in told
    back = shlex.split(told.split("or with: midflight ")[1].split("\n")[0])
    assert back[-2:] == ["--workdir", "its folders"]
    assert "Done  closed tea" in scene.said(*back)


def test_a_watch_that_is_left_by_its_reader_says_that_the_run_goes_on(scene: Scene) -> None:
    server = Server(scene.folder, "cli.staff")
    try:
        given = ("cli.staff:porter", "tea", "--input", '{"seconds": 3}')
        scene.said("run", *given, "--detach")
        status, told = left_after_a_line(scene, "watch", "last")
        assert (status, "The run goes on without you" in told) == (130, True)
    finally:
        server.leave()


def unread(scene: Scene, *words: str) -> int:
    """The status of a command of which nobody reads anything, not even its errors."""
    with nobody_reading() as both:
        return ended(scene, [*MIDFLIGHT, *words], stdout=both, stderr=both).returncode


def test_a_run_whose_end_nobody_reads_keeps_the_status_of_its_end(scene: Scene) -> None:
    scene.said("run", "cli.staff:broken", status=10)
    assert unread(scene, "watch", "last") == 10


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_who_follows_a_thread_for_nobody_leaves_it_as_by_ctrl_c(
    scene: Scene, how: list[str]
) -> None:
    scene.said("run", "cli.staff:broken", status=10)
    assert unread(scene, "thread", "last", "--follow", *how) == 130
    assert unread(scene, "thread", "last", *how) == 0


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_who_does_not_read_the_errors_changes_no_status(scene: Scene, how: list[str]) -> None:
    assert unread(scene, "kill", "bogus", "--yes", *how) == 1
    assert unread(scene, "runs", *how) == 0


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["shw"], 2),
        (["runs", "--lmit", "3"], 2),
        (["runs", "--limit", "three"], 2),
        (["runs", "--phase", "asleep"], 2),
        (["redirect", "last"], 2),
        (["kill", "foo", "--yes"], 1),
        (["purge", "--older-than", "30x"], 1),
        (["run", "cli.staff:asker", "--input", "{bad"], 1),
        (["runs", "--server", "ftp://x"], 1),
        (["runs", "--server", "http://[::1"], 1),
        (["todos", "last", "--order", "²"], 1),
        (["fork", "last", "²"], 1),
        (["kit", "report", "--results", "midflight.db"], 1),
        (["runs", "--server", "http://127.0.0.1:9", "--store", "a.db"], 1),
    ],
)
def test_the_status_is_that_of_the_table(scene: Scene, words: list[str], status: int) -> None:
    """2: no such command or option, or a value that an option does not take; 1: refused."""
    scene.said(*words, status=status)


@pytest.mark.parametrize("traceback", ["", "1"])
def test_that_a_run_here_waits_for_a_person_is_said_among_the_errors(
    scene: Scene, traceback: str
) -> None:
    with Forked(
        [*MIDFLIGHT, "run", "cli.staff:payer", "tea", "--json"],
        cwd=scene.folder,
        env={**scene.env, "MIDFLIGHT_TRACEBACK": traceback},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            told: list[str] = []
            while "waits for a person" not in (told or [""])[-1]:
                told.append(process.stderr.readline())
                assert told[-1], told  # or it has ended
            process.send_signal(signal.SIGINT)
            process.wait(timeout=CALL_S)
        finally:
            process.kill()
    assert "to answer: It is not known whether this happened: payment 80." in told[-1]
    assert "ConnectionError: reset by the bank" in told[-1]
    assert ("in pay_out" in "".join(told)) == bool(traceback)
