"""``midflight kit run`` and ``kit report``: measure how well runtimes can be interrupted."""

from __future__ import annotations

import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import anyio
import typer
from msgspec.structs import replace

from midflight.errors import InvalidRequest
from midflight.interfaces.cli.console import print, print_json
from midflight.interfaces.cli.target import JsonOption

RESULTS: Final = "kit.json"

app = typer.Typer()
kit = typer.Typer(help="Measure how well runtimes can be interrupted.", no_args_is_help=True)
app.add_typer(kit, name="kit")
Kept = Annotated[str, typer.Option(metavar="FILE", help="Where figures are kept.")]


class Format(StrEnum):
    """The format of a report."""

    MARKDOWN = "markdown"
    JSON = "json"
    SVG = "svg"


class Size(StrEnum):
    """The size of a sitting: a quick one, or a full one."""

    QUICK = "quick"
    FULL = "full"


@kit.command()
def run(
    runtime: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="May be given again.")
    ] = None,
    scenario: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="May be given again.")
    ] = None,
    adapter: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE.py", help="A runtime of your own: what drives it."),
    ] = None,
    python: Annotated[
        str, typer.Option(metavar="PATH", help="The interpreter that has it, if not this one.")
    ] = "",
    n: Annotated[int, typer.Option("--n", min=0, help="Trials of each scenario.")] = 0,
    profile: Annotated[Size, typer.Option(help="All side by side, or one by one.")] = Size.QUICK,
    results: Kept = RESULTS,
    as_json: JsonOption = False,
) -> int:
    """Play scenarios on runtimes, and keep the figures."""
    from midflight.kit import results as kept
    from midflight.kit import subject, trial_runs

    size = trial_runs.PROFILES[profile]
    if n:
        size = replace(size, stops=n, others=n, promised=None)
    scenarios = trial_runs.chosen_scenarios(scenario or [])
    own = [subject.adapter_of_ones_own(file, python) for file in adapter or []]
    usual = subject.ALL if profile is Size.FULL else subject.OWN
    names = runtime or ([] if own else list(usual))
    path = Path(results)
    player = trial_runs.Player(
        size,
        results=kept.read(path) if path.exists() else None,
        arguments=" ".join(sys.argv[1:]),
        say=lambda line: print(line, file=sys.stderr if as_json else sys.stdout, flush=True),
        keep=lambda found: kept.write(path, found),
    )
    anyio.run(partial(player.play, names, scenarios, own=own))
    if as_json:
        print_json(kept.read(path))
        return 0
    print(f"The figures are in {path}; midflight kit report --results {path} shows them.")
    return 0


@kit.command()
def report(
    results: Kept = RESULTS,
    format: Annotated[Format, typer.Option(help="What it is shown as.")] = Format.MARKDOWN,  # noqa: A002 - the option's name
    as_json: JsonOption = False,
) -> int:
    """Show what was measured."""
    from midflight.kit import results as pages
    from midflight.kit.results import read

    path = Path(results)
    if not path.exists():
        raise InvalidRequest(
            f"there are no figures in {path}: midflight kit run makes them, and --results names "
            "others."
        )
    if format is Format.JSON and not as_json:
        sys.stdout.write(path.read_text(encoding="utf-8"))
        return 0
    found = read(path)
    if as_json:
        print_json(found)
        return 0
    print(pages.plot(found) if format is Format.SVG else pages.plain(found), end="")
    return 0
