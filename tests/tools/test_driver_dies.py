"""The driver is killed, runs without privileges, or adopts orphans: seen from outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tools.processes import DRIVER, alive, driver_environment, gone_within, tree

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the proof needs Linux"),
]

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]
POWERLESS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]


@contextmanager
def driver(
    token: str, mode: str, command: list[str], *, under: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    """A driver of its own process; killed at the end if it is still there."""
    process = subprocess.Popen(
        [*(under or (sys.executable,)), DRIVER, token, mode, *command],
        stdout=subprocess.PIPE,
        text=True,
        env=driver_environment(),
        cwd="/",
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("kinds", [("child", "session", "daemon", "stubborn"), ("storm",)])
def test_kill_9_of_the_driver_ends_the_whole_tree(token: str, kinds: tuple[str, ...]) -> None:
    with driver(token, "run", tree(token, *kinds)) as process:
        assert line(process) == "up"
        assert len(alive(token)) > len(kinds)
        process.kill()
        process.wait(10)
        assert gone_within(20, token)


def test_a_fork_of_the_driver_that_holds_its_pipes_open_delays_that_by_a_second(
    token: str,
) -> None:
    with driver(token, "fork", tree(token, "session", "daemon")) as process:
        holder = int(line(process))
        process.kill()
        process.wait(10)
        assert gone_within(20, token, but=holder)
        assert alive(token) == [holder]


def test_a_driver_that_is_a_subreaper_is_left_with_no_zombies_when_a_supervisor_is_killed(
    token: str,
) -> None:
    script = "setsid sh -c 'sleep 1000' $0 & sleep 0.3; kill -KILL $PPID; exit 0"
    with driver(token, "subreaper", ["/bin/sh", "-c", script, token]) as process:
        told = json.loads(line(process))
        process.wait(10)

    assert (told["proven"], told["survivors"], told["children"]) == (False, [], [])
    assert alive(token) == []


def interpreters() -> list[str]:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return [sys.executable, *filter(None, [shutil.which(version, path="/usr/bin:/usr/local/bin")])]


def usable(under: list[str], interpreter: str) -> bool:
    """Whether this user can start this interpreter, and again from within, with our libraries."""
    again = "import os, sys, anyio, msgspec; sys.argv[1:] or os.execv(sys.executable, "
    again += "[sys.executable, '-c', 'import msgspec', '1'])"
    command = [*under, interpreter, "-c", again]
    environment = driver_environment()
    tried = subprocess.run(command, capture_output=True, check=False, env=environment, cwd="/")
    return tried.returncode == 0


@pytest.mark.parametrize("under", [NOBODY, POWERLESS], ids=["nobody", "no capabilities"])
def test_a_driver_without_privileges_proves_the_same(token: str, under: list[str]) -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root, to become less")
    interpreter = next((each for each in interpreters() if usable(under, each)), None)
    if interpreter is None:
        pytest.skip("this user may not run an interpreter that has our libraries")
    assert sysconfig.get_platform().startswith("linux")
    command = [interpreter, *tree(token, "child", "session", "daemon", "stubborn")[1:]]

    with driver(token, "cancel", command, under=(*under, interpreter)) as process:
        told = json.loads(line(process))
        process.wait(10)

    assert (told["proven"], told["signal"], told["survivors"]) == (True, 9, [])
    assert alive(token) == []
