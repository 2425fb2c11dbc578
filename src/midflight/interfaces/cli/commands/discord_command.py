"""``midflight discord module:agent``: be on Discord with an agent until told to leave.

Drives the agent in this process, or with ``--attach`` leaves that to a server on the same store.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import anyio
import typer
from msgspec import Struct

from midflight.agents import Agent
from midflight.control import Control, local
from midflight.engines.driver_pool import DRAIN_S
from midflight.engines.local_engine import LEAVING, leaving_on
from midflight.errors import InvalidRequest
from midflight.interfaces.chat.allow_list import People
from midflight.interfaces.cli.arguments import found_at
from midflight.interfaces.cli.console import greeting, print, print_json
from midflight.interfaces.cli.logs import log_to_stderr
from midflight.interfaces.cli.target import JsonOption, StoreOption, check_store, store_of
from midflight.stores.factory import open_store, shown

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
            "nobody would be allowed to talk to it: name somebody with --allow. Nothing was "
            "started."
        )
    log_to_stderr()
    settings = Settings(
        store=store_of(store), workdir=workdir, chats=chats, attach=attach, as_json=as_json
    )
    anyio.run(serving, settings, agents, people, token)
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
