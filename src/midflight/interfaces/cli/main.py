"""The command ``midflight``, with the table of its subcommands, each imported when it is called.

An error is one line on standard error and an exit status, and never a traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from midflight.errors import to_install

if TYPE_CHECKING:
    from typer.core import TyperGroup

WORD_SHOWN: Final = 60
ABOUT: Final = "Agents that people can interrupt while they work."


class Place(NamedTuple):
    """One entry of the table: the module of a command, its help, and its panel."""

    module: str
    about: str
    panel: str


COMMANDS: Final = {
    "demo": Place(
        "program_commands", "An agent at work on data of its own: try to interrupt it.", "Begin"
    ),
    "run": Place("run_command", "Run an agent here, or on a server, and watch it.", "Begin"),
    "serve": Place("serve_command", "Drive agents and serve them over HTTP.", "Begin"),
    "worker": Place("worker_command", "Drive agents for servers elsewhere.", "Begin"),
    "discord": Place("door_commands", "Talk to an agent on Discord.", "Begin"),
    "voice": Place("door_commands", "Talk to an agent, with sound from a file.", "Begin"),
    "tui": Place("look_commands", "Watch and steer runs in the terminal.", "Begin"),
    "runs": Place("look_commands", "List runs, newest first.", "Look"),
    "show": Place("look_commands", "How a run stands: steps, questions, receipt.", "Look"),
    "watch": Place("run_command", "Follow a run until it ends.", "Look"),
    "thread": Place("talk_commands", "What was said in a thread, and by whom.", "Look"),
    "todos": Place("talk_commands", "What is still to be done in a thread.", "Look"),
    "pause": Place("control_commands", "Hold a run; resume keeps its context.", "Steer"),
    "resume": Place("control_commands", "Go on where it was.", "Steer"),
    "redirect": Place("control_commands", "Change course: the next step is rewritten.", "Steer"),
    "cancel": Place("control_commands", "Stop: abort, undo, save partial work.", "Steer"),
    "answer": Place("talk_commands", "Answer a question of a run.", "Steer"),
    "raise": Place("control_commands", "Raise a cap; held there, it goes on.", "Steer"),
    "take-over": Place("control_commands", "Do it yourself: the run holds.", "Steer"),
    "hand-back": Place("control_commands", "Give back a run that a person has.", "Steer"),
    "stop-effect": Place("control_commands", "Abort the effect that a pause waits for.", "Steer"),
    "send": Place("talk_commands", "Write to a run while it works.", "Steer"),
    "aside": Place("talk_commands", "Ask about a run without touching it.", "Steer"),
    "overrule": Place("talk_commands", "Want another choice about a message.", "Steer"),
    "edit": Place("talk_commands", "Change a message that nobody has read.", "Steer"),
    "withdraw": Place("talk_commands", "Take back one that nobody has read.", "Steer"),
    "fork": Place("control_commands", "Try again from a step of a run that has ended.", "Steer"),
    "undo": Place("control_commands", "Undo effects of a run that has ended.", "Steer"),
    "kill": Place("control_commands", "Stop everything in a scope at once.", "Operate"),
    "release": Place("control_commands", "Let a scope move again.", "Operate"),
    "recover": Place("control_commands", "Bring a killed run back, paused.", "Operate"),
    "purge": Place("store_commands", "Remove runs that ended long ago.", "Operate"),
    "audit": Place("store_commands", "Export the audit, and check that it is whole.", "Operate"),
    "token": Place("token_command", "A token for a program, or a link for a person.", "Operate"),
    "kit": Place("program_commands", "Measure how well runtimes can be interrupted.", "Operate"),
    "doctor": Place("doctor_command", "See whether everything is in order here.", "Operate"),
}
SERVING: Final = (["serve"], ["worker"], ["discord"], ["demo"])
"""What they print is a greeting: they serve whether anybody reads it or not."""
PANELS: Final = ("Begin", "Look", "Steer", "Operate")


def version_line() -> str:
    """Return the name and the version of the program."""
    from importlib.metadata import version

    return f"midflight {version('midflight')}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_what_is_closed(greets=given[:1] in SERVING)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a character that the terminal lacks is replaced
    try:
        return _helped(given)
    except BrokenPipeError:  # the reader of our output has left
        from midflight.interfaces.cli.console import let_go

        let_go(sys.stdout)
        return os.EX_OK
    finally:
        _drop_unread_words()


def _drop_unread_words() -> None:
    """Drop words for a closed terminal: with them Python would exit with status 120."""
    try:
        sys.stderr.flush()
    except OSError:
        from midflight.interfaces.cli.console import let_go

        let_go(sys.stderr)


def _open_what_is_closed(*, greets: bool) -> None:
    """Open closed standard streams on the null device: a greeting vanishes, an answer fails.

    They take the free numbers, so that no file of ours becomes the standard output.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stdout is None:
        way = os.O_WRONLY if greets else os.O_RDONLY  # or an answer would be lost unsaid
        sys.stdout = os.fdopen(os.open(os.devnull, way), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _helped(given: list[str]) -> int:
    if find_spec("typer") is None:
        return _without_typer(given)
    from midflight.interfaces.cli.console import said

    return said(lambda: _called(given), as_json="--json" in given)


def _called(arguments: list[str]) -> int:
    from midflight.interfaces.cli.console import DONE, ReaderLeft, answering, let_go

    _check_words(arguments)
    try:
        with _visit(arguments):
            outcome = group(arguments).main(arguments, prog_name="midflight", standalone_mode=False)
    except SystemExit as left:  # raised when the reader has left, which is no failure
        if isinstance(left.__context__, BrokenPipeError):
            raise left.__context__ from None
        raise
    try:
        with answering():
            sys.stdout.flush()  # here an error can still be told
    except ReaderLeft:  # at the end: the exit status stays as it is
        let_go(sys.stdout)
    return outcome if isinstance(outcome, int) else DONE


def _visit(arguments: list[str]) -> AbstractContextManager[object]:
    """Say for the audit who works at this terminal; servers and chats say it for their callers."""
    from midflight.audit import Visit, this_process, visiting
    from midflight.interfaces.cli.console import person

    command = arguments[:1]
    own = "" if command in (*SERVING, ["voice"]) else "cli"
    door = "terminal app" if command == ["tui"] else own
    return visiting(Visit(door, this_process(), by=person(), role="operator", home="cli"))


def _check_words(arguments: list[str]) -> None:
    """Refuse arguments that are not UTF-8: they hold surrogates, which cannot be stored."""
    from midflight.errors import InvalidRequest

    for word in arguments:
        halved = any("\ud800" <= char <= "\udfff" for char in word)
        if halved and not os.path.lexists(word):  # files may be named like that
            shown = word.encode("utf-8", "replace").decode()[:WORD_SHOWN]
            raise InvalidRequest(f"{shown!r} is not valid UTF-8: type it again. Nothing was done.")


def group(arguments: Sequence[str] = ()) -> TyperGroup:
    """Return all commands, each by its one line; only the one that is called is imported."""
    import typer
    from typer.core import TyperCommand
    from typer.main import get_command

    from midflight.interfaces.cli import console

    def say_version(asked: bool) -> None:
        if asked:
            console.print(version_line())
            raise typer.Exit

    wanted = typer.Option(
        False, "--version", help="Say which version this is.", callback=say_version, is_eager=True
    )

    def options(version: bool = wanted) -> None: ...

    app = typer.Typer(
        help=ABOUT,
        no_args_is_help=True,
        callback=options,
        epilog=EPILOG,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    found: TyperGroup = get_command(app)  # type: ignore[assignment]  # it has a callback
    called = next((word for word in arguments or _to_complete() if not word.startswith("-")), "")
    for panel in PANELS:
        for name, place in COMMANDS.items():
            if place.panel == panel and name == called:
                found.commands[name] = imported(name)
            elif place.panel == panel:
                found.commands[name] = TyperCommand(name, help=place.about, rich_help_panel=panel)
    return found


def _to_complete() -> list[str]:
    """Return the words that a shell asks us to complete: it does not give them as arguments."""
    if "_MIDFLIGHT_COMPLETE" not in os.environ:
        return []
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return line.split()[1:]


def imported(name: str) -> Any:
    """Import a command, with what it needs."""
    from typer.main import get_group

    module = import_module(f"midflight.interfaces.cli.commands.{COMMANDS[name].module}")
    return get_group(module.app).commands[name]


EPILOG: Final = (
    "Runs are in a store (--store, MIDFLIGHT_STORE, else midflight.db) or on a server (--server, "
    "MIDFLIGHT_SERVER). RUN is an id, the beginning of one, or: last."
)


def _without_typer(given: list[str]) -> int:
    """List the commands, or say what to install, where Typer is missing."""
    needs = to_install("cli")
    if given and given[0] == "--version":
        print(version_line())
        return os.EX_OK
    if given and given[0] not in {"--help", "-h"}:
        print(f"midflight: commands need an extra: {needs}", file=sys.stderr)
        return 5
    print(f"Usage: midflight COMMAND\n\n{ABOUT}")
    for panel in PANELS:
        print(f"\n{panel}")
        for name, place in COMMANDS.items():
            if place.panel == panel:
                print(f"  {name:<12}{place.about}")
    print(f"\nTo use them: {needs}")
    return os.EX_OK
