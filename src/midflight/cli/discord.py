"""``midflight discord module:agent``: be on Discord with an agent until told to leave.

Drives the agent in this process, or with ``--attach`` leaves that to a server on the same store.
"""

from __future__ import annotations

import importlib
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import TYPE_CHECKING, Final

import anyio

from midflight.channels.people import People
from midflight.cli.logs import log_to_stderr
from midflight.cli.serve import found_at
from midflight.control import Control, local
from midflight.engines.leaving import leaving_on
from midflight.engines.local import DRAIN_S
from midflight.errors import InvalidRequest
from midflight.run import Agent
from midflight.stores.opening import open_store

if TYPE_CHECKING:
    from argparse import _SubParsersAction

TOKEN: Final = "DISCORD_TOKEN"
CLOSE_S: Final = 10.0


def add_to(commands: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    command = commands.add_parser(
        "discord", help=f"talk to an agent on Discord (the bot's token in {TOKEN})"
    )
    command.add_argument("agent", metavar="module:agent", help="who answers in new conversations")
    command.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="USER_ID=[NAME:]ROLE",
        help="may be repeated",
    )
    command.add_argument("--allow-role", action="append", default=[], metavar="ROLE_ID=ROLE")
    command.add_argument(
        "--others", default="", metavar="ROLE", help="what everybody else is (nobody)"
    )
    command.add_argument(
        "--store", default=os.environ.get("MIDFLIGHT_STORE", "midflight.db"), help="(%(default)s)"
    )
    command.add_argument("--workdir", default=".midflight", help="folders of runs (%(default)s)")
    command.add_argument(
        "--chats", default=".midflight/discord", help="what is remembered of chats (%(default)s)"
    )
    command.add_argument(
        "--attach", action="store_true", help="do not drive: a server on this store does"
    )
    command.set_defaults(run=run)


def run(chosen: Namespace) -> int:
    """Be there until told to leave."""
    importlib.import_module("midflight.channels.discord")  # or say which extra it needs
    sys.path.insert(0, "")
    agents = found_at(chosen.agent)
    people = People.listed(chosen.allow, chosen.allow_role, chosen.others)
    token = os.environ.get(TOKEN, "")
    if not token:
        raise InvalidRequest(f"set {TOKEN} to the token of your bot. Nothing was started.")
    if not (chosen.allow or chosen.allow_role or chosen.others):
        raise InvalidRequest(
            "nobody would be allowed to talk to it: name somebody with --allow. Nothing was "
            "started."
        )
    log_to_stderr()
    anyio.run(serving, chosen, agents, people, token)
    return 0


async def serving(chosen: Namespace, agents: list[Agent], people: People, token: str) -> None:
    """Drive and talk until a signal comes."""
    from midflight.channels.discord import DiscordRefused, serve

    refused: DiscordRefused | None = None
    async with (
        leaving_on((SIGTERM, SIGINT), DRAIN_S + CLOSE_S) as until_told,
        _controlling(chosen, agents) as control,
    ):
        print(f"Midflight is on Discord with {agents[0].name}, on {chosen.store}", flush=True)
        with until_told:
            try:
                await serve(
                    control,
                    agents[0],
                    token=token,
                    people=people,
                    folder=chosen.chats,
                    workdir=chosen.workdir,
                )
            except DiscordRefused as error:
                refused = error  # said when runs have come to rest
    if refused is not None:
        raise refused


@asynccontextmanager
async def _controlling(chosen: Namespace, agents: list[Agent]) -> AsyncIterator[Control]:
    if chosen.attach:
        async with open_store(chosen.store) as store:
            yield Control(store)
    else:
        async with local(chosen.store, *agents, workdir=Path(chosen.workdir)) as control:
            yield control
