"""The world outside: a file with a line for everything that was really done to it.

Imports nothing of Midflight, so that a tool in a process of its own starts quickly. The folder is
in the environment, and so is the one moment at which the driving process is to die.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER, DIES_AT, DRIVER = "CRASH_FOLDER", "CRASH_DIES_AT", "CRASH_DRIVER"


def folder() -> Path:
    return Path(os.environ[FOLDER])


def moment(name: str) -> None:
    """Where the driver may be killed. A tool in another process then waits for its own end."""
    if os.environ.get(DIES_AT) == name:
        os.kill(int(os.environ[DRIVER]), signal.SIGKILL)
        time.sleep(60)


@contextmanager
def _opened() -> Iterator[int]:
    handle = os.open(folder() / "ledger", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def lines() -> list[str]:
    path = folder() / "ledger"
    return path.read_text().splitlines() if path.exists() else []


def applied() -> Counter[str]:
    """What was done, and how often."""
    return Counter(lines())


def has(what: str, key: str) -> bool:
    """What a provider answers who is asked."""
    return f"{what} {key}" in lines()


def do(what: str, key: str) -> None:
    """Do it, again if it was done: this provider knows no keys."""
    moment(f"{what}:before")
    with _opened() as handle:
        os.write(handle, f"{what} {key}\n".encode())
    moment(f"{what}:after")


def do_once(what: str, key: str) -> None:
    """Do it unless it was done: this provider honours keys."""
    moment(f"{what}:before")
    with _opened() as handle:
        if f"{what} {key}" not in lines():
            os.write(handle, f"{what} {key}\n".encode())
    moment(f"{what}:after")


def first_time(what: str) -> bool:
    """Whether this is the first try at something, over all processes."""
    with _opened():
        mark = folder() / f"tried-{what}"
        if mark.exists():
            return False
        mark.touch()
        return True


def compress(what: str, idempotency_key: str = "") -> str:
    """Runs in a process of its own."""
    do_once("compress", idempotency_key)
    return f"compressed {what}"


def index(what: str, idempotency_key: str = "") -> str:
    """Runs in a thread."""
    do("index", idempotency_key)
    return f"indexed {what}"
