"""The figures as pages: Markdown tables, and a plot of how long a stop takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log10
from typing import Final

from midflight.kit.catalogue import BY_NAME, SCENARIOS
from midflight.kit.durable import RAW_NAME, Figure
from midflight.kit.results import POOLED, POOLED_METRICS, STOPS, Results, Sitting
from midflight.kit.runtimes import ALL, KINDS
from midflight.kit.score import METRICS, TIMES, Row

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
