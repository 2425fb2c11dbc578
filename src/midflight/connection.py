"""``midflight.connect``: a client for the runs of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from midflight.client import Client
from midflight.control.remote.link import PATIENCE_S
from midflight.control.remote.remote_control import RemoteControl
from midflight.control.remote.remote_journals import AWAY_S


@asynccontextmanager
async def connect(
    url: str,
    token: str = "",
    *,
    patience_s: float = PATIENCE_S,
    away_s: float = AWAY_S,
    insecure: bool = False,
) -> AsyncIterator[Client]:
    """Control the runs of a server for as long as the block runs; the token says who asks.

    A request is repeated for ``patience_s`` seconds while the server is away, a watch for
    ``away_s``. ``insecure`` lets a token go over plain HTTP to another machine.
    """
    async with RemoteControl.open(
        url, token, patience_s=patience_s, away_s=away_s, insecure=insecure
    ) as control:
        yield Client(control)
