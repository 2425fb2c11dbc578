"""Python programs that are forked from a process which has imported Midflight already.

Each is a process with its own memory, folder, environment and files, and a child of the tests' own:
it is waited for, signalled and killed like any other. Only the imports are shared. They are nine
tenths of what the start of a server computes, and one process of the tests starts hundreds of them.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any, AnyStr

HEARD = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""A program that is started ignores those of these that we ignore, as after ``nohup``."""
PR_SET_CHILD_SUBREAPER = 36
ONE_AT_A_TIME = threading.Lock()


class Forked(subprocess.Popen[AnyStr]):
    """Started as ``subprocess.Popen`` starts ``[sys.executable, "-m", MODULE, …]`` or a script."""

    def _execute_child(self, args: Any, *rest: Any) -> None:
        cwd, env = rest[4], rest[5]
        pipes: tuple[int, ...] = rest[9:15]
        interpreter, *command = map(os.fspath, args)
        assert interpreter == sys.executable, "only a Python can be forked"
        assert rest[1] is None, "a fork runs no function of ours before its program"
        assert rest[2], "a fork has no files of ours"
        assert not rest[3], "a fork has no files of ours"
        assert rest[16:20] == (None, None, None, -1), "a fork has our user, groups and umask"
        assert set(rest[21:]) <= {-1}, "a fork has our process group, or a session of its own"
        module = command[0] == "-m"
        program, *arguments = command[1:] if module else command
        asked = {
            "module": module,
            "program": program,
            "arguments": arguments,
            "folder": os.path.abspath(cwd or "."),
            "env": dict(os.environ if env is None else env),
            "session": rest[20],
            "ignored": [one for one in HEARD if signal.getsignal(one) is signal.SIG_IGN],
        }
        theirs = (pipes[0], pipes[3], pipes[5])
        files = [at if own == -1 else own for at, own in enumerate(theirs)]
        self.pid = forked(json.dumps(asked).encode(), files)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def ran(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Do what ``subprocess.run`` does, with a program that is forked."""
    bound, check = options.pop("timeout", None), options.pop("check", False)
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Forked(command, **options) as process:
        try:
            out, err = process.communicate(timeout=bound)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def forked(asked: bytes, files: list[int]) -> int:
    """Ask for a fork, which becomes our own child; returns the number of its process."""
    with ONE_AT_A_TIME:
        channel = forker()
        adopts(True)
        try:
            socket.send_fds(channel, [len(asked).to_bytes(4, "big")], files)
            channel.sendall(asked)
            answer = channel.recv(4, socket.MSG_WAITALL)
        finally:
            adopts(False)
    assert len(answer) == 4, "nobody is there to fork"
    return int.from_bytes(answer, "big")


def adopts(does: bool) -> None:
    """Whether a process becomes our child when its parent ends; otherwise that of the system."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, int(does), 0, 0, 0) == 0, ctypes.get_errno()


@cache
def forker() -> socket.socket:
    """Start the process that has imported everything; it ends with this one."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", Path(__file__).with_name("forked.py"), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    atexit.register(process.wait, 10)
    atexit.register(ours.close)
    return ours
