"""Tools for processes of their own that do not want to end."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from midflight.tools.declaration import tool


def say(path: str) -> None:
    """Leave our number where the test looks for it, whole or not at all."""
    Path(f"{path}.{os.getpid()}.new").write_text(str(os.getpid()), encoding="utf-8")
    Path(f"{path}.{os.getpid()}.new").rename(path)


@tool(effect="once", runs="process", label="film", describe="film")
def blocks_in_c(path: str) -> None:
    say(path)
    ctypes.PyDLL(None).sleep(60)  # and holds the interpreter's lock meanwhile


@tool(effect="once", runs="process", label="film", describe="film")
def ignores_the_polite_signals(path: str) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    say(path)
    time.sleep(60)


GRANDCHILD = "import sys, time; sys.path[:] = eval(sys.argv[2]); \
from scenarios.stubborn_tools import say; say(sys.argv[1]); time.sleep(60)"


@tool(effect="once", runs="process", label="film", describe="film")
def has_a_runaway_grandchild(path: str) -> None:
    subprocess.Popen(
        [sys.executable, "-c", GRANDCHILD, path, repr(sys.path)], start_new_session=True
    )
    time.sleep(60)
