"""The target of a command: a store of this machine, or a server over HTTP.

``@at_a_desk`` makes a command of an async function that takes a ``Desk`` first: it adds the options
that say where, opens it, and closes it whatever happens.
"""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import anyio
import typer
from msgspec import Struct

from midflight.control import Control
from midflight.errors import InvalidRequest, JournalNotFound, Refused, StoreUnavailable
from midflight.interfaces.cli.console import DONE, Unknown, person
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from midflight.journal.requests import ASIDE
from midflight.stores import open_store
from midflight.stores.protocol import RUN_PREFIX, THREAD_PREFIX, Query, Row

if TYPE_CHECKING:
    from midflight.control.any_control import AnyControl

STORE: Final = "midflight.db"
BEHIND: Final = "\uffff"  # sorts after whatever an id may go on with
LAST: Final = "last"
CALL_PATIENCE_S: Final = 4.0  # a person sits in front of it

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="An id, its beginning, or: last.")]
StoreOption = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help=f"A file, or postgresql://… (MIDFLIGHT_STORE, else {STORE})."
    ),
]
ServerOption = Annotated[
    str,
    typer.Option(metavar="URL", help="A server, as http://127.0.0.1:8321 (MIDFLIGHT_SERVER)."),
]
TokenOption = Annotated[
    str,
    typer.Option(metavar="FILE", help="Where the token is; counts before MIDFLIGHT_TOKEN."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer with JSON.")]


class Where(Struct, frozen=True):
    """The place of the runs, as the options name it: a store, or a server."""

    store: str = ""
    server: str = ""
    token_file: str = ""

    def command(self, *words: str) -> str:
        """A command as a person has to type it to work at the same place."""
        given: list[str] = []
        if self != where_of("", ""):
            options = {"--server": self.server, "--store": "" if self.server else self.store}
            options["--token-file"] = self.token_file
            given = [f"{name} {shlex.quote(said)}" for name, said in options.items() if said]
        return " ".join(["midflight", *words, *given])


class Desk:
    """A control, local or remote, and the person who uses it."""

    def __init__(
        self, control: AnyControl, where: Where, who: Actor | None, *, as_json: bool
    ) -> None:
        self.control = control
        self.where = where
        self.who = who
        self.as_json = as_json

    @property
    def remote(self) -> bool:
        """True if the runs are on a server."""
        return bool(self.where.server)

    @property
    def named(self) -> dict[str, Actor]:
        """The argument ``who`` for verbs; empty over HTTP, where the token says who asks."""
        return {"who": self.who} if self.who is not None else {}

    def command(self, *words: str) -> str:
        """A command as a person has to type it to work at the same desk."""
        return self.where.command(*words)

    async def run(self, named: str) -> str:
        """The run that is meant: an id, the only one that begins so, or the last."""
        return (await self.row(named)).journal

    async def row(self, named: str) -> Row:
        """Return the row of a run."""
        if named == LAST:
            return await self._last()
        given = named if named.startswith(RUN_PREFIX) else RUN_PREFIX + named
        return await self._only(given, "run")

    async def thread(self, named: str) -> str:
        """The thread that is meant, or that of the run that is meant."""
        if named.startswith(THREAD_PREFIX):
            return (await self._only(named, "thread")).journal
        return (await self.row(named)).thread

    async def _last(self) -> Row:
        before = ""
        while rows := await self.control.runs(Query(before=before, limit=50)):
            for row in rows:
                if not (row.parent or row.agent.endswith(ASIDE)):
                    return row
            before = rows[-1].journal
        raise Unknown("nothing has run yet. Begin with: midflight run MODULE:AGENT BRIEF")

    async def _only(self, begins: str, kind: str) -> Row:
        rows = await self.control.runs(Query(kind=kind, before=begins + BEHIND, limit=3))
        fitting = [row for row in rows if row.journal.startswith(begins)]
        exact = [row for row in fitting if row.journal == begins]
        if len(exact or fitting) == 1:
            return (exact or fitting)[0]
        if not fitting:
            raise Unknown(
                f"there is no {kind} {begins}; see {self.command('runs')}. Nothing was changed."
            )
        some = ", ".join(row.journal for row in fitting)
        raise Unknown(
            f"{begins} is the beginning of several ids: {some}. Write more of it. Nothing was "
            "changed."
        )

    async def driven(self, run: str) -> bool:
        """Return whether somebody drives the run now; for runs of a server this is assumed."""
        if not isinstance(self.control, Control):
            return True
        try:
            row = await self.control.store.row(run)
        except JournalNotFound:
            return False
        return bool(row.driver) and not await self.control.store.lease_gone(row.driver)


@asynccontextmanager
async def opened(
    where: Where, *, as_json: bool = False, patience_s: float = CALL_PATIENCE_S, **more: Any
) -> AsyncIterator[Desk]:
    """Open the store or the way to the server, for as long as the block runs."""
    if where.server:
        from midflight.control.remote import RemoteControl, found_token

        token = found_token(where.token_file or None)
        insecure = os.environ.get("MIDFLIGHT_INSECURE") == "1"
        async with RemoteControl.open(
            where.server, token, patience_s=patience_s, insecure=insecure, **more
        ) as remote:
            yield Desk(remote, where, None, as_json=as_json)
        return
    check_store(where.store)
    who = Actor(by=person(), role=Role.OPERATOR, channel="cli")
    async with open_store(where.store) as store:
        yield Desk(Control(store, who=who), where, who, as_json=as_json)


def has_store(path: str) -> bool:
    """Return whether there is a file of that name."""
    return Path(path).exists()


def check_store(address: str) -> None:
    """Refuse a store that does not exist, because opening it would make one."""
    if address in {":memory:", "memory:"}:
        raise InvalidRequest(
            "a store in memory ends with its process, so another process cannot see it: name a "
            "file with --store. Nothing was done."
        )
    kind, colon, _ = address.partition(":")
    if not colon or kind in {"sqlite", "file"}:
        path = address.removeprefix(f"{kind}:").removeprefix("//") if colon else address
        if not has_store(path):
            raise StoreUnavailable(
                f"there is no store {path} here. Name one with --store, or a server with --server; "
                "midflight run and midflight serve make one. Nothing was done."
            )


def where_of(store: str, server: str, token_file: str = "") -> Where:
    """Return the place of the runs: as the options say, or else as the environment does."""
    if store and server:
        raise InvalidRequest("give either --store or --server, not both. Nothing was done.")
    if not (store or server):
        server = os.environ.get("MIDFLIGHT_SERVER", "")
    return Where("" if server else store_of(store), server, token_file)


def store_of(said: str) -> str:
    """Return the address of the store: as given, else of the environment, else the usual one."""
    return said or os.environ.get("MIDFLIGHT_STORE") or STORE


def quick_loop() -> dict[str, bool]:
    """Return options of ``anyio.run``: what drives runs uses uvloop where it is installed."""
    return {"use_uvloop": find_spec("uvloop") is not None}


WRITTEN: Final = ("text", "payload", "note")
"""The arguments in which a person has written something that a refusal must not lose."""
Work = Callable[..., Awaitable[int | None]]


def at_a_desk(app: typer.Typer, *, name: str = "") -> Callable[[Work], Work]:
    """Add a command that works at a desk."""

    def add(work: Work) -> Work:
        @wraps(work)
        def command(**given: Any) -> int:
            as_json = given.pop("as_json")
            where = where_of(given.pop("store"), given.pop("server"), given.pop("token_file"))

            async def seated() -> int:
                async with opened(where, as_json=as_json) as desk:
                    return await work(desk, **given) or DONE

            try:
                return anyio.run(seated)
            except Refused as error:
                written = next((given[name] for name in WRITTEN if given.get(name)), "")
                if written and not as_json:
                    error.add_note(f"You wrote: {written}")
                raise

        own = list(inspect.signature(work, eval_str=True).parameters.values())[1:]
        added = {"store": StoreOption, "server": ServerOption, "token_file": TokenOption}
        places = [_option(option, kind, "") for option, kind in added.items()]
        places.append(_option("as_json", JsonOption, False))
        command.__signature__ = inspect.Signature([*own, *places])  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in [*own, *places]}
        app.command(name or None)(command)
        return work

    return add


def _option(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
