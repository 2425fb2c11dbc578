"""Looking at runs: the list of them, one of them in full, and the terminal app."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from midflight.errors import to_install
from midflight.interfaces.cli.acknowledgement import nobody, question_lines, tell_receipt, ways_on
from midflight.interfaces.cli.commands.run_command import Connection, watch
from midflight.interfaces.cli.console import USAGE, console, print, print_json, tell
from midflight.interfaces.cli.run_display import book_of, talk_of
from midflight.interfaces.cli.target import (
    LAST,
    Desk,
    JsonOption,
    RunArgument,
    ServerOption,
    StoreOption,
    TokenOption,
    at_a_desk,
    opened,
    where_of,
)
from midflight.interfaces.terminal import looks
from midflight.interfaces.terminal.looks import SAID, SHOWN, told
from midflight.interfaces.terminal.safe_text import folded, more
from midflight.journal.phases import ENDS, Cause, Phase
from midflight.journal.status import one_line
from midflight.stores.protocol import Query, Row
from midflight.view import RunBook, RunSheet

if TYPE_CHECKING:
    from midflight.control.any_control import AnyControl
    from midflight.interfaces.cli.rich_console import Screen


app = typer.Typer()
SAID_SHOWN = 3
OFFERED = {
    "pause": "pause",
    "stop effect": "stop-effect",
    "resume": "resume",
    "raise limits": "raise",
    "hand back": "hand-back",
    "redirect": "redirect",
    "cancel": "cancel",
}
"""Verb -> its command; what cannot be pressed now is left out."""
SAID_WIDTH = 400
ALL = "--all"
AROUND = 3  # steps on both sides of the current one
WRONG = frozenset({"failed", "undo_failed", "waiting", "lost"})
WRONG_SHOWN = 10


@at_a_desk(app)
async def runs(
    desk: Desk,
    phase: Annotated[list[Phase], typer.Option(help="Only these; may be repeated.")] = [],  # noqa: B006
    agent: Annotated[str, typer.Option(help="Only of this agent.")] = "",
    thread: Annotated[str, typer.Option(help="Only of this thread.")] = "",
    before: Annotated[str, typer.Option(metavar="RUN", help="Those before this one.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 20,
) -> int:
    """List runs, newest first."""
    query = Query(phases=tuple(phase), agent=agent, thread=thread, before=before, limit=limit)
    rows = await desk.control.runs(query)
    further = rows[-1].journal if len(rows) == limit else ""
    if desk.as_json:
        print_json({"rows": rows, "next": further})
        return 0
    if not rows:
        print("Nothing has run yet." if query == Query(limit=limit) else "No run is like that.")
        return 0
    from midflight.interfaces.cli.rich_console import table_of

    console().print(table_of(rows, await desk.control.store.now()))
    if further:
        print(f"More: {desk.command('runs', '--before', further)}")
    return 0


@at_a_desk(app)
async def show(
    desk: Desk,
    run: RunArgument,
    whole: Annotated[bool, typer.Option("--all", help="Long lists to their last line.")] = False,
) -> int:
    """Show how a run stands: its steps, its questions, what each verb would do, the receipt."""
    book = await book_of(desk.control, await desk.run(run))
    sheet = book.sheet(await _below(desk.control, book))
    if desk.as_json:
        print_json(sheet)
        return 0
    now = await desk.control.store.now()
    out = console()
    _head(out, book, sheet, now, whole=whole)
    _steps(out, sheet, now, whole=whole)
    await _said(desk, sheet)
    _notices(out, sheet, whole=whole)
    _questions(desk, sheet)
    if sheet.phase in ENDS:
        can_undo = sheet.preview["undo"].enabled
        tell_receipt(sheet.receipt, numbered=can_undo, whole=whole)
        if can_undo:
            print(f"Undo one with: {desk.command('undo', sheet.run[:SHOWN], '--effect', 'NUMBER')}")
    else:
        _offers(out, sheet)
        if not await desk.driven(sheet.run) and book.state.wants_driver:
            print(nobody(book.state.agent))
    return 0


async def _below(control: AnyControl, book: RunBook) -> dict[str, Row]:
    """Return the rows of the runs that it has begun: its journal knows only how they ended."""
    rows = await control.runs(Query(parent=book.state.journal)) if book.children else ()
    return {row.journal: row for row in rows}


def _head(out: Screen, book: RunBook, sheet: RunSheet, now: float, *, whole: bool) -> None:
    sign, _, tone = looks.of_sheet(sheet)
    word, rest = looks.headline(sheet)
    out.print(f"{sheet.run}  {sheet.agent}", style="dim")
    out.print(looks.one_line(sheet.title or sheet.brief, 200), style="bold")
    out.pieces((f"{sign} {word}", tone), f"  {looks.one_line(rest, 200)}")
    out.print(looks.meter(sheet, book.state, now), style="dim")
    for place in folded(len(sheet.changes), whole=whole):
        if isinstance(place, range):
            out.print(more(place, "redirect", ALL), style="dim")
            continue
        change = sheet.changes[place]
        when = "Redirected" if change.applied else "Will change"
        out.print(f"{when}  {one_line(change.was, change.now)}  ({change.by})")
    out.print()


def _steps(out: Screen, sheet: RunSheet, now: float, *, whole: bool) -> None:
    """The steps; of many the first and the last, where it stands, and what has gone wrong."""
    from midflight.interfaces.cli.rich_console import step_line

    at = looks.current_step(sheet)
    around = range(at - AROUND, at + AROUND + 1) if at is not None else ()
    marked = {place for place in around if 0 <= place < len(sheet.steps)}
    wrong = [n for n, step in enumerate(sheet.steps) if step.status in WRONG]
    for place in folded(len(sheet.steps), [*wrong[-WRONG_SHOWN:], *sorted(marked)], whole=whole):
        if isinstance(place, range):
            out.print(f"  {more(place, 'step', ALL)}", style="dim")
        else:
            out.print(step_line(sheet.steps[place], now))


def _questions(desk: Desk, sheet: RunSheet) -> None:
    for one in sheet.questions:
        message, *fitting, way = question_lines(desk.command, sheet, one)
        print(f"\n? {looks.indented(message)}")
        for line in fitting:
            print(f"    {looks.indented(line)}")
        print(f"  {way}")
    for command in ways_on(desk.command, sheet):
        print(f"\n  {command}")


def _notices(out: Screen, sheet: RunSheet, *, whole: bool) -> None:
    """The notices that people were given, whole; of many the first and the last."""
    for place in folded(len(sheet.notices), whole=whole):
        if isinstance(place, range):
            out.print(f"  {more(place, 'notice', ALL)}", style="dim")
        else:
            out.print(f"  Notice: {looks.indented(sheet.notices[place][1])}")


async def _said(desk: Desk, sheet: RunSheet) -> None:
    """Print the last words of the run; the thread has all of them."""
    lines = (await talk_of(desk.control, sheet.thread)).sheet().lines
    said = [line.text for line in lines if line.run == sheet.run and line.kind in SAID]
    for text in said[-SAID_SHOWN:]:
        print(f"  agent: {looks.one_line(text, SAID_WIDTH)}")
    if any(map(told, lines)):
        print(f"  {desk.command('thread', sheet.run[:SHOWN])}")


def _offers(out: Screen, sheet: RunSheet) -> None:
    out.print()
    for verb, name in OFFERED.items():
        offer = sheet.preview[verb]
        if offer.enabled and (verb != "raise limits" or Cause.CAP in sheet.holds):
            out.pieces(f"  {name:<12}", (looks.indented(offer.consequence), "dim"))


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
