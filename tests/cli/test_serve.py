"""``midflight serve`` as people start it: a real process, ended by real signals."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from forks import Forked, ran
from midflight.interfaces.cli.commands.serve_command import listening
from ports import free_port
from scenarios.stories import environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]


class Served:
    """A server in a process of its own."""

    def __init__(self, folder: Path, host: str) -> None:
        self.log = folder / "log.jsonl"
        with self.log.open("ab") as log:
            self.process = Forked(
                [
                    *(sys.executable, "-m", "midflight", "serve", "cli.clerk:clerk"),
                    *("--host", host, "--port", "0"),
                ],
                cwd=folder,
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        found = re.search(r"(http://\S+:\d+)/#code=(\S+)", said)
        assert found is not None, said + self.log.read_text(encoding="utf-8")
        self.url, self.code = found.groups()
        self.http = httpx.Client(base_url=self.url, timeout=20)

    def come_in(self) -> dict[str, str]:
        answer = self.http.post(
            "/v1/session", json={"code": self.code}, headers={"x-midflight": "1"}
        )
        assert answer.status_code == 200, answer.text
        told = dict(answer.json())
        self.http.headers.update({"x-midflight": "1", "x-midflight-page": told.pop("page_secret")})
        return told

    def start(self, brief: str) -> str:
        answer = self.http.post("/v1/runs", json={"agent": "clerk", "brief": brief})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["run"])

    def leave(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=30)

    def close(self) -> None:
        self.http.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


class Street:
    """Where servers are opened, one after another, over the same store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: list[Served] = []

    def serve(self, host: str = "127.0.0.1") -> Served:
        self.opened.append(Served(self.folder, host))
        return self.opened[-1]


@pytest.fixture
def street(tmp_path: Path) -> Iterator[Street]:
    there = Street(tmp_path)
    yield there
    for served in there.opened:
        served.close()


def read_until(served: Served, run: str, name: str) -> list[str]:
    """Names of events on the stream, up to one of them or to its end."""
    seen: list[str] = []
    with served.http.stream("GET", "/v1/events", params={"watch": run}) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                data = json.loads(line.removeprefix("data: "))
                seen.append(data["event"]["event"] if "event" in data else "delta")
                if seen[-1] == name:
                    break
    return seen


def test_who_opens_the_printed_url_is_an_operator_and_sees_a_run_to_its_end(
    street: Street,
) -> None:
    served = street.serve()
    assert served.come_in()["role"] == "operator"
    run = served.start("5")

    seen = read_until(served, run, "run.finished")
    assert "delta" in seen
    assert served.http.get(f"/v1/runs/{run}/result").json()["result"] == "written"
    assert served.leave() == 0
    audited = [line for line in served.lines if line.get("action") == "control"]
    assert [line["route"] for line in audited] == ["/v1/session", "/v1/runs"]
    assert "mf_" not in served.log.read_text(encoding="utf-8")


def test_an_ipv6_address_is_printed_as_one_that_can_be_opened(street: Street) -> None:
    served = street.serve("::1")

    assert served.url.startswith("http://[::1]:")
    assert served.come_in()["role"] == "operator"


GREETED_S = 4.0
PUBLIC = "https://agents.example.com"
SERVE = (sys.executable, "-m", "midflight", "serve", "cli.clerk:clerk", "--port", "0")


def greeted(folder: Path, *more: str, terminal: bool = False) -> str:
    """What a server says first, to a pipe (as to a log) or to somebody's terminal."""
    reading, writing = pty.openpty() if terminal else os.pipe()
    with subprocess.Popen(
        [*SERVE, *more],
        cwd=folder,
        env=environment(),
        stdout=writing,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(writing)
        with os.fdopen(reading, "rb", buffering=0) as said:
            lines = ""
            while lines.count("\n") < 2 - ("--json" in more):
                piece = said.read(4096).decode()
                assert piece, lines
                lines += piece
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0
    return lines


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.parametrize(
    "outside",
    [
        ("--public-url", PUBLIC),
        ("--host", "0.0.0.0", "--allow-host", "agents.local"),
        ("--allow-host", "agents.example.com"),  # something in front of it brings others here
    ],
)
def test_what_others_reach_writes_no_code_into_a_log(
    tmp_path: Path, outside: tuple[str, ...], more: tuple[str, ...]
) -> None:
    said = greeted(tmp_path, *outside, *more)

    assert "mf_" not in said
    assert "code" not in said or "midflight token" in said
    keys = tmp_path / ".midflight/keys.json"
    assert not keys.exists() or json.loads(keys.read_text(encoding="utf-8"))["codes"] == []


def test_the_way_in_that_is_printed_is_one_that_can_be_gone(tmp_path: Path) -> None:
    """A link to another machine is made for TLS alone, so none is named where there is none."""
    outside = greeted(tmp_path, "--host", "0.0.0.0", "--allow-host", "agents.local")
    assert "--link" not in outside
    assert "--public-url https://" in outside

    told = greeted(tmp_path, "--allow-host", "agents.example.com")
    command = told.partition("To come in: midflight ")[2].split()
    made = midflight(tmp_path, *(word.replace("NAME", "ann") for word in command))
    assert made.returncode == 0, made.stderr


def test_behind_tls_it_greets_with_the_address_that_people_open(tmp_path: Path) -> None:
    assert f" at {PUBLIC}/#code=mf_" in greeted(tmp_path, "--public-url", PUBLIC, terminal=True)
    said = greeted(tmp_path, "--public-url", f"{PUBLIC}/")
    assert f"midflight token NAME --role operator --link {PUBLIC}" in said


def test_behind_tls_it_answers_under_the_name_that_people_use_and_is_asked_on_loopback_too(
    tmp_path: Path,
) -> None:
    port = free_port()
    with Forked(
        [*SERVE, "--port", str(port), "--public-url", PUBLIC],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        made = midflight(tmp_path, "token", "vera", "--role", "viewer", "--link", PUBLIC, "--json")
        code = json.loads(made.stdout)["link"].partition("#code=")[2]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as http:
            assert http.get("/healthz").status_code == 200
            assert http.get("/healthz", headers={"host": "evil.example"}).status_code == 421
            asked = {"host": "agents.example.com", "origin": PUBLIC, "x-midflight": "1"}
            came = http.post("/v1/session", json={"code": code}, headers=asked)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    assert came.json() | {"page_secret": ""} == {"by": "vera", "role": "viewer", "page_secret": ""}
    assert "Secure" in came.headers["set-cookie"]


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_it_serves_whether_anybody_reads_its_greeting_or_not(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    port = free_port()
    with _unread(tmp_path, *SERVE, "--port", str(port), *more) as process:
        _until_it_listens(port)
        _has_not_left(process)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as http:
            assert http.get("/healthz").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_so_a_worker_drives(tmp_path: Path, more: tuple[str, ...]) -> None:
    worker = (sys.executable, "-m", "midflight", "worker", "cli.clerk:clerk")
    with _unread(tmp_path, *worker, *more) as process:
        _has_not_left(process)
        begun = midflight(tmp_path, "run", "cli.clerk:clerk", "2", "--detach")
        assert begun.returncode == 0, begun.stderr
        watched = midflight(tmp_path, "watch", "last")
        assert (watched.returncode, "Done" in watched.stdout) == (0, True), watched.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def _unread(folder: Path, *command: str) -> subprocess.Popen[bytes]:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing) as out:
        return Forked(command, cwd=folder, env=environment(), stdout=out, stderr=subprocess.DEVNULL)


def _until_it_listens(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def _has_not_left(process: subprocess.Popen[bytes]) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=GREETED_S)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_told_to_leave_it_ends_streams_and_holds_runs_for_the_next_start(
    street: Street, how: signal.Signals
) -> None:
    served = street.serve()
    served.come_in()
    run = served.start("200")
    read_until(served, run, "delta")
    with served.http.stream("GET", "/v1/events", params={"watch": run}) as stream:
        lines = stream.iter_lines()
        next(lines)
        assert served.leave(how) == 0
        for _ in lines:  # it comes to its end, and not to an error
            pass

    again = street.serve()
    again.come_in()
    state = again.http.get(f"/v1/runs/{run}").json()
    assert state["phase"] in {"running", "paused", "queued"}
    assert again.http.post(f"/v1/runs/{run}/cancel", json={}).status_code == 200
    seen = read_until(again, run, "run.finished")
    assert seen.count("attempt.started") == 1


def test_a_token_made_while_it_serves_is_good_at_once_and_until_it_is_revoked(
    street: Street,
) -> None:
    served = street.serve()

    def token(*more: str) -> str:
        done = ran(
            [sys.executable, "-m", "midflight", "token", "robot", *more],
            cwd=street.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    bearer = {"authorization": f"Bearer {token('--role', 'viewer')}"}
    me = served.http.get("/v1/me", headers=bearer).json()
    assert (me["by"], me["role"]) == ("robot", "viewer")
    served.come_in()  # writes the same file
    assert served.http.get("/v1/me", headers=bearer).status_code == 200
    token("--revoke")
    assert served.http.get("/v1/me", headers=bearer).status_code == 401


def midflight(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ran(
        [sys.executable, "-m", "midflight", *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_a_link_made_while_it_serves_lets_one_browser_in_as_who_it_names(street: Street) -> None:
    served = street.serve()
    made = midflight(street.folder, "token", "vera", "--role", "viewer", "--link", served.url)
    link, note = made.stdout.strip(), made.stderr
    assert link.startswith(f"{served.url}/#code=mf_")
    assert "once, within ten minutes" in note
    assert "mf_" not in note

    served.code = link.partition("#code=")[2]
    assert served.come_in() == {"by": "vera", "role": "viewer"}
    again = served.http.post("/v1/session", json={"code": served.code})
    assert (again.status_code, again.json()["error"]) == (401, "code_not_valid")
    assert "midflight token" in again.json()["message"]
    assert "mf_" not in served.log.read_text(encoding="utf-8")


def test_a_link_is_told_to_a_program_and_leads_where_it_was_asked_to(tmp_path: Path) -> None:
    page = "https://agents.example.com/runs/r-1"
    made = midflight(tmp_path, "token", "ann", "--link", page, "--json")

    told = json.loads(made.stdout)
    assert told.keys() == {"name", "role", "link"}
    assert told["link"].startswith(f"{page}#code=mf_")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--link", "agents.example.com"], "is not the address of a page"),
        (["--link", "https://agents.example.com/#code=x"], "is not the address of a page"),
        (["--link", "http://agents.example.com"], "plain HTTP"),
        (["--link", "https://agents.example.com", "--save"], "--save"),
        (["--link", "https://agents.example.com", "--revoke"], "--revoke"),
    ],
)
def test_a_link_that_cannot_be_is_refused_and_no_key_is_made(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    refused = midflight(tmp_path, "token", "ann", *arguments)

    assert (refused.returncode, refused.stdout) == (1, "")
    assert said in refused.stderr
    assert "No key was made" in refused.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["cli.nowhere"], 4, "No module named 'cli.nowhere'"),
        (["cli.clerk:nobody"], 4, "has no attribute 'nobody'"),
        (["cli.clerk:write_slowly"], 4, "is not an agent"),
        (["cli.clerk", "--host", "0.0.0.0"], 1, "--allow-host"),
        (["cli.clerk", "--host", "127.0.0.999", "--allow-host", "x"], 1, "cannot listen"),
        (["cli.clerk", "--public-url", "http://agents.example.com"], 1, "plain HTTP"),
        (["cli.clerk", "--public-url", "https://agents.example.com/x"], 1, "without a path"),
        (["cli.clerk", "--allow-origin", "*"], 1, "is not an origin"),
        (["cli.clerk", "--proxy", "*"], 1, "is not an address"),
        (["cli.clerk", "--proxy", "localhost"], 1, "is not an address"),
        (["cli.clerk", "--allow-origin", "https://desk.example/"], 1, "is not an origin"),
        (["cli.clerk", "--port", "0", "--store", "mysql://x"], 3, "is not a kind of store"),
    ],
)
def test_what_cannot_be_served_is_said_without_a_traceback(
    tmp_path: Path, arguments: list[str], status: int, said: str
) -> None:
    done = ran(
        [sys.executable, "-m", "midflight", "serve", *arguments],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_head() -> None:
    with listening("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_program_is_greeted_with_one_line_of_json(tmp_path: Path) -> None:
    serve = [sys.executable, "-m", "midflight", "serve", "cli.clerk:clerk", "--port", "0"]
    with subprocess.Popen(
        [*serve, "--json"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        greeting = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=30)
    assert greeting.keys() == {"url", "store"}
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#code=\S+", greeting["url"])
    assert (greeting["store"], rest) == ("midflight.db", "")


@pytest.mark.parametrize("there", ["a file", "no folder"])
def test_keys_that_cannot_be_written_are_found_out_before_anything_is_served(
    tmp_path: Path, there: str
) -> None:
    keys = "/proc/self/nowhere/keys.json"  # where not even root may write
    if there == "a file":
        (tmp_path / "file").touch()
        keys = "file/keys.json"
    refused = midflight(tmp_path, "serve", "cli.clerk:clerk", "--port", "0", "--keys", keys)

    assert refused.returncode == 1
    assert f"{keys} cannot be read or written" in refused.stderr
    assert "Nothing was started" in refused.stderr
    assert not (tmp_path / "midflight.db").exists()


def test_a_token_in_a_new_file_says_which_it_is(tmp_path: Path) -> None:
    first = midflight(tmp_path, "token", "ann")
    second = midflight(tmp_path, "token", "bob")

    assert "Made .midflight/keys.json" in first.stderr
    assert "--keys" in first.stderr
    assert (first.stdout.count("\n"), second.stderr) == (1, "")
