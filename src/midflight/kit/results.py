"""The figures that are kept, each with the sitting it comes from; and the pages made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log10
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from midflight.errors import InvalidRequest
from midflight.kit.catalogue import BY_NAME, SCENARIOS
from midflight.kit.durable import RAW_NAME, Figure
from midflight.kit.score import METRICS, TIMES, Row, pooled
from midflight.kit.subject import ALL, KINDS

STOPS: Final = ("stream", "tool", "blocking", "process", "batch", "first")
POOLED: Final = "stops"
POOLED_METRICS: Final = (
    "unlisted", "listed", "after_stopped", "untrue", "unknown", "hung", "never_came",
)  # fmt: skip


class Sitting(Struct, omit_defaults=True):
    """One runtime, played once: with what, where, and how busy the machine was beside."""

    number: int
    runtime: str
    version: str
    machine: str = ""
    commit: str = ""
    arguments: str = ""
    seconds: float = 0.0
    load_of_others_pct: float | None = None
    note: str = ""


class Results(Struct):
    """All that is known from runs of the kit."""

    sittings: list[Sitting] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    durable: list[Figure] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    """A runtime and a scenario -> the first error of a trial that failed or was refused."""

    def sit(
        self,
        runtime: str,
        version: str,
        *,
        machine: str = "",
        commit: str = "",
        arguments: str = "",
    ) -> Sitting:
        """Begin a sitting."""
        number = max((one.number for one in self.sittings), default=0) + 1
        self.sittings.append(Sitting(number, runtime, version, machine, commit, arguments))
        return self.sittings[-1]

    def replace(self, sitting: Sitting, scenario: str, found: Sequence[Row]) -> None:
        """Put figures in the place of earlier ones."""
        key = (sitting.runtime, scenario)
        self.rows = [row for row in self.rows if (row.runtime, row.scenario) != key]
        for row in found:
            row.sitting = sitting.number
        self.rows += found
        self.failures.pop(" ".join(key), None)

    def replace_steps(self, sitting: Sitting, found: Sequence[Figure]) -> None:
        """Put durable steps in the place of earlier ones of the same runtimes."""
        names = {figure.runtime for figure in found}
        for figure in found:
            figure.sitting = sitting.number
        self.durable = [f for f in self.durable if f.runtime not in names] + list(found)

    def forget_unused(self) -> None:
        """Drop the sittings of which no figure is left."""
        used = {row.sitting for row in self.rows} | {figure.sitting for figure in self.durable}
        self.sittings = [one for one in self.sittings if one.number in used]

    def of(self, runtime: str, scenario: str, metric: str) -> Row | None:
        """Return one figure, or None if it was not measured."""
        if scenario == POOLED:
            return self._of_all_stops(runtime, metric)
        key = (runtime, scenario, metric)
        return next((r for r in self.rows if (r.runtime, r.scenario, r.metric) == key), None)

    def _of_all_stops(self, runtime: str, metric: str) -> Row | None:
        """Pool the figures of all stop scenarios when asked, so that they are never out of date."""
        found = [row for name in STOPS if (row := self.of(runtime, name, metric))]
        return pooled(runtime, POOLED, found) if len(found) == len(STOPS) else None

    def trials(self, runtime: str, scenario: str) -> int:
        """Return the number of trials of a scenario that count."""
        if scenario == POOLED:
            return sum(self.trials(runtime, name) for name in STOPS)
        here = [r for r in self.rows if (r.runtime, r.scenario) == (runtime, scenario)]
        return max((row.trials for row in here if row.metric != "never_came"), default=0)


def read(path: Path) -> Results:
    """Return the figures in a file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Results)
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"{path} does not hold figures of the kit: {error}.") from None


def write(path: Path, results: Results) -> None:
    """Write the figures to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


NOT_OFFERED: Final = "·"
COUNTS: Final = {"listed", "turned_away"}
"""Metrics that are not failures, because the runtime tells the person."""

QUIET: Final = {"hung", "never_came"}

SHAPES: Final = {
    "": "all results kept",
    "last": "only the last result kept",
    "list": "all results kept, in a list",
    "delta": "all results kept, DeltaChannel (beta)",
}


def columns(results: Results) -> list[str]:
    """Return the runtimes in the order in which the kit knows them; then those that it does not."""
    there = dict.fromkeys(row.runtime for row in results.rows)
    return [*(name for name in KINDS if name in there), *(n for n in there if n not in KINDS)]


def sittings(results: Results) -> str:
    """Return a table of the sittings in which the figures were measured."""
    head = "| sitting | runtime | with | figures | arguments | machine | time | others used |"
    lines = [_sitting(results, one) for one in results.sittings]
    return f"{head}\n|{'---|' * 8}\n" + "\n".join(lines) + "\n"


def _sitting(results: Results, one: Sitting) -> str:
    version = f"{one.version}; commit {one.commit}" if one.commit else one.version
    took = f"{one.seconds:.0f} s" if one.seconds else ""
    load = "" if one.load_of_others_pct is None else f"{one.load_of_others_pct:.0f} %"
    cells = [
        str(one.number),
        one.runtime,
        version,
        _given(results, one),
        f"`{one.arguments}`" if one.arguments else "",
        one.machine,
        took,
        " ".join(filter(None, [load, one.note])),
    ]
    return f"| {' | '.join(cells)} |"


def _given(results: Results, sitting: Sitting) -> str:
    """Return the figures that a sitting has given, in a few words."""
    names = list(dict.fromkeys(r.scenario for r in results.rows if r.sitting == sitting.number))
    missing = [name for name in BY_NAME if name not in names]
    told = "all scenarios" if names and not missing else ", ".join(names)
    if len(names) > len(missing) > 0:
        told = f"all scenarios but {', '.join(missing)}"
    stepped = any(figure.sitting == sitting.number for figure in results.durable)
    return "; ".join(filter(None, [told, "durable steps" if stepped else ""]))


def summary(results: Results) -> str:
    """Return a table of the one figure that each scenario is about."""
    runtimes = columns(results)
    lines = []
    for scenario in SCENARIOS:
        found = [results.of(runtime, scenario.name, scenario.metrics[0]) for runtime in runtimes]
        what = METRICS[scenario.metrics[0]][0]
        cells = " | ".join(cell(row) for row in found)
        lines.append(f"| {scenario.title}: {what} | {cells} |")
    head = f"| | {' | '.join(runtimes)} |\n|---|{'---|' * len(runtimes)}"
    return f"### At a glance\n\n{head}\n" + "\n".join(lines) + "\n"


def tables(results: Results) -> str:
    """Return all tables, scenario by scenario."""
    runtimes = columns(results)
    parts = [summary(results)]
    parts += [_scenario(results, runtimes, POOLED, "All stop scenarios together", POOLED_METRICS)]
    parts += [
        _scenario(results, runtimes, s.name, s.title.capitalize(), s.metrics) for s in SCENARIOS
    ]
    return "\n".join(filter(None, [*parts, steps(results.durable), growth(results.durable)]))


def _scenario(
    results: Results, runtimes: Sequence[str], name: str, title: str, metrics: Iterable[str]
) -> str:
    lines = []
    for metric in metrics:
        found = [results.of(runtime, name, metric) for runtime in runtimes]
        if metric in QUIET and not any(row and row.failures for row in found):
            continue  # every run came to its moment and to its end: not worth a line
        if any(found):
            what = (METRICS.get(metric) or TIMES[metric])[0]
            lines.append(f"| {what} | {' | '.join(cell(row) for row in found)} |")
    if not lines:
        return ""
    trials = [results.trials(runtime, name) for runtime in runtimes]
    count = f"| trials | {' | '.join(str(n or NOT_OFFERED) for n in trials)} |"
    head = f"| | {' | '.join(runtimes)} |\n|---|{'---|' * len(runtimes)}"
    return f"### {title}\n\n{head}\n{count}\n" + "\n".join(lines) + "\n"


def cell(row: Row | None) -> str:
    """Return a figure as a cell of a table; a rate has its bound beside it."""
    if row is None:
        return ""
    if not row.offered:
        return NOT_OFFERED
    if row.metric in TIMES:
        return f"{row.p50:.1f} / {row.p99:.1f}" if row.trials else "never"
    if not row.trials:
        return "no trial"
    if row.metric in COUNTS:
        return str(row.total)
    if row.metric == "tokens":
        return f"{row.total / row.trials:.1f} a run"
    bound = f"{row.bound_pct:.2f}" if row.bound_pct < 1 else f"{row.bound_pct:.1f}"
    seen = "0" if not row.failures else f"**{100 * row.failures / row.trials:.1f} %**"
    return f"{seen} (≤ {bound} %)"


def steps(figures: Sequence[Figure]) -> str:
    """Return the table of durable steps: their speed and their processor time."""
    speed = [figure for figure in figures if figure.what == "speed"]
    if not speed:
        return ""
    lines = []
    for name, shape in dict.fromkeys((f.runtime, f.shape) for f in speed):
        found = {f.runs: f for f in speed if (f.runtime, f.shape) == (name, shape)}
        cells = [
            f"{f.per_s:,.0f} | {f.against_raw:.2f} | {f.cpu_ms:.2f} | {f.load_of_others_pct:.0f} %"
            for f in found.values()
        ]
        lines.append(f"| {name} | {SHAPES[shape]} | {' | '.join(cells)} |")
    each = "steps/s | against raw SQLite | CPU, ms a step | others used"
    head = f"| runtime | | 1 run, {each} | 50 runs, {each} |"
    return f"### Durable steps\n\n{head}\n|{'---|' * 10}\n" + "\n".join(lines) + "\n"


def growth(figures: Sequence[Figure]) -> str:
    """Return the table of long runs: their bytes on disk and their time to resume."""
    grown = [figure for figure in figures if figure.what == "growth"]
    if not grown:
        return ""
    counts = sorted({figure.steps for figure in grown})
    lines = []
    for name, shape in dict.fromkeys((f.runtime, f.shape) for f in grown):
        found = {f.steps: f for f in grown if (f.runtime, f.shape) == (name, shape)}
        cells = [
            f"{f.disk_bytes / 1e6:.2f} MB, {f.resume_ms:,.0f} ms"
            if (f := found.get(n))
            else "not run"
            for n in counts
        ]
        kept = "one row a step" if name == RAW_NAME else SHAPES[shape]
        lines.append(f"| {name} | {kept} | {' | '.join(cells)} |")
    head = f"| runtime | | {' | '.join(f'{n:,} steps' for n in counts)} |"
    rule = f"|---|---|{'---|' * len(counts)}"
    return (
        "### Growth: on disk, and from a resume after kill -9 to the next step\n\n"
        f"{head}\n{rule}\n" + "\n".join(lines) + "\n"
    )


def plain(results: Results) -> str:
    """Return the whole report, for a terminal or a file."""
    return f"""# Interruptibility

{sittings(results)}
{tables(results)}
Rates are of trials in which it happened at all, with the upper end of what they may be at 95 %
confidence; times are p50 / p99 in milliseconds; {NOT_OFFERED} means that the runtime has no such
verb.
"""


# ── the plot ─────────────────────────────────────────────────────────────────────────────────────

LEFT, ROW, BAND, WIDTH = 210, 16, 22, 560
COLOURS: Final = dict(
    zip(ALL, ("#1a6", "#184", "#c60", "#e90", "#06c", "#a3c", "#777"), strict=True)
)


def plot(results: Results) -> str:
    """Return a plot of the time to stop, p50 to p99, on a scale of powers of ten."""
    runtimes = columns(results)
    names = [name for name in (*STOPS, "scale") if any(r.scenario == name for r in results.rows)]
    height = 40 + len(names) * (len(runtimes) * ROW + BAND) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 90}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{LEFT}" y="14">time to stop, p50 to p99, ms</text>',
    ]
    for power in range(5):
        x = _x(10**power)
        parts.append(f'<path d="M{x} 24V{height - 20}" stroke="#ddd"/>')
        parts.append(f'<text x="{x}" y="{height - 6}" text-anchor="middle">{10**power:,}</text>')
    y = 34
    for name in names:
        y += BAND
        parts.append(f'<text x="8" y="{y - 5}" font-weight="bold">{BY_NAME[name].title}</text>')
        for runtime in runtimes:
            row = results.of(runtime, name, "stop_ms")
            parts.append(f'<text x="{LEFT - 8}" y="{y + 9}" text-anchor="end">{runtime}</text>')
            parts += _bar(row, y, COLOURS.get(runtime, "#000"))
            y += ROW
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(ms: float) -> float:
    return round(LEFT + WIDTH * min(4.0, max(0.0, log10(max(ms, 1.0)))) / 4, 1)


def _bar(row: Row | None, y: float, colour: str) -> list[str]:
    if row is None or not row.trials:
        return []
    low, high = _x(row.p50), _x(row.p99)
    label = f"{row.p50:.1f} / {row.p99:.1f}"
    return [
        f'<path d="M{low} {y + 5}H{high}" stroke="{colour}" stroke-width="3"/>',
        f'<circle cx="{low}" cy="{y + 5}" r="4" fill="{colour}"/>',
        f'<text x="{high + 6}" y="{y + 9}" fill="#555">{label}</text>',
    ]
