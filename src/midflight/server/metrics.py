"""Figures for Prometheus, in its text format: a few counters need no library."""

from __future__ import annotations

from collections import Counter
from typing import Final

from midflight.control import Control
from midflight.kernel.phases import LIVE
from midflight.server.quotas import Meter
from midflight.stores.protocol import Query

COUNTED_MAX: Final = 10_000  # live runs; beyond that the gauge says as many
HELP: Final = {
    "midflight_requests_total": "HTTP requests, by route, method and status.",
    "midflight_request_seconds_total": "Time spent on HTTP requests, by route and method.",
    "midflight_streams_dropped_total": "Event streams ended because their reader was too slow.",
    "midflight_stream_events_total": "Events sent on event streams, by kind.",
    "midflight_voice_seconds_total": "Speech on voice lines: heard from people, spoken to them.",
}


class Metrics:
    """Counts in this process since it began."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._seconds: Counter[tuple[str, str]] = Counter()

    def count(self, name: str, amount: float = 1, /, **labels: str | int) -> None:
        """Add to a counter."""
        shown = ",".join(f'{key}="{_escaped(str(value))}"' for key, value in labels.items())
        where = self._seconds if "seconds" in name else self._counts
        where[name, shown] += amount  # type: ignore[assignment]

    async def text(self, control: Control, meter: Meter) -> str:
        """All of them, and how many runs are in which phase now."""
        lines: list[str] = []
        for name, about in HELP.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} counter"]
            found = sorted((*self._counts.items(), *self._seconds.items()))
            lines += [
                f"{name}{{{labels}}} {value:g}" if labels else f"{name} {value:g}"
                for (counter, labels), value in found
                if counter == name
            ]
        rows = await control.runs(Query(phases=LIVE, limit=COUNTED_MAX))
        phases = Counter(row.phase for row in rows)
        lines += _gauge("midflight_runs", "Runs that have not ended, by phase.")
        lines += [f'midflight_runs{{phase="{phase}"}} {phases[phase]}' for phase in LIVE]
        lines += _gauge("midflight_streams", "Event streams that are open.")
        lines.append(f"midflight_streams {meter.streams}")
        lines += _gauge("midflight_kill_switches", "Kill switches that are on.")
        lines.append(f"midflight_kill_switches {len(await control.switches())}")
        return "\n".join(lines) + "\n"


def _gauge(name: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} gauge"]


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
