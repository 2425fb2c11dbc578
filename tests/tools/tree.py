"""A tool with many processes. It prints "up" when all are there, and then lives for ever.

    python tree.py TOKEN [KIND …]

It stands for badly behaved programs, and imports little so that it starts fast.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import NoReturn


def live() -> NoReturn:
    while True:
        time.sleep(1000)


def child() -> None:
    ready()
    live()


def grandchild_in_its_own_session() -> None:
    if os.fork() == 0:
        os.setsid()
        ready()
    live()


def daemon() -> None:
    """Fork, leave the session, fork again, and let the parents go: an orphan of nobody's group."""
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        for stream in (0, 1, 2):
            os.close(stream)
        ready()
        live()


def stubborn() -> None:
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    ready()
    live()


def storm() -> None:
    """Thirty processes, each of which starts and loses children as fast as it can."""
    for _ in range(30):
        if os.fork() == 0:
            while True:
                pid = os.fork()
                if pid == 0:
                    os._exit(0)
                os.waitpid(pid, 0)
    ready()
    live()


def runaway() -> None:
    """A process that is always another one: each forks and ends."""
    ready()
    while True:
        if os.fork():
            os._exit(0)


def ready() -> None:
    os.write(barrier[1], b".")


KINDS = {
    "child": child,
    "session": grandchild_in_its_own_session,
    "daemon": daemon,
    "stubborn": stubborn,
    "storm": storm,
    "runaway": runaway,
}

if __name__ == "__main__":
    barrier = os.pipe()
    kinds = sys.argv[2:]
    for kind in kinds:
        if os.fork() == 0:
            KINDS[kind]()
            os._exit(0)
    waiting = len(kinds)
    while waiting:
        waiting -= len(os.read(barrier[0], waiting))
    os.write(1, b"up\n")
    live()
