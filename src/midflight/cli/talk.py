"""Talking to a run: messages, side questions, answers, and what it has put off."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from midflight.cli.desk import SHOWN, Desk, RunArgument, at_a_desk
from midflight.cli.printing import console, print_json
from midflight.errors import InvalidRequest
from midflight.sheets.view import asked as as_asked
from midflight.terminal.forms import plain, wanted
from midflight.verbs.covering import Accepted

app = typer.Typer()
To = Annotated[
    str, typer.Argument(metavar="RUN", help="A run or a thread: id, beginning, or last.")
]
TodoOption = Annotated[int | None, typer.Option(metavar="TODO", help="By its number.")]


def _say(desk: Desk, accepted: Accepted) -> int:
    if desk.as_json:
        print_json(accepted)
    else:
        did = f"{accepted.did} {accepted.target[:SHOWN]}" if accepted.did else ""
        print("  ".join(filter(None, ["stored", did, accepted.status])))
    return 0


@at_a_desk(app)
async def send(
    desk: Desk, run: To, text: Annotated[str, typer.Argument(help="What you want to say.")]
) -> int:
    """Write to a run while it works. It is stored before this answers, and read soon."""
    to = await desk.thread(run) if run.startswith("t-") else await desk.run(run)
    return _say(desk, await desk.control.send(to, text))


@at_a_desk(app)
async def aside(
    desk: Desk, run: To, text: Annotated[str, typer.Argument(help="What you want to know.")]
) -> int:
    """Ask about a run without touching it; also while it is paused."""
    to = await desk.thread(run) if run.startswith("t-") else await desk.run(run)
    return _say(desk, await desk.control.ask_aside(to, text))


@at_a_desk(app)
async def answer(
    desk: Desk,
    run: RunArgument,
    payload: Annotated[
        str, typer.Argument(metavar="[ANSWER]", help="A word, or JSON; none shows what is asked.")
    ] = "",
    question: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Which one, if there are several.")
    ] = None,
    decline: Annotated[bool, typer.Option("--decline", help="Nobody will answer it.")] = False,
) -> int:
    """Answer a question of a run; the first answer wins."""
    meant = await desk.run(run)
    state = await desk.control.state(meant)
    open_ones = list(state.questions)
    if not open_ones:
        raise InvalidRequest(f"run {meant} asks nothing now; it is {state.phase}.")
    if question is None and len(open_ones) > 1 and (payload or decline):
        some = ", ".join(str(one) for one in open_ones)
        raise InvalidRequest(f"it asks several things: say which with --question ({some}).")
    chosen = question if question is not None else open_ones[0]
    if decline:
        return _say(desk, await desk.control.decline(meant, chosen))
    if not payload:
        return await _questions(desk, meant, [chosen] if question is not None else open_ones)
    (record,) = await desk.control.store.read(meant, after=chosen - 1, limit=1)
    schema = msgspec.json.decode(getattr(record.event, "schema", b"null"))
    return _say(desk, await desk.control.answer(meant, chosen, plain(payload, schema)))


async def _questions(desk: Desk, run: str, positions: list[int]) -> int:
    """What is asked, and what would fit."""
    found = []
    for position in positions:
        (record,) = await desk.control.store.read(run, after=position - 1, limit=1)
        found.append(as_asked(position, record.event))
    if desk.as_json:
        print_json({"run": run, "questions": found})
        return 0
    for one in found:
        print(f"{one.question}  {one.message}")
        for line in wanted(msgspec.json.decode(one.schema)):
            print(f"   {line}")
    print(f"Answer with: {desk.command('answer', run[:SHOWN], 'ANSWER')}")
    return 0


@at_a_desk(app)
async def todos(
    desk: Desk,
    run: To,
    now: TodoOption = None,
    remove: TodoOption = None,
    order: Annotated[str, typer.Option(metavar="1,2,…", help="Do them in this order.")] = "",
) -> int:
    """What is still to be done in a thread; do one now, remove one, or put them in order."""
    thread = await desk.thread(run)
    control: Any = desk.control
    if now is not None:
        return _say(desk, await control.do_now(thread, now))
    if remove is not None:
        return _say(desk, await control.remove_todo(thread, remove))
    if order:
        numbers = [part.strip() for part in order.split(",")]
        if not all(number.isdigit() for number in numbers):
            raise InvalidRequest("--order takes numbers of todos, such as 12,7. Nothing was done.")
        return _say(desk, await control.reorder(thread, [int(number) for number in numbers]))
    found = await control.preview_todos(thread)
    if desk.as_json:
        print_json({"thread": thread, "todos": found})
        return 0
    out = console()
    for todo in found:
        out.print(f"[dim]{todo.todo:>4}[/]  {todo.kind:<9} ", end="")
        out.print(todo.text, markup=False)
        if todo.note:
            out.print(f"      {todo.note}", style="dim", markup=False)
    if not found:
        print("Nothing is left to be done.")
    return 0
