"""The stock AG-UI clients of JavaScript drive a real server: see ``stories.mjs``.

Version 1.0.0 tells all of them. Version 0.0.59 tells what it would not take as 1.0 has it
(``stories_0.mjs``), and some that are the same for both.
"""

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
CLIENT, OLD_CLIENT = "@ag-ui/client", "ag-ui-client-0"


def stories_in(file: str) -> list[str]:
    return re.findall(r"^  async (\w+)\(", (HERE / file).read_text("utf-8"), re.MULTILINE)


STORIES = stories_in("stories.mjs") + stories_in("stories_requests.mjs")
OLD_STORIES = stories_in("stories_0.mjs")
FOR_BOTH = (
    "a_plain_run",
    "a_second_turn_on_the_thread",
    "text_comes_as_it_is_said",
    "words_have_one_id_from_the_first_token_to_the_snapshot",
    "an_interrupt_and_its_resume",
    "an_approval_is_given_with_other_arguments",
    "one_of_two_answers_leaves_the_other_open",
    "an_abort_cancels_nothing",
    "what_is_sent_and_not_used_is_named_once",
    "a_pause_ends_the_stream_and_a_resume_goes_on",
    "an_approval_asks_as_the_guide_does",
    "an_answer_that_does_not_fit_brings_the_card_again",
    "who_may_not_answer_keeps_the_card",
    "a_thread_is_followed_through_a_pause_a_resume_and_the_next_run",
    "an_answer_is_not_made_again_silently",
    "a_message_that_is_edited_as_a_new_one_is_refused_in_words",
)
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
        where = HERE.relative_to(TESTS)
        pytest.fail(f"the client is not installed: run `npm ci --ignore-scripts` in {where}")


class Teller:
    """One Node with the stock client in it, for story after story: to load it takes a second."""

    def __init__(self, server: Server, file: str = "stories.mjs", client: str = CLIENT) -> None:
        self._server, self._file, self._client = server, file, client
        self._node: subprocess.Popen[bytes] | None = None

    def tell(self, story: str) -> None:
        node = self._node = self._node or telling(
            server=self._server, file=self._file, client=self._client
        )
        assert node.stdin is not None
        assert node.stdout is not None
        node.stdin.write(f"{story}\n".encode())
        last = read_until(node.stdout, f"told {story}", f"failed {story}")
        assert last[-1] == f"told {story}", "\n".join(last)

    def drop(self) -> None:
        if self._node:
            self._node.kill()
            self._node.communicate()
            self._node = None

    def close(self) -> None:
        """With nothing more to tell it ends by itself, or a story has left something open."""
        node, self._node = self._node, None
        if node:
            told(node)


NODES = {
    "1.0.0": ("stories.mjs", CLIENT),
    "0.0.59": ("stories_0.mjs", OLD_CLIENT),
    "both": ("stories.mjs", OLD_CLIENT),
}


@pytest.fixture(scope="module")
def nodes(server: Server) -> Iterator[dict[str, Teller]]:
    there = {name: Teller(server, *what) for name, what in NODES.items()}
    yield there
    for teller in there.values():
        teller.close()


@pytest.fixture
def tellers(
    nodes: dict[str, Teller], request: pytest.FixtureRequest
) -> Iterator[dict[str, Teller]]:
    """Whoever fails may leave a Node in the middle of a story; the next one gets another."""
    failed = request.session.testsfailed
    yield nodes
    if request.session.testsfailed > failed:
        for teller in nodes.values():
            teller.drop()


def telling(
    *stories: str, server: Server, file: str = "stories.mjs", client: str = CLIENT
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ("node", file, *stories),
        cwd=HERE,
        env=os.environ | {"AGUI_URL": server.url, "AGUI_CLIENT": client},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,  # so that a line that has come is never hidden from who waits for it
    )


def told(node: subprocess.Popen[bytes]) -> None:
    try:
        words, _ = node.communicate(timeout=BOUND_S)
    except subprocess.TimeoutExpired:
        node.kill()
        words, _ = node.communicate()
        words += "\n… and no end".encode()
    assert node.returncode == 0, words.decode()


@pytest.mark.parametrize("story", [story for story in STORIES if story != KILLED])
def test_the_stock_client_sees(story: str, tellers: dict[str, Teller]) -> None:
    tellers["1.0.0"].tell(story)


@pytest.mark.parametrize("story", OLD_STORIES)
def test_a_client_of_version_0_sees(story: str, tellers: dict[str, Teller]) -> None:
    tellers["0.0.59"].tell(story)


@pytest.mark.parametrize("story", FOR_BOTH)
def test_a_client_of_version_0_sees_as_the_stock_client_does(
    story: str, tellers: dict[str, Teller]
) -> None:
    tellers["both"].tell(story)


def test_a_server_that_is_killed_in_the_middle_of_a_stream_goes_on_after_its_restart(
    tmp_path: Path,
) -> None:
    with Server(tmp_path) as first:
        node = telling(KILLED, server=first)
        assert node.stdout is not None
        read_until(node.stdout, "streaming")
        first.kill()
        read_until(node.stdout, "cut")
        with first:
            told(node)


def read_until(out: IO[bytes], *wanted: str) -> list[str]:
    """Wait for one of these lines, within bounds; it is the last of what was said."""
    seen: list[str] = []
    until = time.monotonic() + BOUND_S
    while time.monotonic() < until:
        ready, _, _ = select.select([out], [], [], 1.0)
        if ready:
            line = out.readline().decode()
            assert line, f"{wanted} was not said, but {seen}"
            seen.append(line.strip())
            if seen[-1] in wanted:
                return seen
    raise AssertionError(f"{wanted} was not said in time, but {seen}")
