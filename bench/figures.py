"""What the benchmarks share: percentiles, rates, and how results are shown and kept."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from midflight.kit.durable import Load

__all__ = [
    "RESULTS",
    "ROOT",
    "Load",
    "load",
    "machine",
    "missed",
    "percentile",
    "rate",
    "save",
    "show",
    "table",
]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"

shown: set[str] = set()


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, round(len(values) * percent / 100))]


async def rate(work: Callable[[], Awaitable[None]], count: int) -> float:
    began = time.perf_counter()
    await work()
    return count / (time.perf_counter() - began)


def show(results: dict[str, Any]) -> None:
    """Print what is new among the results."""
    for name in results.keys() - shown:
        shown.add(name)
        print(f"{name:28} {results[name]:10.3f}", flush=True)


def machine() -> str:
    return f"{os.cpu_count()} cores, Python {platform.python_version()}"


def save(name: str, results: dict[str, Any]) -> None:
    encoded = msgspec.json.format(msgspec.json.encode(results))
    (RESULTS / f"{name}.json").write_bytes(encoded + b"\n")


def load(name: str) -> dict[str, Any]:
    results: dict[str, Any] = msgspec.json.decode((RESULTS / f"{name}.json").read_bytes())
    return results


NO_GOAL = frozenset({"", "no goal", "no bound", "seconds"})


def table(results: dict[str, Any], rows: dict[str, tuple[str, str]]) -> str:
    """Markdown rows: what was measured, the figure, and what is wanted of it, met or not."""
    lines = []
    for name, (what, goal) in rows.items():
        told = goal if met(results[name], goal) else f"{goal}: **missed**"
        lines.append(f"| {what} | {results[name]:.2f} | {told} |")
    return "\n".join(lines)


def met(figure: float, goal: str) -> bool:
    """Whether a figure is what is wanted of it: a bound, or a number; some have no goal."""
    if goal in NO_GOAL:
        return True
    found = re.fullmatch(r"([≤<≥]?) ?([0-9.]+)", goal)
    if found is None:
        raise ValueError(f"{goal!r} is no goal: ≤, <, ≥ or nothing, and a number.")
    bound = float(found[2])
    match found[1]:
        case "≤":
            return figure <= bound
        case "<":
            return figure < bound
        case "≥":
            return figure >= bound
        case _:
            return figure == bound


def missed(results: dict[str, Any], rows: dict[str, tuple[str, str]]) -> list[str]:
    """The figures that are not what is wanted of them, or not there though something is."""
    wanted = {name: goal for name, (_, goal) in rows.items() if goal not in NO_GOAL}
    return [
        name for name, goal in wanted.items() if name not in results or not met(results[name], goal)
    ]


def not_owned_up_to(
    results: dict[str, Any], rows: dict[str, tuple[str, str]], page: str
) -> set[str]:
    """Those of them of which no sentence of the page says that they are missed, by their name."""
    prose = "\n".join(line for line in page.splitlines() if not line.startswith("|"))
    sentences = [
        one for one in re.split(r"(?<=[.!])\s", " ".join(prose.split())) if "missed" in one
    ]
    return {
        name for name in missed(results, rows) if not any(f"`{name}`" in one for one in sentences)
    }
