"""Functions that run in processes of their own."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from midflight.tools.declaration import tool
from midflight.tools.secret import Secret


@tool(effect="read", runs="process")
def counts(started: str) -> str:
    """Print, and then hang."""
    sys.stdout.write("one\ntwo\n")
    sys.stderr.write("careful\n")
    Path(started).touch()
    time.sleep(600)
    return "never"


@tool(effect="read", runs="process")
def leaks(secret: Secret) -> str:
    """Print what must not be printed."""
    sys.stdout.write(f"the token is {secret.reveal()}\n")
    raise ValueError(f"refused: {secret.reveal()}")
