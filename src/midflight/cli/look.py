"""Looking: the list of runs, and one of them in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from midflight.cli.delivered import nobody, tell_receipt
from midflight.cli.desk import SHOWN, Desk, RunArgument, at_a_desk
from midflight.cli.lifting import way_out, ways_on
from midflight.cli.printing import STYLES, console, print, print_json
from midflight.cli.talking import talk_of
from midflight.kernel.diff import one_line
from midflight.kernel.phases import ENDS, Cause, Phase
from midflight.sheets import RunBook, RunSheet
from midflight.sheets.figures import count, money
from midflight.stores.base import PAGE, Query, Row
from midflight.terminal import looks
from midflight.terminal.forms import wanted
from midflight.terminal.talk import SAID, told

if TYPE_CHECKING:
    from rich.console import Console

    from midflight.remote.control import AnyControl

app = typer.Typer()
TITLE_WIDTH = 44
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
    _table(rows, await desk.control.store.now())
    if further:
        print(f"More: {desk.command('runs', '--before', further)}")
    return 0


def _table(rows: list[Row], now: float) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("run", "state", "agent", "title", "steps", "spent", "changed"):
        table.add_column(name, no_wrap=True, justify="right" if name == "steps" else "left")
    for row in rows:
        sign, word, tone = looks.PHASES[Phase(row.phase)]
        spent = money(row.usd) if row.usd else ""
        spent = spent or (f"{count(row.tokens)} tokens" if row.tokens else "")
        table.add_row(
            row.journal[:SHOWN],
            Text(f"{sign} {word}", style=STYLES[tone]),
            row.agent,
            Text(looks.one_line(row.title, TITLE_WIDTH)),
            str(row.steps),
            spent,
            looks.ago(now - row.updated_at),
        )
    console().print(table)


@at_a_desk(app)
async def show(desk: Desk, run: RunArgument) -> int:
    """How a run stands: its steps, what it asks, what each verb would do, the receipt."""
    book = await book_of(desk.control, await desk.run(run))
    sheet = book.sheet(await _below(desk.control, book))
    if desk.as_json:
        print_json(sheet)
        return 0
    now = await desk.control.store.now()
    out = console()
    _head(out, book, sheet, now)
    for step in sheet.steps:
        out.print(step_line(step, now))
    await _said(desk, sheet)
    _questions(desk, sheet)
    if sheet.phase in ENDS:
        can_undo = sheet.preview["undo"].enabled
        tell_receipt(sheet.receipt, numbered=can_undo)
        if can_undo:
            print(f"Undo one with: {desk.command('undo', sheet.run[:SHOWN], '--effect', 'NUMBER')}")
    else:
        _offers(out, sheet)
        if not await desk.driven(sheet.run) and book.state.wants_driver:
            print(nobody(book.state.agent))
    return 0


async def _below(control: AnyControl, book: RunBook) -> dict[str, Row]:
    """How the runs stand that it has begun: its own journal knows only how they ended."""
    rows = await control.runs(Query(parent=book.state.journal)) if book.children else ()
    return {row.journal: row for row in rows}


async def book_of(control: AnyControl, run: str) -> RunBook:
    """The run with all its records, a page at a time."""
    book = RunBook(run)
    while page := await control.store.read(run, after=book.state.head):
        for record in page:
            book.take(record)
        if len(page) < PAGE:
            break
    return book


def _head(out: Console, book: RunBook, sheet: RunSheet, now: float) -> None:
    from rich.text import Text

    sign, _, tone = looks.PHASES[sheet.phase]
    word, rest = looks.headline(sheet)
    out.print(Text(f"{sheet.run}  {sheet.agent}", style="dim"))
    out.print(Text(looks.one_line(sheet.title or sheet.brief, 200), style="bold"))
    out.print(Text.assemble((f"{sign} {word}", STYLES[tone]), f"  {looks.one_line(rest, 200)}"))
    out.print(Text(looks.meter(sheet, book.state, now), style="dim"))
    for change in sheet.changes:
        when = "Redirected" if change.applied else "Will change"
        out.print(f"{when}  {one_line(change.was, change.now)}  ({change.by})")
    out.print()


def step_line(step: Any, now: float) -> Any:
    """Sign, word and name, how long, and what came of it."""
    from rich.text import Text

    style = STYLES[looks.TONES[step.status]]
    about = step.error or step.summary
    return Text.assemble(
        (f"  {looks.SIGNS[step.status]} ", style),
        f"{looks.one_line(step.name, looks.NAME_WIDTH):<32} ",
        (f"{step.word:<14}", style),
        (f"{looks.step_seconds(step, now):>6}  ", "dim"),
        (looks.one_line(about, 100), "red" if step.error else "dim"),
        (" (rewritten)" if step.rewritten else "", "dim"),
    )


def _questions(desk: Desk, sheet: RunSheet) -> None:
    for one in sheet.questions:
        print(f"\n? {looks.indented(one.message)}")
        for line in wanted(msgspec.json.decode(one.schema)) if looks.is_answered(one) else ():
            print(f"    {looks.indented(line)}")
        print(f"  {way_out(desk.command, sheet, one)}")
    for command in ways_on(desk.command, sheet):
        print(f"\n  {command}")


async def _said(desk: Desk, sheet: RunSheet) -> None:
    """The last of what it has said; the thread has all of it."""
    lines = (await talk_of(desk.control, sheet.thread)).sheet().lines
    said = [line.text for line in lines if line.run == sheet.run and line.kind in SAID]
    for text in said[-SAID_SHOWN:]:
        print(f"  agent: {looks.one_line(text, SAID_WIDTH)}")
    if any(map(told, lines)):
        print(f"  {desk.command('thread', sheet.run[:SHOWN])}")


def _offers(out: Console, sheet: RunSheet) -> None:
    from rich.text import Text

    out.print()
    for verb, name in OFFERED.items():
        offer = sheet.preview[verb]
        if offer.enabled and (verb != "raise limits" or Cause.CAP in sheet.holds):
            out.print(Text.assemble(f"  {name:<12}", (looks.indented(offer.consequence), "dim")))
