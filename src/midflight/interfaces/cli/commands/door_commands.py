"""Talking to an agent elsewhere: ``midflight discord``, and ``midflight voice`` with a WAV file."""

from __future__ import annotations

import importlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import anyio
import typer
from msgspec import Struct

from midflight.agents import Agent
from midflight.control import Control, local
from midflight.control.transcript import CUT, UNHEARD
from midflight.engines.driver_pool import DRAIN_S
from midflight.engines.local_engine import LEAVING, leaving_on
from midflight.errors import InvalidRequest
from midflight.inputs import new_id
from midflight.interfaces.chat.channel import People
from midflight.interfaces.cli.arguments import found_at
from midflight.interfaces.cli.console import (
    DETACHED,
    greeting,
    log_to_stderr,
    person,
    print,
    print_json,
)
from midflight.interfaces.cli.target import (
    JsonOption,
    StoreOption,
    check_store,
    quick_loop,
    store_of,
)
from midflight.interfaces.terminal.looks import indented
from midflight.journal.record import Actor
from midflight.stores import open_store, shown
from midflight.stores.protocol import THREAD_PREFIX

if TYPE_CHECKING:
    from midflight.interfaces.voice.voice_wire import Shown


app = typer.Typer()
TOKEN: Final = "DISCORD_TOKEN"
CLOSE_S: Final = 10.0


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of the bot, as they were given at the start."""

    store: str
    workdir: str
    chats: str
    attach: bool
    as_json: bool


@app.command()
def discord(
    agent: Annotated[
        str, typer.Argument(metavar="MODULE:AGENT", help="Who answers in new conversations.")
    ],
    allow: Annotated[
        list[str], typer.Option(metavar="USER_ID=[NAME:]ROLE", help="Who may use it.")
    ] = [],  # noqa: B006 - read and never changed
    allow_role: Annotated[
        list[str], typer.Option(metavar="ROLE_ID=ROLE", help="Whoever has this role there.")
    ] = [],  # noqa: B006 - read and never changed
    others: Annotated[str, typer.Option(metavar="ROLE", help="What everybody else is.")] = "",
    store: StoreOption = "",
    workdir: Annotated[str, typer.Option(help="Where runs have their folders.")] = ".midflight",
    chats: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where it is kept what chats were told.")
    ] = ".midflight/discord",
    attach: Annotated[
        bool, typer.Option("--attach", help="Do not drive: a server on this store does.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Talk to an agent on Discord, with the bot's token in DISCORD_TOKEN, until Ctrl-C."""
    importlib.import_module("midflight.interfaces.chat.discord_bot")  # or say which extra it needs
    agents = found_at(agent)
    people = People.listed(allow, allow_role, others)
    token = os.environ.get(TOKEN, "")
    if not token:
        raise InvalidRequest(f"set {TOKEN} to the token of your bot. Nothing was started.")
    if not (allow or allow_role or others):
        raise InvalidRequest(
            "nobody would be allowed to talk to the agent: name somebody with --allow. Nothing was "
            "started."
        )
    log_to_stderr()
    settings = Settings(
        store=store_of(store), workdir=workdir, chats=chats, attach=attach, as_json=as_json
    )
    anyio.run(serving, settings, agents, people, token, backend_options=quick_loop())
    return 0


async def serving(settings: Settings, agents: list[Agent], people: People, token: str) -> None:
    """Drive and talk until a signal comes."""
    from midflight.interfaces.chat.discord_bot import DiscordRefused, serve

    refused: DiscordRefused | None = None
    async with (
        leaving_on(LEAVING, DRAIN_S + CLOSE_S) as until_told,
        _controlling(settings, agents) as control,
    ):
        with until_told:
            try:
                await serve(
                    control,
                    agents[0],
                    token=token,
                    people=people,
                    folder=settings.chats,
                    workdir=settings.workdir,
                    greet=partial(_greet, settings, agents[0].name),
                )
            except DiscordRefused as error:
                refused = error  # said when runs have come to rest
    if refused is not None:
        raise refused


def _greet(settings: Settings, agent: str, name: str) -> None:
    store = shown(settings.store)
    told = {"name": name, "agent": agent, "store": store, "drives": not settings.attach}
    with greeting():
        if settings.as_json:
            print_json(told)
        else:
            print(f"Midflight is on Discord as {name}, with {agent}, on {store}")


@asynccontextmanager
async def _controlling(settings: Settings, agents: list[Agent]) -> AsyncIterator[Control]:
    if settings.attach:
        check_store(settings.store)
        async with open_store(settings.store) as store:
            yield Control(store)
    else:
        async with local(settings.store, *agents, workdir=Path(settings.workdir)) as control:
            yield control


voice = typer.Typer(help="Talk to an agent.", no_args_is_help=True)
app.add_typer(voice, name="voice")
LONGEST_S: Final = 600.0  # of waiting for an agent's last word


class Options(Struct, frozen=True, kw_only=True):
    """The options of the command."""

    store: str
    workdir: str
    thread: str
    out: str
    voice: str
    real_time: bool
    as_json: bool


@voice.callback()
def about() -> None:
    """Talk to an agent."""


@voice.command()
def simulate(
    agent: Annotated[str, typer.Argument(metavar="MODULE:AGENT", help="Who is talked to.")],
    sound: Annotated[str, typer.Argument(metavar="IN.wav", help="What the person says.")],
    out: Annotated[str, typer.Option(metavar="OUT.wav", help="Both, one on each side.")] = "",
    thread: Annotated[str, typer.Option(help="A conversation to go on with.")] = "",
    store: Annotated[str, typer.Option(metavar="ADDRESS", help="Where it is kept.")] = "memory:",
    workdir: Annotated[str, typer.Option(help="Where runs have their folders.")] = ".midflight",
    speaker: Annotated[str, typer.Option("--voice", help="A voice of espeak-ng.")] = "en-us",
    real_time: Annotated[
        bool, typer.Option("--real-time", help="As long as it takes in the world.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Let a WAV file talk to an agent; show who spoke when and what came of it."""
    importlib.import_module("midflight.interfaces.voice")  # or say which extra it needs
    from midflight.interfaces.voice.speech.speech_engines import read_wav

    agents = found_at(agent)
    pcm = read_wav(Path(sound))
    options = Options(
        store=store,
        workdir=workdir,
        thread=thread or THREAD_PREFIX + new_id(),
        out=out,
        voice=speaker,
        real_time=real_time,
        as_json=as_json,
    )
    return anyio.run(_simulate, options, agents, pcm)


async def _simulate(options: Options, agents: list[Agent], pcm: bytes) -> int:
    from midflight.interfaces.voice.line import line_to
    from midflight.interfaces.voice.room import Room, RoomSink
    from midflight.interfaces.voice.speech.offline_engines import offline_engines
    from midflight.interfaces.voice.speech.speech_engines import both_sides

    engines = await anyio.to_thread.run_sync(offline_engines, options.voice)
    who, sink, told = Actor(person(), channel="voice"), RoomSink(), _Told(options.as_json)
    room: Room | None = None
    status = DETACHED
    async with (
        local(options.store, *agents, workdir=options.workdir, signals=True) as control,
        line_to(
            control,
            agents[0],
            options.thread,
            who=who,
            engines=engines,
            sink=sink,
            show=told.show,
        ) as line,
    ):
        room = told.room = Room(line, sink, pace=1.0 if options.real_time else 0.0)
        await room.hear(pcm)
        await room.until_silent(seconds=2.0, at_most=LONGEST_S)
        await _print_transcript(control, options)
        status = 0
    if options.out and room is not None:
        _write(options.out, both_sides(bytes(room.spoken), bytes(sink.track)))
    return status


def _write(path: str, wav: bytes) -> None:
    try:
        Path(path).write_bytes(wav)
    except OSError as error:
        why = f"{path} cannot be written: {error.strerror}. The talk itself took place."
        raise InvalidRequest(why) from None


class _Told:
    """Prints what a screen would show, with the room's time."""

    def __init__(self, as_json: bool) -> None:
        self.room: object = None
        self._as_json = as_json

    def show(self, shown: Shown) -> None:
        from midflight.interfaces.voice.room import Room
        from midflight.interfaces.voice.voice_wire import in_words

        now = self.room.now if isinstance(self.room, Room) else 0.0
        if self._as_json:
            print_json({"at": round(now, 3), "shown": shown})
        else:
            print(f"{now:7.2f}  {indented(in_words(shown), 9)}", flush=True)


async def _print_transcript(control: Control, options: Options) -> None:
    lines = [line for line in await control.transcript(options.thread) if line.text or line.status]
    if options.as_json:
        print_json({"thread": options.thread, "transcript": lines})
        return
    print(f"\n{options.thread}")
    for line in lines:
        cut = f" [{line.status}]" if line.status in {CUT, UNHEARD} else ""
        print(f"  {line.by or 'agent'}: {indented(line.text)}{cut}")
