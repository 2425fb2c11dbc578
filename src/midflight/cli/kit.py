"""``midflight kit run`` and ``midflight kit report``: how well runtimes can be interrupted."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from msgspec.structs import replace

from midflight.errors import InvalidRequest

if TYPE_CHECKING:
    from argparse import _SubParsersAction

RESULTS: Final = "kit.json"
FORMATS: Final = ("markdown", "json", "svg")


def add_to(commands: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    command = commands.add_parser("kit", help="measure how well runtimes can be interrupted")
    parts = command.add_subparsers(required=True, metavar="run|report")
    run = parts.add_parser("run", help="play scenarios on runtimes, and keep the figures")
    run.add_argument("--runtime", action="append", default=[], metavar="NAME")
    run.add_argument("--scenario", action="append", default=[], metavar="NAME")
    run.add_argument("--profile", choices=("quick", "full"), default="quick", help="(%(default)s)")
    run.add_argument("--n", type=int, default=0, help="trials of each scenario")
    run.add_argument("--results", default=RESULTS, help="where figures are kept (%(default)s)")
    run.set_defaults(run=play)
    report = parts.add_parser("report", help="show what was measured")
    report.add_argument("--results", default=RESULTS, help="(%(default)s)")
    report.add_argument("--format", choices=FORMATS, default="markdown", help="(%(default)s)")
    report.set_defaults(run=show)


def play(chosen: Namespace) -> int:
    """Play, and write the figures down as they come."""
    from midflight.kit import playing, runtimes

    if chosen.n < 0:
        raise InvalidRequest(f"--n {chosen.n} is no number of trials. Nothing was run.")
    profile = playing.PROFILES[chosen.profile]
    if chosen.n:
        profile = replace(profile, stops=chosen.n, others=chosen.n, ours=0)
    scenarios = playing.chosen_scenarios(chosen.scenario)
    names = chosen.runtime or list(runtimes.ALL if chosen.profile == "full" else runtimes.OWN)
    path = Path(chosen.results)
    earlier = playing.read(path) if path.exists() else None
    player = playing.Player(
        profile,
        results=earlier,
        say=lambda line: print(line, flush=True),
        keep=lambda results: playing.write(path, results),
    )
    anyio.run(player.play, names, scenarios)
    print(f"The figures are in {path}; midflight kit report --results {path} shows them.")
    return 0


def show(chosen: Namespace) -> int:
    """Print the figures."""
    from midflight.kit import playing, report

    path = Path(chosen.results)
    if not path.exists():
        raise InvalidRequest(f"{path} is not there; midflight kit run makes it.")
    if chosen.format == "json":
        print(path.read_text(encoding="utf-8"), end="")
        return 0
    results = playing.read(path)
    print(report.plot(results) if chosen.format == "svg" else report.plain(results), end="")
    return 0
