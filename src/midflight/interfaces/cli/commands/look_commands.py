"""Looking at runs: the list of them, one of them in full, and one as a picture while it works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from midflight.interfaces.cli.acknowledgement import nobody, question_lines, tell_receipt, ways_on
from midflight.interfaces.cli.console import STYLES, console, print, print_json
from midflight.interfaces.cli.target import SHOWN, Desk, RunArgument, at_a_desk
from midflight.interfaces.cli.thread_output import talk_of
from midflight.interfaces.terminal import looks
from midflight.interfaces.terminal.looks import SAID, told
from midflight.interfaces.terminal.safe_text import folded, more
from midflight.journal.phases import ENDS, Cause, Phase
from midflight.journal.status import one_line
from midflight.stores.protocol import PAGE, Query, Row
from midflight.view import RunBook, RunSheet
from midflight.view.amounts import count, money

if TYPE_CHECKING:
    from rich.console import Console

    from midflight.control.any_control import AnyControl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from midflight.interfaces.terminal.safe_text import visible
from midflight.journal.state import RunState

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


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
        sign, word, tone = looks.stands(row.phase, undriven=row.undriven)
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


async def book_of(control: AnyControl, run: str) -> RunBook:
    """Return the run with all its records, and whether anybody drives it."""
    book = RunBook(run)
    while page := await control.store.read(run, after=book.state.head):
        for record in page:
            book.take(record)
        if len(page) < PAGE:
            break
    book.undriven(await control.undriven_since(book.state))
    return book


def _head(out: Console, book: RunBook, sheet: RunSheet, now: float, *, whole: bool) -> None:
    from rich.text import Text

    sign, _, tone = looks.of_sheet(sheet)
    word, rest = looks.headline(sheet)
    out.print(Text(f"{sheet.run}  {sheet.agent}", style="dim"))
    out.print(Text(looks.one_line(sheet.title or sheet.brief, 200), style="bold"))
    out.print(Text.assemble((f"{sign} {word}", STYLES[tone]), f"  {looks.one_line(rest, 200)}"))
    out.print(Text(looks.meter(sheet, book.state, now), style="dim"))
    for place in folded(len(sheet.changes), whole=whole):
        if isinstance(place, range):
            out.print(Text(more(place, "redirect", ALL), style="dim"))
            continue
        change = sheet.changes[place]
        when = "Redirected" if change.applied else "Will change"
        out.print(f"{when}  {one_line(change.was, change.now)}  ({change.by})")
    out.print()


def _steps(out: Console, sheet: RunSheet, now: float, *, whole: bool) -> None:
    """The steps; of many the first and the last, where it stands, and what has gone wrong."""
    from rich.text import Text

    at = looks.current_step(sheet)
    around = range(at - AROUND, at + AROUND + 1) if at is not None else ()
    marked = {place for place in around if 0 <= place < len(sheet.steps)}
    wrong = [n for n, step in enumerate(sheet.steps) if step.status in WRONG]
    for place in folded(len(sheet.steps), [*wrong[-WRONG_SHOWN:], *sorted(marked)], whole=whole):
        if isinstance(place, range):
            out.print(Text(f"  {more(place, 'step', ALL)}", style="dim"))
        else:
            out.print(step_line(sheet.steps[place], now))


def step_line(step: Any, now: float) -> Any:
    """Return the line of a step: sign, word and name, how long, and its result."""
    from rich.text import Text

    style = STYLES[looks.TONES[step.status]]
    about = "; ".join(filter(None, [step.error or step.summary, looks.step_when(step, now)]))
    took = looks.step_seconds(step, now)
    columns = f"{step.word:<14}", f"{took:>6}  "
    word, seconds = columns if len(step.word) <= 14 else (f"{step.word:<22}", "")
    return Text.assemble(
        (f"  {looks.SIGNS[step.status]} ", style),
        f"{looks.one_line(step.name, looks.NAME_WIDTH):<32} ",
        (word, style),
        (seconds, "dim"),
        (looks.one_line(about, 100), "red" if step.error else "dim"),
        (" (rewritten)" if step.rewritten else "", "dim"),
    )


def _questions(desk: Desk, sheet: RunSheet) -> None:
    for one in sheet.questions:
        message, *fitting, way = question_lines(desk.command, sheet, one)
        print(f"\n? {looks.indented(message)}")
        for line in fitting:
            print(f"    {looks.indented(line)}")
        print(f"  {way}")
    for command in ways_on(desk.command, sheet):
        print(f"\n  {command}")


def _notices(out: Console, sheet: RunSheet, *, whole: bool) -> None:
    """The notices that people were given, whole; of many the first and the last."""
    from rich.text import Text

    for place in folded(len(sheet.notices), whole=whole):
        if isinstance(place, range):
            out.print(Text(f"  {more(place, 'notice', ALL)}", style="dim"))
        else:
            out.print(Text(f"  Notice: {looks.indented(sheet.notices[place][1])}"))


async def _said(desk: Desk, sheet: RunSheet) -> None:
    """Print the last words of the run; the thread has all of them."""
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


RECONNECTING: Final = ("Reconnecting", "The agent keeps running")
ABOVE: Final = "the question stands above"
AT_WORK: Final = frozenset({"running", "retrying", "waiting", "undoing", "lost"})


def draw(
    sheet: RunSheet,
    state: RunState,
    texts: Mapping[str, str],
    now: float,
    width: int,
    leaves: str,
    *,
    there: bool,
) -> RenderableType:
    """Return the picture; ``there``: the server answers; ``leaves`` says what Ctrl-C does."""
    from rich.console import Group
    from rich.text import Text

    rows = _pictured_steps(sheet, texts, now, width)
    rows.append(_bar(sheet, state, now, width, there=there))
    if sheet.phase not in ENDS:
        rows.append(Text(f"  {leaves}", style="dim"))
    return Group(*rows)


def _pictured_steps(
    sheet: RunSheet, texts: Mapping[str, str], now: float, width: int
) -> list[Text]:
    from rich.text import Text

    rows: list[Text] = []
    said = looks.spoken(sheet, texts)
    for step in sheet.steps:
        if step.status in AT_WORK:
            rows.append(step_line(step, now))
            if text := said.get(step.id, "").strip():
                rows.append(Text(f"    {_tail(text, width - 6)}", style="dim"))
    return rows


def _bar(sheet: RunSheet, state: RunState, now: float, width: int, *, there: bool) -> Text:
    from rich.text import Text

    sign, _, tone = looks.of_sheet(sheet)
    word, rest = looks.headline(sheet) if there else RECONNECTING
    if sheet.questions and rest == sheet.questions[0].message:
        rest = ABOVE  # whole, with what may be answered; here it would be cut
    meter = looks.meter(sheet, state, now)
    near = "yellow" if looks.is_near_cap(sheet, now) else "dim"
    room = max(10, width - len(word) - len(meter) - 10)
    return Text.assemble(
        (f"{sign} {word}", f"bold {STYLES[tone]}"),
        f"  {looks.one_line(rest, room)}  ",
        (meter, near),
        no_wrap=True,
    )


def _tail(text: str, width: int) -> str:
    flat = visible(" ".join(text.split()))
    return flat if len(flat) <= width else f"…{flat[-(width - 1) :]}"
