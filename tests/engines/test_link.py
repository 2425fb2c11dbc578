"""The link between programs that tests disturb: it leaves nothing behind."""

from __future__ import annotations

import gc
import socket
from contextlib import suppress

import anyio.lowlevel
import pytest

from engines.link import linked

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("turns", range(5))
async def test_whoever_connects_while_it_closes_is_hung_up_on(turns: int) -> None:
    async with linked() as link:
        caller = socket.create_connection(("127.0.0.1", link.port))
        for _ in range(turns):  # of the loop: seen, taken, passed on
            await anyio.lowlevel.checkpoint()
    gc.collect()  # what was left open is told as a warning, which fails this test
    with caller:
        caller.settimeout(20)
        with suppress(ConnectionResetError):
            assert caller.recv(1) == b""
