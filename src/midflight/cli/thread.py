"""A thread as people read it; and verbs to overrule, edit and withdraw a message in it."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Literal

import typer

from midflight.cli.desk import SHOWN, Desk, at_a_desk
from midflight.cli.failing import DETACHED, DONE
from midflight.cli.printing import ReaderLeft, console, let_go, print, print_json
from midflight.cli.talk import To, say
from midflight.cli.talking import Talking, talk_of
from midflight.engines.leaving import LEAVING, leaving_on
from midflight.kernel.record import Recorded
from midflight.stores.protocol import Query
from midflight.terminal.looks import indented, one_line
from midflight.view import ThreadSheet

app = typer.Typer()
LEAVE_S = 5.0
RUNS_SHOWN = 100
TITLE_WIDTH = 200
MessageArgument = Annotated[int, typer.Argument(metavar="MESSAGE", help="Its number.")]
Choice = Literal["incorporate", "switch", "defer", "back", "undo"]


@at_a_desk(app)
async def thread(
    desk: Desk,
    run: To,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="And what is said next.")] = False,
) -> int:
    """Show a thread: its messages and their authors, what was chosen for each, and its todos."""
    journal = await desk.thread(run)
    book = await talk_of(desk.control, journal)
    rows = await desk.control.runs(Query(thread=journal, limit=RUNS_SHOWN))
    sheet = book.sheet(rows, await desk.control.preview_todos(journal))
    shown = Talking(book, partial(console().print, markup=False))
    try:
        if desk.as_json:
            print_json({"type": "sheet", "sheet": sheet} if follow else sheet)
        else:
            _print(desk, sheet, shown)
        if follow:
            await _follow(desk, shown)
    except* ReaderLeft:  # as if they had pressed Ctrl-C
        let_go(sys.stdout)
    return DETACHED if follow else DONE


def _print(desk: Desk, sheet: ThreadSheet, shown: Talking) -> None:
    out = console()
    out.print(
        f"{sheet.thread}  {one_line(sheet.title, TITLE_WIDTH)}".rstrip(), style="dim", markup=False
    )
    shown.so_far()
    if not sheet.lines:
        print("Nothing was said yet.")
    if sheet.todos:
        print("To do")
    for todo in sheet.todos:
        out.print(f"{todo.todo:>4}  {indented(todo.text)}  ({todo.kind})", markup=False)
    if any(line.kind == "message" for line in sheet.lines):
        overrule = desk.command("overrule", sheet.thread[:SHOWN], "MESSAGE", "CHOICE")
        out.print(f"To have it otherwise: {overrule}", style="dim", markup=False)


async def _follow(desk: Desk, shown: Talking) -> None:
    """News until somebody leaves; that ends nothing."""
    state = shown.book.state
    async with leaving_on(LEAVING, LEAVE_S) as until_told:
        with until_told:
            async with desk.control.watch_live({state.journal: state.head}) as news:
                async for item in news:
                    if isinstance(item, Recorded):
                        _tell(desk, shown, item)


def _tell(desk: Desk, shown: Talking, record: Recorded) -> None:
    if desk.as_json:
        print_json({"type": "record", "record": record})
    else:
        shown.take(record)


@at_a_desk(app)
async def overrule(desk: Desk, run: To, message: MessageArgument, choice: Choice) -> int:
    """Want something else done about a message: into the work, now, later, go back, undo."""
    return say(desk, await desk.control.overrule(await desk.thread(run), message, choice))


@at_a_desk(app)
async def edit(
    desk: Desk,
    run: To,
    message: MessageArgument,
    text: Annotated[str, typer.Argument(help="What it is to say instead.")],
) -> int:
    """Give a message of yours that nobody has read yet another text."""
    return say(desk, await desk.control.edit_message(await desk.thread(run), message, text))


@at_a_desk(app)
async def withdraw(desk: Desk, run: To, message: MessageArgument) -> int:
    """Take a message of yours back that nobody has read yet."""
    return say(desk, await desk.control.withdraw_message(await desk.thread(run), message))
