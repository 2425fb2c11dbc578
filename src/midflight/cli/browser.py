"""Opening a browser at an address that holds a one-time code.

Every user of a machine can read the command lines of all processes, so the address must not stand
in one. The browser is given a file instead, which only its owner can read and which sends it on.
"""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Callable
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio

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
