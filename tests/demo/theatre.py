"""``midflight demo`` as people start it: a real process, talked to over HTTP."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from forks import Forked
from scenarios.stories import environment

PATIENCE_S = 30.0
AGAIN_S = 0.03
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")


def plain_environment(**more: str) -> dict[str, str]:
    """Without keys of whoever runs the tests, and without their screen."""
    known = {key: value for key, value in environment().items() if key not in KEYS}
    return {**known, "DISPLAY": "", "WAYLAND_DISPLAY": "", **more}


def command(folder: Path, *more: str) -> list[str]:
    demo = [sys.executable, "-m", "midflight", "demo", "--folder", str(folder)]
    quiet = [] if "--open" in more else ["--no-open"]
    return [*demo, *quiet, "--port", "0", *(option for option in more if option != "--open")]


class Playing:
    """A demo that runs, and its run."""

    def __init__(self, folder: Path, *more: str, **environment: str) -> None:
        self.folder = folder
        self.process = Forked(
            command(folder, *more),
            env=plain_environment(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = ""
        while "Ctrl-C leaves" not in self.said:
            line = self.process.stdout.readline()
            assert line, self.said
            self.said += line
        found = re.search(r"(http://127\.0\.0\.1:\d+)/\S*#code=(\S+)", self.said)
        assert found is not None, self.said
        self.url, self.code = found.groups()
        self.http = httpx.Client(base_url=self.url, timeout=20, headers={"x-midflight": "1"})
        come_in = self.post("/v1/session", code=self.code)
        self.http.headers["x-midflight-page"] = come_in["page_secret"]
        begun = re.search(r"\br-[\w-]+", self.said)
        assert begun is not None, self.said
        self.run = begun.group()

    # ── over HTTP ────────────────────────────────────────────────────────────────────────────

    def post(self, path: str, **body: Any) -> Any:
        answer = self.http.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def get(self, path: str) -> Any:
        answer = self.http.get(path)
        assert answer.is_success, answer.text
        return answer.json()

    def state(self, run: str = "") -> Any:
        return self.get(f"/v1/runs/{run or self.run}")

    def verb(self, verb: str, **body: Any) -> Any:
        return self.post(f"/v1/runs/{self.run}/{verb}", **body)

    def write(self, text: str) -> Any:
        return self.post(f"/v1/threads/{self.state()['thread']}/messages", text=text)

    def until(self, ready: Callable[[Any], object], run: str = "") -> Any:
        """The state of the run, once it is as wanted."""
        ends = time.monotonic() + PATIENCE_S
        while not ready(state := self.state(run)):
            assert time.monotonic() < ends, (state["phase"], state["status"], state["questions"])
            time.sleep(AGAIN_S)
        return state

    def asked(self, message: str, *, after: int = 0) -> int:
        """Wait for a question with these words in it, a new one; which one it is."""

        def found(state: Any) -> list[int]:
            asked = [q["question"] for q in state["questions"] if message in q["message"]]
            return [question for question in asked if question > after]

        return found(self.until(found))[0]

    def answer(self, message: str, payload: Any) -> None:
        self.verb("answer", question=self.asked(message), payload=payload)

    def ended(self, phase: str, run: str = "") -> Any:
        state = self.until(lambda state: state["phase"] in {"done", "failed", "cancelled"}, run)
        assert state["phase"] == phase, state
        return state

    def receipt(self) -> list[tuple[str, str]]:
        """What became of each effect, newest first; without background runs, which have none."""
        lines = self.state()["receipt"]["lines"]
        return [(e["noun"], e["word"]) for e in lines if not e["noun"].startswith("background")]

    def said_in_thread(self) -> list[str]:
        lines = self.get(f"/v1/threads/{self.state()['thread']}/transcript")["lines"]
        return [line["text"] for line in lines if line["kind"].startswith("said")]

    def heard(self, words: str) -> str:
        """Wait until something with these words in it is said."""
        ends = time.monotonic() + PATIENCE_S
        while not (found := [text for text in self.said_in_thread() if words in text]):
            assert time.monotonic() < ends, self.said_in_thread()
            time.sleep(AGAIN_S)
        return found[0]

    # ── in its folder ────────────────────────────────────────────────────────────────────────

    def ask(self, sql: str, *given: Any) -> list[Any]:
        """Ask the company's database, past all code of the demo."""
        with closing(sqlite3.connect(self.folder / "company.db")) as db:
            return db.execute(sql, given).fetchall()

    def open_tasks(self) -> set[str]:
        found = "SELECT name FROM tasks JOIN customers c ON c.id = customer WHERE state = 'open'"
        rows = [name for (name,) in self.ask(found)]
        assert len(rows) == len(set(rows)), "a task was made twice"
        return set(rows)

    def files(self, kind: str) -> list[Path]:
        return sorted((self.folder / kind).glob("*"))

    def memo(self) -> str:
        (page,) = self.files("memos")
        return page.read_text(encoding="utf-8")

    # ── its end ──────────────────────────────────────────────────────────────────────────────

    def leave(self, how: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        self.http.close()
        self.process.send_signal(how)
        said, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said

    def close(self) -> None:
        self.http.close()
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE_S)


class Theatre:
    """Where demos are played, one after another, in the same folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.played: list[Playing] = []

    def play(self, *more: str, **environment: str) -> Playing:
        options = [*more] if "--pace" in more else ["--pace", "0", *more]
        options = options if "--hold" in more else ["--hold", "0", *options]
        self.played.append(Playing(self.folder, *options, **environment))
        return self.played[-1]
