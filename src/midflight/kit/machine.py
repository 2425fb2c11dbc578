"""The machine that figures come from, and the share of it that other programs used meanwhile."""

from __future__ import annotations

import os
import platform
import resource
from pathlib import Path


def described() -> str:
    """Return the machine in a few words."""
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    first = f", run before other programs (nice {nice})" if nice < 0 else ""
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {system}{first}"


class Load:
    """Measures the share of the machine that others use; without it the figures say little."""

    def __init__(self) -> None:
        self.before = self.now()

    @staticmethod
    def now() -> tuple[float, float, float]:
        """Return the seconds of all cores, of them busy, and of them busy for us."""
        line = Path("/proc/stat").read_text(encoding="utf-8").partition("\n")[0]
        ticks = [int(word) for word in line.split()[1:9]]
        waiting = ticks[3] + ticks[4]
        ours = 0.0
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
            used = resource.getrusage(who)
            ours += used.ru_utime + used.ru_stime
        per_s = os.sysconf("SC_CLK_TCK")
        return sum(ticks) / per_s, (sum(ticks) - waiting) / per_s, ours

    def of_others_pct(self, also_ours_s: float = 0.0) -> float:
        """Return the share of all cores that was busy, but not for us or for ended children.

        ``also_ours_s`` is the time that children have used that still run.
        """
        all_of_it, busy, ours = (b - a for a, b in zip(self.before, self.now(), strict=True))
        return max(0.0, 100 * (busy - ours - also_ours_s) / all_of_it)
