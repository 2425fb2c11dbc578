"""Finding and ending the processes of a tool that has killed its own supervisor.

Processes of one user may kill each other, so a supervisor can be lost, and with it the proof that
its tool has ended. Its processes are found again by a mark in the environment, which every process
of a tool inherits. That ends honest programs that went wrong. A program that wipes its environment
*and* kills its supervisor escapes: hold such programs with another user, a container or a cgroup.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from itertools import count
from typing import Final

from midflight.inputs import new_id
from midflight.tools.processes.supervisor import (
    become_subreaper,
    parent_of,
    processes,
    send,
    stop_tree,
)

__all__ = ["MARK", "become_subreaper", "lose", "new_mark", "reap_orphans", "release"]

MARK: Final = "MIDFLIGHT_PROCESS"
REAP_MAX_S: Final = 0.5  # it blocks the event loop, and a process that can be killed dies in 1 ms
RETRY_S: Final = 0.001

_driver: Final = new_id()  # the number of a process may mean another one in another container
_counter: Final = count()
_live: Final[set[str]] = set()
_lost_tools: Final[set[int]] = set()


def new_mark() -> str:
    """Give the value of ``MARK`` for one more tool; it counts as looked after until released."""
    mark = f"{_prefix()}{next(_counter)}"
    _live.add(mark)
    return mark


def release(mark: str) -> None:
    """Drop a mark: the supervisor has ended the tool, so no process carries it any more."""
    _live.discard(mark)


def lose(mark: str, tool: int) -> None:
    """Count processes with this mark as orphans: their supervisor is gone without a report."""
    _live.discard(mark)
    if tool:
        _lost_tools.add(tool)


def reap_orphans() -> tuple[int, ...]:
    """End all processes whose supervisor, started by this process, was lost; return survivors.

    ``run_process`` calls it by itself. Call ``become_subreaper`` once at the start of a program
    that owns its process, as servers do: orphans then become children of this process, so that
    the dead ones can be waited for here and no other process has to. It is not done unasked, since
    daemons that other libraries start would become children of this process too.
    """
    killed: set[int] = set()
    until = time.monotonic() + REAP_MAX_S
    while True:
        found = _orphans()
        killed.update(found)
        for pid in found:
            send(pid, signal.SIGKILL)
        coming = _take_leave(killed | _lost_tools)
        _lost_tools.intersection_update(coming)
        if not (found or coming) or time.monotonic() > until:
            return tuple(found)
        time.sleep(RETRY_S)


def _prefix() -> str:
    return f"{os.getpid()}.{_driver}."  # a fork of this process shares the second part only


def _orphans() -> list[int]:
    """Stop lost tools and all that carries a mark of ours that is not live, with descendants."""
    if sys.platform != "linux":
        return []
    found: list[int] = []
    for pid in processes():
        if _is_orphan(pid) and _stop(pid):
            found += [pid, *stop_tree(pid)]
    for pid in _lost_tools:
        if parent_of(pid) == os.getpid():  # adopted: the number is still its own
            send(pid, signal.SIGSTOP)
            found += [pid, *stop_tree(pid)]
    return found


def _is_orphan(pid: int) -> bool:
    ours = f"{MARK}={_prefix()}".encode()
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as environment:
        for entry in environment.read().split(b"\0"):
            if entry.startswith(ours):
                return entry.decode().partition("=")[2] not in _live
    return False


def _stop(pid: int) -> bool:
    """Stop it if it is still the one we mean: its number may have passed to a stranger."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if _is_orphan(pid):
            signal.pidfd_send_signal(handle, signal.SIGSTOP)
            return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


def _take_leave(pids: set[int]) -> set[int]:
    """Wait for dead children of ours; return those that are or will be our children."""
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    parents = {os.getpid(), *pids}  # the children of one that is dying become ours next
    return {pid for pid in pids if parent_of(pid) in parents}
