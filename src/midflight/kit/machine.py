"""The machine that figures come from, and how much of it others used meanwhile."""

from __future__ import annotations

import os
import platform
import resource
from pathlib import Path


def described() -> str:
    """In a few words."""
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    first = f", run before other programs (nice {nice})" if nice < 0 else ""
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {system}{first}"


class Load:
    """How much of the machine others used meanwhile; without it the figures say little."""

    def __init__(self) -> None:
        self.before = self.now()

    @staticmethod
    def now() -> tuple[float, float, float]:
        """Seconds of all cores, of them busy, and of them busy for us."""
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
        """The share of all cores that was busy, and not for us or for children that have ended.

        What a child that still runs has used is told by ``also_ours_s``.
        """
        all_of_it, busy, ours = (b - a for a, b in zip(self.before, self.now(), strict=True))
        return max(0.0, 100 * (busy - ours - also_ours_s) / all_of_it)
