"""Forks a Python for each program that it is told of: see ``forks.py``, which starts this.

What takes most of the time of a start is imported here once. Whatever else Python does before a
program begins is done in the fork: its folder, environment and files, and where it imports from.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import runpy
import signal
import socket
import sys
import termios
import threading
import time
from importlib import import_module
from typing import Any

FILES = 3
PRELOADED = (
    "anyio._backends._asyncio",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "midflight.control.remote",
    "midflight.interfaces.app",
    "midflight.interfaces.http.access.keyring",
    "midflight.stores.sqlite",
)


def preload() -> None:
    from midflight.interfaces.cli.main import COMMANDS

    commands = {f"midflight.interfaces.cli.commands.{one.module}" for one in COMMANDS.values()}
    for module in sorted({*PRELOADED, *commands}):
        import_module(module)
    forgotten = set(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [place for place in sys.path if place not in forgotten]  # each has its own
    gc.collect()
    gc.freeze()  # what is imported stays: no child copies its pages to look at it


def told(channel: socket.socket) -> dict[str, Any]:
    """Fork for everybody who asks; comes back in the fork alone, with what it was asked to be."""
    while True:
        head, files, _, _ = socket.recv_fds(channel, 4, FILES)
        if len(head) < 4:  # whoever asks has ended
            os._exit(0)
        asked = json.loads(channel.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
        reading, writing = os.pipe()
        if ends := os.fork():
            os.close(writing)
            with os.fdopen(reading, "rb") as said:
                number = said.read()
            os.waitpid(ends, 0)
            for file in files:
                os.close(file)
            channel.sendall(number)
            continue
        between = os.getpid()
        if child := os.fork():  # this ends at once: the tests take its child as their own
            os.write(writing, child.to_bytes(4, "big"))
            os._exit(0)
        while os.getppid() == between:
            time.sleep(0.0005)
        os.close(reading)
        os.close(writing)
        channel.close()
        for at, file in enumerate(files):
            os.dup2(file, at)
            os.close(file)
        return dict(asked)


def become(asked: dict[str, Any]) -> None:
    """Do what Python does before a program begins."""
    os.environ.clear()
    os.environ.update(asked["env"])
    if asked["session"]:
        os.setsid()
        if os.isatty(0):  # and be the one whom the keys of this terminal reach
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(asked["folder"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for one in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(one, signal.SIG_DFL)
    for one in asked["ignored"]:
        signal.signal(one, signal.SIG_IGN)
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # type: ignore[misc] # noqa: SIM115, PLW1514
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # type: ignore[misc] # noqa: SIM115, PLW1514
    sys.stdout.reconfigure(write_through=at_once)
    sys.stderr = sys.__stderr__ = open(  # type: ignore[misc] # noqa: SIM115, PLW1514
        2, "w", buffering=1, errors="backslashreplace", closefd=False
    )
    more = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    module, program = asked["module"], asked["program"]
    first = asked["folder"] if module else str(os.path.dirname(os.path.realpath(program)))
    sys.path[:0] = [first, *more]
    sys.argv[:] = [program, *asked["arguments"]]


def run(asked: dict[str, Any]) -> None:
    """Run the program to its end; where that is in order, what was imported is not taken down."""
    try:
        if asked["module"]:
            runpy.run_module(asked["program"], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(asked["program"], run_name="__main__")
        status: Any = 0
    except SystemExit as left:
        status = left.code or 0
        if not isinstance(status, int):
            raise
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            status = 120  # as Python ends when nobody takes its last words
    os._exit(status & 0xFF)


if __name__ == "__main__":
    preload()
    with socket.socket(fileno=int(sys.argv[1])) as opened:
        what = told(opened)
    become(what)
    run(what)
