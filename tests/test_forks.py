"""A program that is forked for the tests is what it would be if a shell had started it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import midflight
from forks import Forked, ran

pytestmark = pytest.mark.slow
TELLS = """
import json, os, signal, sys
import beside
print(json.dumps({
    "parent": os.getppid(), "folder": os.getcwd(), "arguments": sys.argv, "path": sys.path[:2],
    "set": {name: os.environ[name] for name in sorted(os.environ)}, "name": __name__,
    "files": sorted(map(int, os.listdir("/proc/self/fd")))[:-1], "read": sys.stdin.read(),
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "session": os.getsid(0) == os.getpid(), "bytecode": not sys.dont_write_bytecode,
}))
print("among the errors", file=sys.stderr)
"""


@pytest.mark.parametrize("by_name", [True, False], ids=["module", "script"])
def test_it_is_our_child_and_finds_what_a_process_of_its_own_finds(
    tmp_path: Path, by_name: bool
) -> None:
    folder, more = tmp_path / "folder", tmp_path / "more"
    folder.mkdir()
    more.mkdir()
    (folder / "tells.py").write_text(TELLS, encoding="utf-8")
    (more / "beside.py").touch()
    command = [sys.executable, *(("-m", "tells") if by_name else (str(folder / "tells.py"),)), "a"]
    options: dict[str, Any] = {
        "cwd": folder,
        "env": {"PYTHONPATH": str(more), "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"},
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "start_new_session": True,
        "text": True,
    }

    with Forked(command, **options) as process:
        out, err = process.communicate("hello", timeout=40)
    with subprocess.Popen(command, **options) as alone:
        expected, _ = alone.communicate("hello", timeout=40)

    assert json.loads(out) == json.loads(expected)
    assert json.loads(out)["parent"] == os.getpid()
    assert (err, process.returncode) == ("among the errors\n", 0)


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('no such thing')", 1, "no such thing"),
        ("raise ValueError('broken')", 1, "ValueError: broken"),
        ("import signal; signal.raise_signal(signal.SIGINT)", -signal.SIGINT, "KeyboardInterrupt"),
        ("import atexit; atexit.register(print, 'left'); print('done', end=' ')", 0, "done left"),
        ("import threading as t; t.Timer(0.05, print, ['later']).start()", 0, "later"),
    ],
)
def test_it_ends_as_any_python_ends(tmp_path: Path, program: str, status: int, said: str) -> None:
    (tmp_path / "program.py").write_text(program, encoding="utf-8")

    done = ran([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True)

    assert done.returncode == status
    assert said in done.stdout + done.stderr


def test_it_ignores_the_signals_that_we_ignore(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import signal as s; print([s.getsignal(one) is s.SIG_IGN for one in (1, 2, 15)])",
        encoding="utf-8",
    )
    command = [sys.executable, str(tmp_path / "program.py")]
    known = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        ignoring = ran(command, capture_output=True, text=True)
    finally:
        signal.signal(signal.SIGHUP, known)

    assert ignoring.stdout == "[True, False, False]\n"
    assert ran(command, capture_output=True, text=True).stdout == "[False, False, False]\n"


def test_it_can_be_killed_and_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("print('up', flush=True)\ninput()", encoding="utf-8")
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}

    with Forked([sys.executable, str(tmp_path / "waits.py")], **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        assert process.poll() is None
        process.kill()

        assert process.wait(20) == -signal.SIGKILL
    assert not Path(f"/proc/{process.pid}").exists()


def test_it_imports_midflight_from_where_a_process_of_its_own_does(tmp_path: Path) -> None:
    """Tests of a changed copy put the copy first."""
    (tmp_path / "program.py").write_text(
        "import subprocess, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from forks import ran\n"
        "print(ran([sys.executable, sys.argv[2]], capture_output=True, text=True).stdout)\n",
        encoding="utf-8",
    )
    (tmp_path / "asks.py").write_text(
        "import midflight; print(midflight.__file__)", encoding="utf-8"
    )
    tests, program = Path(__file__).parent, str(tmp_path / "program.py")
    linked = tmp_path / "copy" / "midflight"
    linked.parent.mkdir()
    linked.symlink_to(Path(midflight.__file__).parent)
    done = subprocess.run(
        [sys.executable, program, str(tests), str(tmp_path / "asks.py")],
        env=os.environ | {"PYTHONPATH": str(linked.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout.strip() == str(linked / "__init__.py")
