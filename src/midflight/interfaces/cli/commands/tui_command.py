"""``midflight tui``: watch and steer runs in the terminal."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from midflight.errors import to_install
from midflight.interfaces.cli.commands.watch_command import watch
from midflight.interfaces.cli.console import USAGE, print, tell
from midflight.interfaces.cli.target import (
    LAST,
    SHOWN,
    JsonOption,
    ServerOption,
    StoreOption,
    TokenOption,
    opened,
    where_of,
)
from midflight.stores.protocol import Query

if TYPE_CHECKING:
    from midflight.interfaces.tui.tui_app import MidflightApp

app = typer.Typer()
AWAY_S = 24 * 3600.0  # somebody who looks on waits as long as they like


@app.command()
def tui(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="Which one to begin with.")] = "",
    plain: Annotated[bool, typer.Option("--plain", help="Lines only, for a log.")] = False,
    store: StoreOption = "",
    server: ServerOption = "",
    token_file: TokenOption = "",
    as_json: JsonOption = False,
) -> int:
    """Watch and steer runs: Esc pauses, Ctrl+R redirects, Ctrl+X cancels, Ctrl+C twice leaves."""
    if plain or as_json:
        return watch(run or LAST, plain, store, server, token_file, as_json)
    if find_spec("textual") is None:
        raise ImportError(f"midflight tui needs an extra: {to_install('tui')}")
    where = where_of(store, server, token_file)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        told = "midflight tui needs a terminal; use --plain for lines. Nothing was opened."
        return tell("usage", told, USAGE, as_json)
    from midflight.interfaces.tui.tui_app import MidflightApp

    async def seated() -> str:
        async with opened(where) as desk:  # a refusal is told at once, before the app opens
            await desk.control.runs(Query(limit=1))
        there = Connection()
        async with opened(where, away_s=AWAY_S, connected=there.tell) as desk:
            meant = await desk.run(run) if run else ""
            shown = MidflightApp(desk.control, run=meant, named=desk.named)
            there.shown = shown
            await shown.run_async()
            left = shown.run_shown
            return desk.command("tui", *([left[:SHOWN]] if left else []))

    back = anyio.run(seated)
    print(f"Left. Runs go on without you; come back with: {back}")
    return 0


class Connection:
    """Passes on whether the server is there, to the app once there is one."""

    def __init__(self) -> None:
        self.shown: MidflightApp | None = None

    def tell(self, there: bool) -> None:
        """Tell the app whether the server is there."""
        if self.shown is not None:
            self.shown.there = there
