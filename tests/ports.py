"""Ports for servers that are started later, or die and come back."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

EACH: Final = 4_000
WORKER: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
FIRST: Final = 20_000 + EACH * (WORKER % 3)
"""Of those that workers of one suite have for themselves; two suites may run on a machine."""


def _in_any_order() -> Iterator[int]:
    ports = list(range(FIRST, FIRST + EACH))
    random.SystemRandom().shuffle(ports)  # no two processes choose alike
    yield from ports


_ports: Final = _in_any_order()


def free_port() -> int:
    """One that nobody listens on at this moment, and that was never given to anybody here before.

    Whoever it is given to may leave it and come back, and who has called there may remember it.
    Where a system has the choice, as for whoever connects, it takes a port above all of these.
    """
    for port in _ports:
        with suppress(OSError), socket.socket() as one:
            one.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"all {EACH} ports from {FIRST} on were given, or somebody listens there")
