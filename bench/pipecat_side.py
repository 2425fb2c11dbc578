"""Pipecat at its defaults, on the same sounds, in an environment of its own that is kept."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("pipecat_program.py")
VERSION = "1.14.0"
INSTALL_S, MEASURE_S = 1_200, 900


def python() -> str:
    """An interpreter that has Pipecat; it is half a gigabyte, and installed once."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "midflight" / f"pipecat-{VERSION}"
    found = folder / "bin/python"
    if not (folder / "complete").exists():
        print(f"Installing pipecat-ai {VERSION} into {folder} …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [
            str(found),
            "-m",
            "pip",
            "install",
            "-q",
            f"pipecat-ai=={VERSION}",
            "onnxruntime",
        ]
        subprocess.run(install, check=True, timeout=INSTALL_S, stderr=subprocess.DEVNULL)
        (folder / "complete").touch()
    return str(found)


def pipecat_latencies(sounds: list[bytes], never_ms: float) -> dict[str, Any]:
    """Its figures beside ours, and a sentence about them; who did not stop counts as never."""
    with tempfile.TemporaryDirectory() as folder:
        for number, sound in enumerate(sounds):
            (Path(folder) / f"{number:03}.raw").write_bytes(sound)
        done = subprocess.run(
            [python(), PROGRAM, folder],
            check=True,
            timeout=MEASURE_S,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    told_ms = json.loads(done.stdout.splitlines()[-1])
    times = [never_ms if ms is None else ms for ms in told_ms]
    stopped = sum(ms is not None for ms in told_ms)
    told = f"Pipecat {VERSION} has stopped for {stopped} of {len(sounds)}."
    return {"pipecat_median_ms": statistics.median(times), "pipecat": told}
