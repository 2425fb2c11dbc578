"""``midflight token``: a key for a program or a link for a browser, kept as a digest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from midflight.errors import InvalidRequest, MidflightError
from midflight.interfaces.cli.console import print, print_json
from midflight.interfaces.cli.target import JsonOption, StoreOption, check_store, store_of
from midflight.interfaces.cli.web_address import page_address
from midflight.journal.phases import Role
from midflight.stores.factory import open_store

if TYPE_CHECKING:
    from midflight.interfaces.http.access.keyring import Keyring

app = typer.Typer()
KEYS = ".midflight/keys.json"
KeysOption = Annotated[str, typer.Option(metavar="FILE", help="Where keys are kept.")]


def keyring_at(keys: str, *, otherwise: str) -> Keyring:
    """Return the keys of a writable file; ``otherwise`` says in an error what was not done."""
    from midflight.interfaces.http.access.keyring import Keyring

    try:
        keyring = Keyring(keys)
        keyring.prepare()
    except OSError as error:
        raise InvalidRequest(
            f"{keys} cannot be read or written: {error.strerror}. Name another file with --keys. "
            f"{otherwise}"
        ) from None
    return keyring


@app.command()
def token(
    name: Annotated[str, typer.Argument(help="Who it stands for, in journals and in the audit.")],
    role: Annotated[Role, typer.Option(help="What they may do.")] = Role.CONTROLLER,
    revoke: Annotated[bool, typer.Option("--revoke", help="Make it invalid instead.")] = False,
    save: Annotated[
        bool, typer.Option("--save", help="Keep it where --server finds it, readable by you only.")
    ] = False,
    link: Annotated[
        str, typer.Option(metavar="URL", help="Make a link to this page instead, for one browser.")
    ] = "",
    keys: KeysOption = KEYS,
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> int:
    """Make a token for a program, or a link for a person; or revoke what a name was given."""
    page = _linked_page(link, save=save, revoke=revoke) if link else ""
    if store:
        check_store(store)  # before a key is made that nobody is shown
    new = not Path(keys).exists()
    keyring = keyring_at(keys, otherwise="No key was made or revoked.")
    if new and not as_json:
        print(
            f"Made {keys}: a server knows of what is in it if it was started with this file "
            "(--keys).",
            file=sys.stderr,
        )
    if page:
        code = keyring.code(name, role)
        _record(keyring, store)
        return _linked(name, role, f"{page}#code={code}", as_json)
    if revoke:
        there = keyring.revoke(name)
        _record(keyring, store)
        return _revoked(name, there, as_json)
    made = keyring.issue(name, role)
    _record(keyring, store)
    kept = _saved(made) if save else None
    if as_json:
        shown = {"token": made} if kept is None else {"saved": str(kept)}
        print_json({"name": name, "role": role, **shown})
    else:
        print(made if kept is None else f"Saved in {kept}; commands with --server use it.")
    return 0


def _record(keyring: Keyring, store: str) -> None:
    """Put the change into the audit of the store, if there is one here.

    Otherwise it stays with the keys, and a server that is started with them puts it there.
    """
    address = store_of(store)
    try:
        check_store(address)
    except MidflightError:
        return
    try:
        anyio.run(_recorded, keyring, address)
    except (MidflightError, OSError) as error:
        told = "The change is not in the audit yet; it is kept with the keys until it can be."
        print(f"{told} {error}", file=sys.stderr)


async def _recorded(keyring: Keyring, address: str) -> None:
    changes = keyring.changes()
    async with open_store(address) as opened:
        await opened.audit(*changes)
    keyring.forget_changes([change.id for change in changes])


def _linked_page(url: str, *, save: bool, revoke: bool) -> str:
    if save or revoke:
        raise InvalidRequest(
            f"--link makes a link for a browser, and {'--save' if save else '--revoke'} is about "
            "tokens: use one of them. No key was made."
        )
    return page_address(url, otherwise="No key was made.")


def _linked(name: str, role: Role, url: str, as_json: bool) -> int:
    if as_json:
        print_json({"name": name, "role": role, "link": url})
    else:
        print(url, flush=True)
        print(
            f"It lets one browser in as {name} ({role}), once, within ten minutes.", file=sys.stderr
        )
    return 0


def _revoked(name: str, there: bool, as_json: bool) -> int:
    if as_json:
        print_json({"name": name, "revoked": there})
    else:
        print(f"{name}: {'revoked' if there else 'there was no such token'}.")
    return 0 if there else 1


def _saved(made: str) -> Path:
    from midflight.control.remote.link import keep_token

    return keep_token(made)
