"""The programs that come along: ``midflight demo``, and ``midflight kit``.

The demo is an agent at work on a made-up company, for people to interrupt it. It needs no key. Run
it again and it goes on where it was, also after a kill; ``--fresh`` begins anew. Ctrl-C leaves in
good order. The kit measures how well runtimes can be interrupted.
"""

from __future__ import annotations

import importlib
import logging
import os
import shlex
import shutil
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import anyio
import typer
from msgspec import Struct

from midflight.client import Client
from midflight.control import Control
from midflight.errors import InvalidRequest, MidflightError
from midflight.interfaces.cli.commands.serve_command import (
    PORT,
    ServeOptions,
    VoiceOption,
    listening,
    serving,
)
from midflight.interfaces.cli.commands.token_command import open_privately
from midflight.interfaces.cli.console import LogLines, greeting, print, print_json
from midflight.interfaces.cli.target import JsonOption, quick_loop

if TYPE_CHECKING:
    from midflight.demo.cast import Cast


from enum import StrEnum

from msgspec.structs import replace

app = typer.Typer()
FOLDER: Final = ".midflight-demo"
KEYS: Final = "keys.json"
DRAIN_S: Final = 5.0  # time for steps in flight to end; none of them takes longer

GREETING: Final = """
{model}
{begun}

  Open  {url}
        It works once, within ten minutes, for you alone.

  1  Pause it, think, resume: it goes on exactly where it was. Even kill this process and run
     the same command again.
  2  Redirect it: only EU. Or write to it while it works: top 20, also include trials,
     first tell me how many customers churned in March, later: draft a slide.
  3  When it asks to send the memo, approve, edit or reject; or cancel: tasks and memo are
     undone, and a receipt accounts for everything.

  The same by keys, in another terminal: {tui}

Data, memos and the outbox are in {folder}. Ctrl-C leaves; the same command goes on.
"""


class DemoOptions(Struct, frozen=True):
    """The options of the command."""

    folder: str = FOLDER
    port: int = PORT
    open_browser: bool = True
    fresh: bool = False
    pace: float = 1.0
    hold: float | None = None
    model: str = ""
    voice: bool = False
    as_json: bool = False


@app.command()
def demo(
    folder: Annotated[str, typer.Option(help="Where it keeps its data.")] = FOLDER,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew, with new data.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Or a free one.")] = PORT,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the URL only.")] = False,
    pace: Annotated[float, typer.Option(help="2 is half as fast, 0 at once.")] = 1.0,
    hold: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="To take a sending back.")
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="anthropic:MODEL, openai:MODEL\\[@URL], or demo; by default as there are keys.",
        ),
    ] = "",
    voice: VoiceOption = False,
    as_json: JsonOption = False,
) -> int:
    """An agent at work on data of its own, to be interrupted. Run it again and it goes on."""
    return run_demo(
        DemoOptions(
            folder=folder,
            port=port,
            open_browser=not no_open,
            fresh=fresh,
            pace=pace,
            hold=hold,
            model=model,
            voice=voice,
            as_json=as_json,
        )
    )


def run_demo(options: DemoOptions) -> int:
    """Set up, serve and work until told to leave."""
    importlib.import_module("midflight.interfaces.http")  # or say which extra it needs
    if options.voice:
        importlib.import_module("midflight.interfaces.voice")
    from midflight.demo.cast import cast_at
    from midflight.demo.company import RUNS, taken

    if not (options.pace >= 0 and (options.hold is None or options.hold >= 0)):
        raise InvalidRequest("--pace and --hold are numbers of zero or more. Nothing was started.")
    with taken(Path(options.folder), fresh=options.fresh) as folder:
        cast = cast_at(folder, pace=options.pace, hold=options.hold, model=options.model)
        _log_to(folder / "demo.log")
        chosen = ServeOptions(
            store=str(folder / RUNS),
            workdir=str(folder / "work"),
            keys=str(folder / KEYS),
            drain=DRAIN_S,
            voice=options.voice,
        )
        with _listener(options.port) as listener:
            greet = partial(_greet, options, cast, chosen.store)
            anyio.run(serving, chosen, cast.agents, listener, greet, backend_options=quick_loop())
    if not options.as_json:
        print("\nHeld where it is. The same command goes on; with --fresh it begins anew.")
    return 0


def _listener(port: int) -> socket.socket:
    try:
        return listening("127.0.0.1", port)
    except InvalidRequest:  # taken: any other will do as well
        return listening("127.0.0.1", 0)


async def _greet(options: DemoOptions, cast: Cast, store: str, control: Control, url: str) -> None:
    try:
        begun_run, begun = await cast.begin(Client(control))
        url = url.replace("/#", f"/runs/{begun_run}#")
    except MidflightError as error:
        begun = f"No run was begun: {error}"
    told = {"model": cast.model_words, "begun": begun, "url": url, "folder": options.folder}
    with greeting():
        if options.as_json:
            print_json({"url": url, "store": store, "says": begun})
        else:
            print(GREETING.format(**told, tui=_tui(Path(store))))
    if options.open_browser and _has_display():
        await _show(url, Path(store).parent)


async def _show(url: str, folder: Path) -> None:
    """Open the page in a browser, until its code is used."""
    from midflight.interfaces.http.access.keyring import Keyring

    keyring, code = Keyring(folder / KEYS), url.partition("#code=")[2]
    await open_privately(url, folder, lambda: not keyring.has_code(code))


def _tui(store: Path) -> str:
    """Return the command for the terminal app, as it works in the present folder."""
    here = Path.cwd()
    near = store.relative_to(here) if store.is_relative_to(here) else store
    called = sys.argv[0]
    if shutil.which("midflight") or Path(called).name != "midflight":
        called = "midflight"
    return shlex.join([called, "tui", "--store", str(near)])


def _has_display() -> bool:
    shown = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return shown or sys.platform in {"darwin", "win32"}


def _log_to(path: Path) -> None:
    """Write the log to a file, because people read the terminal."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(LogLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("midflight").setLevel(logging.INFO)


RESULTS: Final = "kit.json"

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
            f"there are no figures in {path}. To make them, run `midflight kit run`; to see those "
            "in another file, name it with --results."
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
