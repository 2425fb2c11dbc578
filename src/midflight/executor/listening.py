"""Tells a function things: at every call that it makes on its run, and while that call waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from midflight.executor.drive import Driver
from midflight.executor.replay import Waiting
from midflight.kernel.identities import KEYED
from midflight.run import Redirected, Signal

PATIENCE: Final = 3  # signals raised before a function that catches them all waits for ever


class Listening:
    """The part of a run that every call of its function goes through."""

    __slots__ = ("_driver", "_signals")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._signals = 0

    def _what(self, key: str, unkeyed: str, reusable: bool = True) -> str:
        return f"{KEYED}{key}" if key else self._driver.replay.scoped(unkeyed, reusable=reusable)

    async def _listen(self) -> None:
        """Raise what has to be told; a function that will not hear it waits for ever."""
        driver = self._driver
        if self._signals >= PATIENCE and driver.course.told is not None:
            await anyio.sleep_forever()
        if driver.course.delivering or driver.replay.tells:
            await driver.course.note_call()
        else:
            driver.replay.calls += 1
        try:
            driver.course.raise_if_told(driver.course.heard)
        except Signal:
            self._note()
            raise

    @asynccontextmanager
    async def _turn(self, what: str, called: str) -> AsyncIterator[tuple[str, int]]:
        """Make one call that may wait and is not a step; give its identity and its course."""
        driver = self._driver
        identity = driver.replay.identity(what)
        async with self._waiting(identity, called) as call:
            await driver.log.until(
                lambda: not driver.replay.is_told(identity) or driver.course.is_told(call.course)
            )
            driver.course.raise_if_told(call.course)
            yield identity, call.course
            if not driver.replay.is_done(identity):  # told of a redirect it has not looked for
                driver.course.raise_if_told(call.course)

    @asynccontextmanager
    async def _waiting(self, identity: str, called: str) -> AsyncIterator[Waiting]:
        """While a call waits it can be told things."""
        driver = self._driver
        driver.working.waiting[identity] = call = Waiting(identity, called, driver.course.heard)
        driver.log.stir()
        try:
            yield call
        except Signal as signal:
            if isinstance(signal, Redirected):
                driver.replay.turn_away(identity, signal)
            self._note()
            raise
        finally:
            del driver.working.waiting[identity]
            driver.log.stir()

    def _note(self) -> None:
        """Count one more stop that the function was told: it may ignore them, but not for ever."""
        self._signals += self._driver.course.told is not None
