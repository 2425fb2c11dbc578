"""A server of Postgres that is ended and started anew, as what it was or as a replica."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil

from engines.ways import folder_of


def restart(address: str) -> None:
    """End the whole server as an upgrade does, and start it anew a second later."""
    head = head_of(address)
    command, owner, place = head.cmdline(), head.uids().real, head.cwd()
    head.send_signal(signal.SIGINT)  # which it calls a fast shutdown
    head.wait(20)
    time.sleep(1)
    subprocess.run(
        ["setsid", "--fork", *command],  # it is nobody's child, as before
        cwd=place,
        user=owner if os.getuid() == 0 else None,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def head_of(address: str) -> psutil.Process:
    pid = (Path(folder_of(address)) / "postmaster.pid").read_text().splitlines()[0]
    return psutil.Process(int(pid))


def restart_as_a_standby(address: str) -> None:
    """It answers and takes nothing, until somebody promotes it."""
    (Path(folder_of(address)) / "standby.signal").touch()
    restart(address)
