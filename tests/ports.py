"""Ports for servers that are started later, or die and come back."""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from typing import Final

PORTS: Final = range(20_000, 32_000)
CHANCE: Final = random.SystemRandom()  # no two processes choose alike


def free_port() -> int:
    """One that nobody listens on at this moment, nor is given until somebody else asks for it.

    Where a system has the choice, as for whoever connects, it takes a port above all of these.
    """
    for port in CHANCE.sample(PORTS, 100):
        with suppress(OSError), socket.socket() as one:
            one.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"somebody listens on every one of a hundred ports of {PORTS}")
