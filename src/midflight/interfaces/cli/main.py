"""The command ``midflight``: a subcommand and what it needs are imported when it is called.

An error is one line on standard error and an exit status, and never a traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from midflight.errors import to_install
from midflight.interfaces.cli.command_table import ABOUT, COMMANDS, PANELS, SERVING, version_line

if TYPE_CHECKING:
    from typer.core import TyperGroup

WORD_SHOWN: Final = 60


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
            outcome = group().main(arguments, prog_name="midflight", standalone_mode=False)
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
    from midflight.audit.audit_record import Visit, this_process, visiting
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


def group() -> TyperGroup:
    """All commands, none of them imported yet."""
    import typer
    from typer.main import get_command

    from midflight.interfaces.cli.lazy_commands import Commands, options

    app = typer.Typer(
        cls=Commands,
        help=ABOUT,
        no_args_is_help=True,
        callback=options,
        epilog=EPILOG,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    found: TyperGroup = get_command(app)  # type: ignore[assignment]  # it has a callback
    return found


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
