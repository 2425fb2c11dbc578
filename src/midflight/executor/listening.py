"""Tells a function things: at every call that it makes on its run, and while that call waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from midflight.executor.host import Host
from midflight.executor.in_flight import Waiting
from midflight.kernel.identities import KEYED
from midflight.run import Redirected, Signal

PATIENCE: Final = 3  # signals raised before a function that catches them all waits for ever


class FunctionCalls:
    """The calls of one function on its run: each of them goes through here."""

    __slots__ = ("_signals", "host")

    def __init__(self, host: Host) -> None:
        self.host = host
        self._signals = 0

    def what(self, key: str, unkeyed: str, reusable: bool = True) -> str:
        """Return what the identity of a call is made of: its key, or what it is about."""
        return f"{KEYED}{key}" if key else self.host.history.scoped(unkeyed, reusable=reusable)

    async def listen(self) -> None:
        """Raise what has to be told; a function that will not hear it waits for ever."""
        host = self.host
        if self._signals >= PATIENCE and host.signals.told is not None:
            await anyio.sleep_forever()
        if host.signals.delivering or host.history.tells:
            await host.signals.note_call()
        else:
            host.history.count_call()
        try:
            host.signals.raise_if_told(host.signals.heard)
        except Signal:
            self.note()
            raise

    @asynccontextmanager
    async def turn(self, what: str, called: str) -> AsyncIterator[tuple[str, int]]:
        """Make one call that may wait and is not a step; give its identity and its course."""
        host = self.host
        identity = host.history.identity(what)
        async with self.waiting(identity, called) as call:
            await host.journal.until(
                lambda: not host.history.is_told(identity) or host.signals.is_told(call.course)
            )
            host.signals.raise_if_told(call.course)
            yield identity, call.course
            if not host.history.is_done(identity):  # told of a redirect it has not looked for
                host.signals.raise_if_told(call.course)

    @asynccontextmanager
    async def waiting(self, identity: str, called: str) -> AsyncIterator[Waiting]:
        """While a call waits it can be told things."""
        host = self.host
        with host.in_flight.call(Waiting(identity, called, host.signals.heard)) as call:
            try:
                yield call
            except Signal as signal:
                if isinstance(signal, Redirected):
                    host.history.turn_away(identity, signal)
                self.note()
                raise

    def note(self) -> None:
        """Count one more stop that the function was told: it may ignore them, but not for ever."""
        self._signals += self.host.signals.told is not None
