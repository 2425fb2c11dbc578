"""``midflight voice simulate``: a WAV file talks to an agent, and its answers come back as one."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import anyio
import typer
from msgspec import Struct

from midflight.agents import Agent
from midflight.control import Control, local
from midflight.control.transcript import CUT, UNHEARD
from midflight.errors import InvalidRequest
from midflight.inputs import new_id
from midflight.interfaces.cli.arguments import found_at
from midflight.interfaces.cli.console import DETACHED, person, print, print_json
from midflight.interfaces.cli.target import JsonOption
from midflight.interfaces.terminal.looks import indented
from midflight.journal.record import Actor
from midflight.stores.protocol import THREAD_PREFIX

if TYPE_CHECKING:
    from midflight.interfaces.voice.voice_wire import Shown

app = typer.Typer()
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
