"""``midflight run`` and ``midflight watch``: begin a run, here or on a server, and follow it."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import anyio
import msgspec
import typer

from midflight.agents import Agent
from midflight.control import Control
from midflight.engines.driver_pool import DRAIN_S
from midflight.engines.local_engine import LEAVING, LocalEngine, leaving_on
from midflight.errors import InvalidRequest, MidflightError
from midflight.interfaces.cli.arguments import (
    Repeats,
    Seconds,
    Steps,
    Tokens,
    ToolCalls,
    Usd,
    found_at,
)
from midflight.interfaces.cli.commands.control_commands import begun
from midflight.interfaces.cli.console import (
    DETACHED,
    ENDS,
    ReaderLeft,
    Unknown,
    keep_tracebacks_off_the_screen,
    let_go,
    person,
    print,
    print_json,
)
from midflight.interfaces.cli.run_display import Lines, book_of, follower, news_of, talk_of
from midflight.interfaces.cli.target import (
    Desk,
    JsonOption,
    RunArgument,
    ServerOption,
    StoreOption,
    TokenOption,
    Where,
    opened,
    where_of,
)
from midflight.interfaces.terminal.looks import SHOWN
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor, Limits
from midflight.stores import open_store
from midflight.tasks import owned_tasks
from midflight.view import RunBook

if TYPE_CHECKING:
    from midflight.interfaces.tui.tui_app import MidflightApp

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
        self.shown: Lines | MidflightApp | None = None
        self._there = True

    def tell(self, there: bool) -> None:
        """Tell the one that shows it when the server has gone or is back."""
        if there != self._there and self.shown is not None:
            self.shown.connected(there)
        self._there = there


async def follow(desk: Desk, run: str, shown: Lines, *, driving: bool = False) -> int:
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


async def _until_its_end(desk: Desk, book: RunBook, shown: Lines) -> None:
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


async def _look_at_driver(desk: Desk, book: RunBook, shown: Lines) -> None:
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


WORKDIR = Path(".midflight")


class Wanted(NamedTuple):
    """The run that a command asks for."""

    agent: str
    brief: str
    title: str
    thread: str
    given: Any
    limits: Limits | None
    going_on: str  # a run that is there already


@app.command()
def run(
    agent: Annotated[
        str, typer.Argument(metavar="MODULE:AGENT", help="With --server only the agent's name.")
    ],
    brief: Annotated[str, typer.Argument(help="What it is to do.")] = "",
    input_json: Annotated[str, typer.Option("--input", metavar="JSON", help="Plain data.")] = "",
    title: Annotated[str, typer.Option(help="How it is called in lists.")] = "",
    thread: Annotated[str, typer.Option(help="The thread it belongs to.")] = "",
    usd: Usd = None,
    seconds: Seconds = None,
    steps: Steps = None,
    tokens: Tokens = None,
    tool_calls: ToolCalls = None,
    repeats: Repeats = None,
    going_on: Annotated[
        str, typer.Option("--continue", metavar="RUN", help="Drive this run instead of a new one.")
    ] = "",
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Record it; follow later.")
    ] = False,
    plain: PlainOption = False,
    workdir: Annotated[Path, typer.Option(help="Where runs have their folders.")] = WORKDIR,
    store: StoreOption = "",
    server: ServerOption = "",
    token_file: TokenOption = "",
    as_json: JsonOption = False,
) -> int:
    """Run an agent and watch it; Ctrl-C leaves it where the next start takes it up."""
    caps = Limits(steps, seconds, tokens, usd, tool_calls, repeats)
    limits = caps if caps != Limits() else None
    wanted = Wanted(agent, brief, title, thread, _plain(input_json), limits, going_on)
    if going_on:
        _check_it_goes_on_as_it_is(wanted)
    where = where_of(store, server, token_file)
    if where.server:
        return anyio.run(_on_server, where, wanted, detach, as_json, plain)
    agents = found_at(agent)
    if len(agents) != 1:
        names = ", ".join(f"{agent}:{one.name}" for one in agents)
        raise Unknown(f"{agent} has several agents: {names}. Say which. Nothing was started.")
    if detach:
        return anyio.run(_recorded, where, wanted, agents[0], as_json)
    return anyio.run(_here, where, wanted, agents[0], workdir, as_json, plain)


def _check_it_goes_on_as_it_is(wanted: Wanted) -> None:
    """Refuse options that a run which goes on would not take, such as another brief."""
    words = ("a brief", wanted.brief), ("--title", wanted.title), ("--thread", wanted.thread)
    others = ("--input", wanted.given), ("caps", wanted.limits)
    given = [name for name, value in (*words, *others) if value is not None and value != ""]
    if given:
        run = wanted.going_on
        raise InvalidRequest(
            "--continue goes on with a run as it is and cannot be combined with "
            f"{', '.join(given)}. To change its course: midflight redirect {run} TEXT; to "
            f"change its caps: midflight raise {run}. Nothing was started."
        )


def _plain(text: str) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"--input is not JSON: {error}. Nothing was started.") from None


async def _start(desk: Desk, wanted: Wanted, agent: Agent | str) -> str:
    if wanted.going_on:
        return await desk.run(wanted.going_on)
    started: str = await desk.control.start(
        agent,
        wanted.brief,
        thread=wanted.thread,
        input=wanted.given,
        limits=wanted.limits,
        title=wanted.title,
    )
    return started


async def _on_server(where: Where, wanted: Wanted, detach: bool, as_json: bool, plain: bool) -> int:
    connection = Connection()
    async with opened(where, as_json=as_json, connected=connection.tell) as desk:
        started = await _start(desk, wanted, wanted.agent)
        if detach:
            return await begun(desk, started)
        connection.shown = shown = follower(where.command, as_json=as_json, plain=plain)
        status = DETACHED
        async with leaving_on(LEAVING, LEAVE_S) as until_told:
            with until_told:
                status = await follow(desk, started, shown)
        return detached(desk, started, as_json) if status == DETACHED else status


async def _recorded(where: Where, wanted: Wanted, agent: Agent, as_json: bool) -> int:
    """Only put the run on record: a process that serves the store takes it up."""
    who = Actor(by=person(), role=Role.OPERATOR, channel="cli")
    async with open_store(where.store) as store:
        desk = Desk(Control(store, who=who), where, who, as_json=as_json)
        module = wanted.agent.partition(":")[0]
        return await begun(desk, await _start(desk, wanted, agent), module)


async def _here(
    where: Where, wanted: Wanted, agent: Agent, workdir: Path, as_json: bool, plain: bool
) -> int:
    """Drive it in this process. Leaving holds it, as the end of a server does."""
    who = Actor(by=person(), role=Role.OPERATOR, channel="cli")
    status, started = DETACHED, ""
    shown: Lines = follower(where.command, as_json=as_json, plain=plain, driving=True)
    keep_tracebacks_off_the_screen()
    async with (
        leaving_on(LEAVING, DRAIN_S + LEAVE_S) as until_told,
        open_store(where.store) as store,
        LocalEngine.open(store, [agent], workdir=workdir) as engine,
    ):
        desk = Desk(Control(store, engine, who=who), where, who, as_json=as_json)
        with until_told:
            started = await _start(desk, wanted, agent)
            await engine.ensure(started)
            status = await follow(desk, started, shown, driving=True)
    if status == DETACHED:
        _left(desk, started, wanted, agent, workdir)
    return status


def _left(desk: Desk, run: str, wanted: Wanted, agent: Agent, workdir: Path) -> None:
    """Say how the run goes on: with the folder that it has, which another place lacks."""
    folders = [] if workdir == WORKDIR else ["--workdir", shlex.quote(str(workdir))]
    back = desk.command("run", wanted.agent, "--continue", run[:SHOWN], *folders)
    serve = " ".join(["midflight serve", *folders])
    held = f"Left. {run[:SHOWN]} is held where it is; it continues when `{serve}` runs with agent"
    say_left(run, back, f"{held} {agent.name},\nor with: {back}", desk.as_json)
