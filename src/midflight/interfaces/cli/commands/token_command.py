"""``midflight token``: a key for a program or a link for a browser; and addresses of pages."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import SplitResult, urlsplit

import anyio
import idna
import typer

from midflight.errors import InvalidRequest, MidflightError
from midflight.inputs import LOOPBACK
from midflight.interfaces.cli.console import print, print_json
from midflight.interfaces.cli.target import JsonOption, StoreOption, check_store, store_of
from midflight.journal.phases import Role
from midflight.stores import open_store

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
        nothing = "it has no token and no link, so nothing was revoked"
        print(f"{name}: {'revoked' if there else nothing}.")
    return 0 if there else 1


def _saved(made: str) -> Path:
    from midflight.control.remote.link import keep_token

    return keep_token(made)


USUAL_PORTS: Final = {"http": 80, "https": 443}  # that browsers do not name


def page_address(url: str, *, otherwise: str) -> str:
    """Check the address of a page, and return it with a path, so that a code can follow it.

    Nobody on the way may see the code, or the cookie that it becomes. ``otherwise`` ends the words
    of an error: it says what was not done.
    """
    parts = parts_of(url)
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain:
        raise InvalidRequest(
            f"{url!r} is not the address of a page: write it as people open it, such as "
            f"https://agents.example.com, and nothing behind it. {otherwise}"
        )
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise InvalidRequest(
            f"{parts.hostname} is another machine, and over plain HTTP anybody on the network in "
            f"between could come in too. Use https://. {otherwise}"
        )
    return url if parts.path else f"{url}/"


def parts_of(url: str) -> SplitResult:
    """Return the parts of an address; empty parts if it is not a valid one."""
    nowhere = SplitResult("", "", "", "", "")
    try:
        parts = urlsplit(url)
        behind = parts.netloc.rpartition("]")[2] if "]" in parts.netloc else ""
        return nowhere if parts.port == 0 or behind.strip(":0123456789") else parts
    except ValueError:  # half of an IPv6 address, or a port that there is not
        return nowhere


def public_origin(url: str) -> str:
    """Scheme and host under which people open a server, as browsers send them."""
    parts = urlsplit(page_address(url, otherwise="Nothing was started."))
    if parts.path != "/":
        raise InvalidRequest(
            f"{url!r} has a path, and the page is always at the root of its host: write the "
            "address without a path. Nothing was started."
        )
    host = _as_asked_for(url, parts.hostname or "")
    usual = parts.port in {None, USUAL_PORTS[parts.scheme]}
    return f"{parts.scheme}://{host}" + ("" if usual else f":{parts.port}")


def _as_asked_for(url: str, host: str) -> str:
    """A name in the letters that browsers send for it, and an IPv6 address in its brackets."""
    if host.isascii():
        return f"[{host}]" if ":" in host else host
    try:
        return idna.encode(host, uts46=True).decode()
    except idna.IDNAError as error:
        raise InvalidRequest(
            f"{url!r} has no name of a host: {error}. Nothing was started."
        ) from None


KEPT_S: Final = 60.0  # the file, where nobody opens the page
LOOK_S: Final = 0.25  # between two looks whether the code was used
REDIRECT: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>Midflight</title>
<p><a href="{url}">Open Midflight</a></p>
</html>
"""


async def open_privately(url: str, folder: Path, used: Callable[[], bool]) -> None:
    """Open a browser at ``url`` through a file below ``folder``.

    The file is removed once ``used`` returns true, after a minute, or when the caller is cancelled.
    """
    with TemporaryDirectory(dir=folder, prefix="open-") as private:  # made with mode 0700
        file = _written(Path(private), url)
        with anyio.move_on_after(KEPT_S):
            await anyio.to_thread.run_sync(webbrowser.open, file.as_uri(), abandon_on_cancel=True)
            while not used():  # noqa: ASYNC110 - another process may be told of it
                await anyio.sleep(LOOK_S)


def _written(folder: Path, url: str) -> Path:
    file = folder.resolve() / "midflight.html"
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as page:
        page.write(REDIRECT.format(url=escape(url, quote=True)))
    return file
