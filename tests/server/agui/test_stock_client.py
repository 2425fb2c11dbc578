"""The stock AG-UI client of JavaScript drives a real server: see ``stories.mjs``."""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import pytest

from ports import free_port

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent.parent
STORIES = re.findall(r"^  async (\w+)\(", (HERE / "stories.mjs").read_text("utf-8"), re.MULTILINE)
KILLED = "the_server_is_killed_and_comes_back"
BOUND_S = 60.0  # a story takes a second or two; a busy machine takes its time

pytestmark = [pytest.mark.node, pytest.mark.slow, pytest.mark.timeout(120)]


class Server:
    """The scripted agents in a process of their own, on a port that stays theirs."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        self._folder = folder
        self.url = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        command = (sys.executable, "-m", "server.agui.serve", str(self._folder), str(self._port))
        self._process = subprocess.Popen(command, cwd=TESTS)
        until = time.monotonic() + BOUND_S
        while not self._answers():
            assert self._process.poll() is None, "the server has ended"
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.05)
        return self

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def kill(self) -> None:
        """As a crash does: no goodbye."""
        self._process.kill()
        self._process.wait(BOUND_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            self.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("agui")) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def client() -> None:
    if not (HERE / "node_modules").is_dir():
        pytest.fail(f"the client is not installed: run `npm ci` in {HERE.relative_to(TESTS)}")


def telling(story: str, server: Server) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ("node", "stories.mjs", story),
        cwd=HERE,
        env=os.environ | {"AGUI_URL": server.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def told(node: subprocess.Popen[str]) -> None:
    try:
        words, _ = node.communicate(timeout=BOUND_S)
    except subprocess.TimeoutExpired:
        node.kill()
        words, _ = node.communicate()
        words += "\n… and no end"
    assert node.returncode == 0, words


@pytest.mark.parametrize("story", [story for story in STORIES if story != KILLED])
def test_the_stock_client_sees(story: str, server: Server) -> None:
    told(telling(story, server))


def test_a_server_that_is_killed_in_the_middle_of_a_stream_goes_on_after_its_restart(
    tmp_path: Path,
) -> None:
    with Server(tmp_path) as first:
        node = telling(KILLED, first)
        assert node.stdout is not None
        read_until(node.stdout, "streaming")
        first.kill()
        read_until(node.stdout, "cut")
        with first:
            told(node)


def read_until(out: IO[str], word: str) -> None:
    """Wait for a line, within bounds."""
    seen: list[str] = []
    until = time.monotonic() + BOUND_S
    while time.monotonic() < until:
        ready, _, _ = select.select([out], [], [], 1.0)
        if ready:
            line = out.readline()
            seen.append(line)
            if line.strip() == word:
                return
            assert line, f"{word!r} was not said, but {seen}"
    raise AssertionError(f"{word!r} was not said in time, but {seen}")
