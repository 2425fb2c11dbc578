"""The real supervisor with one thing broken or changed, as the variable ``WEAKNESS`` says.

A slow one may be told by ``UNTIL`` to wait for a file.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

path = Path(__file__).resolve().parents[2] / "src/midflight/tools/processes/supervisor.py"
spec = importlib.util.spec_from_file_location("supervisor", path)
assert spec is not None
assert spec.loader is not None
supervisor: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(supervisor)

end_tree = supervisor.Supervisor.end_tree


def end_tree_slowly(self: object) -> object:
    if enough := os.environ.get("UNTIL"):
        give_up = time.monotonic() + 30
        while not Path(enough).exists() and time.monotonic() < give_up:
            time.sleep(0.005)
    else:
        time.sleep(0.3)
    return end_tree(self)


def hang(_: object) -> None:
    time.sleep(1000)


match os.environ["WEAKNESS"]:
    case "none":
        pass
    case "patient":
        supervisor.LINGER_S = 2.0
    case "cannot kill":
        supervisor.send = lambda pid, number: None
    case "no lists of children":
        supervisor.HAS_LISTS = False
    case "not on Linux":
        supervisor.become_subreaper = lambda: False
        supervisor.children_of = lambda pid: []
    case "slow":
        supervisor.Supervisor.end_tree = end_tree_slowly
    case "hangs":
        supervisor.Supervisor.watch = hang
    case "dies before the start":
        os.kill(os.getpid(), signal.SIGKILL)
    case unknown:
        raise ValueError(unknown)

supervisor.main(sys.argv[1:])
