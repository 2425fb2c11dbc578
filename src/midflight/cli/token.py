"""``midflight token``: a key for a program, shown once and kept as a digest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midflight.cli.desk import JsonOption
from midflight.cli.printing import print, print_json
from midflight.kernel.phases import Role

app = typer.Typer()
KEYS = ".midflight/keys.json"
KeysOption = Annotated[str, typer.Option(metavar="FILE", help="Where keys are kept.")]


@app.command()
def token(
    name: Annotated[str, typer.Argument(help="Who it stands for, in journals and in the audit.")],
    role: Annotated[Role, typer.Option(help="What they may do.")] = Role.CONTROLLER,
    revoke: Annotated[bool, typer.Option("--revoke", help="Make it invalid instead.")] = False,
    save: Annotated[
        bool, typer.Option("--save", help="Keep it where --server finds it, readable by you only.")
    ] = False,
    keys: KeysOption = KEYS,
    as_json: JsonOption = False,
) -> int:
    """Make a token for a program, or revoke one. A server that runs knows of it at once."""
    from midflight.server.keyring import Keyring

    keyring = Keyring(keys)
    if revoke:
        return _revoked(name, keyring.revoke(name), as_json)
    made = keyring.issue(name, role)
    kept = _saved(made) if save else None
    if as_json:
        shown = {"token": made} if kept is None else {"saved": str(kept)}
        print_json({"name": name, "role": role, **shown})
    else:
        print(made if kept is None else f"Saved in {kept}; commands with --server use it.")
    return 0


def _revoked(name: str, there: bool, as_json: bool) -> int:
    if as_json:
        print_json({"name": name, "revoked": there})
    else:
        print(f"{name}: {'revoked' if there else 'there was no such token'}.")
    return 0 if there else 1


def _saved(made: str) -> Path:
    from midflight.remote.tokens import keep_token

    return keep_token(made)
