"""``midflight token``: a key for a program, shown once and kept as a digest."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from midflight.kernel.phases import Role

if TYPE_CHECKING:
    from argparse import _SubParsersAction

KEYS = ".midflight/keys.json"


def add_to(commands: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    command = commands.add_parser("token", help="make a token for a program, or revoke one")
    command.add_argument("name", help="who it stands for, in journals and in the audit")
    command.add_argument("--role", choices=list(Role), default=str(Role.CONTROLLER))
    command.add_argument("--revoke", action="store_true", help="make it invalid instead")
    command.add_argument("--keys", default=KEYS, help="where keys are kept (%(default)s)")
    command.set_defaults(run=run)


def run(chosen: Namespace) -> int:
    """Make or revoke a token. A server that runs knows of it at once."""
    from midflight.server.keyring import Keyring

    keyring = Keyring(chosen.keys)
    if chosen.revoke:
        there = keyring.revoke(chosen.name)
        print(f"{chosen.name}: {'revoked' if there else 'there was no such token'}.")
        return 0 if there else 1
    print(keyring.issue(chosen.name, chosen.role))
    return 0
