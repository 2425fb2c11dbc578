"""Talking to a run and reading its thread: messages, side questions, answers, todos."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Literal

import anyio
import msgspec
import typer
from msgspec import Raw

from midflight.control.ack import Ack
from midflight.engines.local_engine import LEAVING, leaving_on
from midflight.errors import ENDED, InvalidRequest
from midflight.interfaces.cli.acknowledgement import WAIT_S, nobody, question_lines, way_out
from midflight.interfaces.cli.console import (
    DETACHED,
    DONE,
    ReaderLeft,
    console,
    let_go,
    print,
    print_json,
)
from midflight.interfaces.cli.run_display import Talking, book_of, talk_of
from midflight.interfaces.cli.target import Desk, RunArgument, at_a_desk
from midflight.interfaces.terminal import looks
from midflight.interfaces.terminal.answer_form import plain
from midflight.interfaces.terminal.looks import SHOWN, indented, one_line
from midflight.journal.record import Recorded
from midflight.stores.protocol import Query
from midflight.view import RunSheet, ThreadSheet, control_bar
from midflight.view.question_form import written

app = typer.Typer()
To = Annotated[
    str, typer.Argument(metavar="RUN", help="A run or a thread: id, beginning, or last.")
]
ASIDE_WAIT_S = 60.0
TodoOption = Annotated[int | None, typer.Option(metavar="TODO", help="By its number.")]


def say(desk: Desk, accepted: Ack, what: str = "stored") -> int:
    """Say what is on record, its effect, and how the run stands."""
    if desk.as_json:
        print_json(accepted)
    else:
        did = f"{accepted.did} {accepted.target[:SHOWN]}" if accepted.did else ""
        print("  ".join(filter(None, [what, did, accepted.status])))
    return 0


@at_a_desk(app)
async def send(
    desk: Desk, run: To, text: Annotated[str, typer.Argument(help="What you want to say.")]
) -> int:
    """Write to a run while it works. It is stored before this answers, and read soon."""
    to = await desk.thread(run) if run.startswith("t-") else await desk.run(run)
    return say(desk, await desk.control.send(to, text))


@at_a_desk(app)
async def aside(
    desk: Desk,
    run: To,
    text: Annotated[str, typer.Argument(help="What you want to know.")],
    wait: Annotated[
        float, typer.Option(min=0, max=3600, metavar="SECONDS", help="How long for the answer.")
    ] = ASIDE_WAIT_S,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Only ask.")] = False,
) -> int:
    """Ask about a run without touching it, also while it is paused; prints the answer."""
    to = await desk.thread(run) if run.startswith("t-") else await desk.run(run)
    asked = await desk.control.ask_aside(to, text)
    if no_wait:
        return say(desk, asked)
    answer = await _answer(desk, asked, wait)
    if desk.as_json:
        print_json({**msgspec.structs.asdict(asked), "answer": answer})
    elif answer:
        print(answer)
    else:
        driven = await desk.driven(asked.target)
        told = "no answer yet" if driven else nobody((await desk.row(asked.target)).agent)
        print(f"asked: {told}\nSee: {desk.command('thread', asked.run[:SHOWN])}")
    return 0


async def _answer(desk: Desk, asked: Ack, wait_s: float) -> str:
    """Return the answer to a side question: at once without an agent, else from its run."""
    if not asked.target:
        return asked.status
    with anyio.move_on_after(min(wait_s, WAIT_S)):
        await desk.control.until(asked.target, lambda s: bool(s.driver) or not s.alive)
    if await desk.driven(asked.target):
        with anyio.move_on_after(wait_s):
            await desk.control.ended(asked.target)
    lines = (await talk_of(desk.control, asked.run)).sheet().lines
    return "\n".join(one.text for one in lines if one.run == asked.target and one.text)


@at_a_desk(app)
async def answer(
    desk: Desk,
    run: RunArgument,
    payload: Annotated[
        str, typer.Argument(metavar="ANSWER", help="A word, or JSON; none shows what is asked.")
    ] = "",
    question: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Which one, if there are several.")
    ] = None,
    decline: Annotated[bool, typer.Option("--decline", help="Nobody will answer it.")] = False,
) -> int:
    """Answer a question of a run; the first answer wins."""
    sheet = (await book_of(desk.control, await desk.run(run))).sheet()
    if not sheet.questions:
        how = ENDED.get(sheet.phase, f"is {sheet.phase}")
        raise InvalidRequest(f"run {sheet.run} asks nothing now; it {how}. Nothing was answered.")
    if not (payload or decline):
        return _questions(desk, sheet, question)
    chosen = question or _only(desk, sheet)
    if decline:
        return say(desk, await desk.control.decline(sheet.run, chosen), "declined;")
    schema = next((one.schema for one in sheet.questions if one.question == chosen), Raw(b"null"))
    given = plain(payload, msgspec.json.decode(schema))
    accepted = await desk.control.answer(sheet.run, chosen, given)
    return say(desk, accepted, f"answered: {looks.indented(written(given))};")


def _only(desk: Desk, sheet: RunSheet) -> int:
    """Return the only question that takes an answer; otherwise raise, with what to do."""
    able = [one.question for one in sheet.questions if control_bar.is_answered(one)]
    if len(able) > 1:
        some = ", ".join(str(one) for one in able)
        raise InvalidRequest(
            f"the run asks several questions: choose one with --question ({some}). Nothing was "
            "changed."
        )
    if not able:
        other = way_out(desk.command, sheet, sheet.questions[0])
        raise InvalidRequest(
            f"run {sheet.run} waits for something else than an answer; use: {other}. Nothing "
            "was changed."
        )
    return able[0]


def _questions(desk: Desk, sheet: RunSheet, question: int | None) -> int:
    """Show each question, the answers that fit, and the command that settles it."""
    found = [one for one in sheet.questions if question in {None, one.question}]
    if desk.as_json:
        print_json({"run": sheet.run, "questions": found})
        return 0
    for one in found:
        message, *further = question_lines(desk.command, sheet, one)
        print(f"{one.question}  {looks.indented(message)}")
        for line in further:
            print(f"   {looks.indented(line)}")
    return 0


@at_a_desk(app)
async def todos(
    desk: Desk,
    run: To,
    now: TodoOption = None,
    remove: TodoOption = None,
    order: Annotated[str, typer.Option(metavar="1,2,…", help="Do them in this order.")] = "",
) -> int:
    """Show the todos of a thread; do one now, remove one, or put them in order."""
    thread = await desk.thread(run)
    control = desk.control
    if now is not None:
        return say(desk, await control.do_now(thread, now))
    if remove is not None:
        return say(desk, await control.remove_todo(thread, remove))
    if order:
        numbers = [part.strip() for part in order.split(",")]
        if not all(number.isdecimal() for number in numbers):
            raise InvalidRequest("--order takes numbers of todos, such as 12,7. Nothing was done.")
        return say(desk, await control.reorder(thread, [int(number) for number in numbers]))
    found = await control.preview_todos(thread)
    if desk.as_json:
        print_json({"thread": thread, "todos": found})
        return 0
    out = console()
    for todo in found:
        out.print(f"{todo.todo:>4}", style="dim", end="")
        out.print(f"  {todo.kind:<9} {looks.indented(todo.text)}")
        if todo.note:
            out.print(f"      {looks.indented(todo.note)}", style="dim")
    if not found:
        print("Nothing is left to be done.")
    return 0


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
