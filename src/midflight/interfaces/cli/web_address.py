"""Addresses that people open in a browser, and opening one that holds a one-time code."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Callable
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import SplitResult, urlsplit

import anyio
import idna

from midflight.errors import InvalidRequest
from midflight.inputs import LOOPBACK

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
            f"{parts.hostname} is another machine, and over plain HTTP everybody on the way could "
            f"come in too. Use https://. {otherwise}"
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
            f"{url!r}: a server is opened at the root of its name, so write it without a path. "
            "Nothing was started."
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
