"""``midflight watch``: follow a run until it ends. Leaving it cancels nothing."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from typing import Annotated

import anyio
import typer

from midflight.engines.local_engine import LEAVING, leaving_on
from midflight.errors import MidflightError
from midflight.interfaces.cli.commands.look_commands import book_of
from midflight.interfaces.cli.console import DETACHED, ENDS, ReaderLeft, let_go, print, print_json
from midflight.interfaces.cli.run_display import Follower, follower
from midflight.interfaces.cli.target import (
    SHOWN,
    Desk,
    JsonOption,
    RunArgument,
    ServerOption,
    StoreOption,
    TokenOption,
    opened,
    where_of,
)
from midflight.interfaces.cli.thread_output import news_of, talk_of
from midflight.journal.phases import Phase
from midflight.tasks import owned_tasks
from midflight.view import RunBook

app = typer.Typer()
PlainOption = Annotated[bool, typer.Option("--plain", help="Lines only, for a log.")]
LEAVE_S = 5.0
LOOK_S = 2.0  # at whether its driver lives


@app.command()
def watch(
    run: RunArgument,
    plain: PlainOption = False,
    store: StoreOption = "",
    server: ServerOption = "",
    token_file: TokenOption = "",
    as_json: JsonOption = False,
) -> int:
    """Follow a run until it ends; Ctrl-C leaves it alone, and it goes on."""
    where = where_of(store, server, token_file)

    async def seated() -> int:
        connection = Connection()
        async with opened(where, as_json=as_json, connected=connection.tell) as desk:
            meant = await desk.run(run)
            shown = follower(where.command, as_json=as_json, plain=plain)
            connection.shown = shown
            status = DETACHED
            async with leaving_on(LEAVING, LEAVE_S) as until_told:
                with until_told:
                    status = await follow(desk, meant, shown)
            return detached(desk, meant, as_json) if status == DETACHED else status

    return anyio.run(seated)


class Connection:
    """Passes on whether the server is there, to whoever shows it."""

    def __init__(self) -> None:
        self.shown: Follower | None = None
        self._there = True

    def tell(self, there: bool) -> None:
        """Tell the follower when the server has gone or is back."""
        if there != self._there and self.shown is not None:
            self.shown.connected(there)
        self._there = there


async def follow(desk: Desk, run: str, shown: Follower, *, driving: bool = False) -> int:
    """Show a run until it has ended; the exit status says how, or that the reader left before.

    ``driving``: this process is about to drive it, and has perhaps not begun to.
    """
    book = await book_of(desk.control, run)
    if driving:
        book.undriven(None)
    try:
        await _until_its_end(desk, book, shown)
    except* ReaderLeft:
        pass  # the phase of the run gives the exit status
    return ENDS.get(book.state.phase, DETACHED)


async def _until_its_end(desk: Desk, book: RunBook, shown: Follower) -> None:
    run = book.state.journal
    talk = await talk_of(desk.control, book.state.thread)
    with shown:
        shown.begin(book, talk, await desk.control.store.now())
        if book.state.phase not in ENDS:
            cursors = {run: book.state.head, talk.state.journal: talk.state.head}
            async with (
                desk.control.watch_live(cursors) as news,
                owned_tasks(
                    partial(shown.tick, desk.control.store),
                    partial(_look_at_driver, desk, book, shown),
                ),
            ):
                async for item in news:
                    shown.take(item)
                    if book.state.phase in ENDS:
                        break
            async for record in news_of(desk.control, talk):  # said before its end, told after it
                shown.take(record)
        result = await desk.control.result(run) if book.state.phase is Phase.DONE else None
        shown.end(result)


async def _look_at_driver(desk: Desk, book: RunBook, shown: Follower) -> None:
    """Ask every now and then whether anybody drives it: no record says that a process died."""
    while True:
        await anyio.sleep(LOOK_S)
        with suppress(MidflightError):  # the watch itself tells of this error
            if book.undriven(await desk.control.undriven_since(book.state)):
                shown.driven()


def detached(desk: Desk, run: str, as_json: bool) -> int:
    """Say that the run goes on, and how to come back."""
    back = desk.command("watch", run[:SHOWN])
    words = f"Detached. The run goes on without you; come back with: {back}"
    return say_left(run, back, words, as_json)


def say_left(run: str, back: str, words: str, as_json: bool) -> int:
    """Say it on standard output; if its reader has left as well, on standard error."""
    try:
        if as_json:
            print_json({"type": "detached", "run": run, "back": back})
        else:
            print(f"\n{words}", flush=True)
    except ReaderLeft:
        let_go(sys.stdout)
        if not as_json:
            print(words, file=sys.stderr)
    return DETACHED
