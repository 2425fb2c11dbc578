"""Forks a process for each command that it is told, so that a hundred of them take no minute.

Each is a real process with its own memory; only the imports are shared.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from importlib import import_module

from midflight.interfaces.cli.main import COMMANDS, main

for module in {place.module for place in COMMANDS.values()}:
    import_module(f"midflight.interfaces.cli.commands.{module}")
for module in (
    "control.remote",
    "interfaces.http.access.keyring",
    "stores.sqlite",
):
    import_module(f"midflight.{module}")


def child(asked: dict[str, object], out: int, err: int) -> None:
    """Be the command, to its end."""
    status = 70
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.chdir(str(asked["folder"]))
        os.environ.clear()
        os.environ.update(asked["env"])  # type: ignore[call-overload]
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115, PLW1514
        status = main(asked["arguments"])  # type: ignore[arg-type]
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def one(asked: dict[str, object]) -> dict[str, object]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        if (pid := os.fork()) == 0:
            child(asked, out.fileno(), err.fileno())
        _, ended = os.waitpid(pid, 0)
        out.seek(0)
        err.seek(0)
        told = {"out": out.read().decode(), "err": err.read().decode()}
        return {**told, "status": os.waitstatus_to_exitcode(ended)}


gc.freeze()  # what is imported stays: no child copies its pages to look at it
for line in sys.stdin:
    sys.stdout.write(json.dumps(one(json.loads(line))) + "\n")
    sys.stdout.flush()
