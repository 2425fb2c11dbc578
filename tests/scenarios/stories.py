"""How tests have stories told: see ``worker.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent
KILLED = -9
Life = dict[str, Any]


def environment() -> dict[str, str]:
    """Where a process of a story finds its modules, and those of the code under test."""
    places = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


def told(stories: dict[Path, list[Life]]) -> dict[Path, list[int]]:
    """Tell stories, some at a time; how each life of each of them ended."""
    lines = [json.dumps({"folder": str(at), "lives": lives}) for at, lives in stories.items()]
    done = subprocess.run(
        [sys.executable, str(TESTS / "scenarios" / "worker.py")],
        input="\n".join(lines).encode(),
        env=environment(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=280,
    )
    ends = [json.loads(line) for line in done.stdout.splitlines()]
    return {Path(end["folder"]): end["endings"] for end in ends}
