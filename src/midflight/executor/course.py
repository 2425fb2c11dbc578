"""The redirects and signals for an agent's function, and those of them that it has heard.

A redirect is told once and at one place: to the calls that waited when it was written down, or
else to the next one. A signal that ends the function is told to every call, whatever it catches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midflight.kernel.phases import Phase
from midflight.run import Redirected, Signal, Stopped

if TYPE_CHECKING:
    from midflight.executor.drive import Driver
    from midflight.executor.replay import Waiting
    from midflight.executor.steps import Step


class Course:
    """One run's course. ``number`` counts the redirects that were told; a call notes its own."""

    __slots__ = (
        "_driver",
        "_log",
        "brief",
        "delivering",
        "heard",
        "number",
        "profile",
        "signalled",
        "told",
    )

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._log = driver.log
        self.number = 0
        self.heard = 0  # the newest that the function knows of
        self.brief = ""  # as the function sees it
        self.profile = ""
        self.delivering = False  # a redirect is being written down
        self.told: Signal | None = None
        self.signalled = False  # the function was given a signal since it was last entered

    def enter(self) -> None:
        """The function is called (again), and knows everything that was told."""
        self.signalled = False
        self._take()

    def is_told(self, number: int) -> bool:
        """Return whether a call made on this course has something to hear."""
        return self.told is not None or number != self.number

    def raise_if_told(self, number: int) -> None:
        """Raise what the function has to know."""
        if self.told is not None:
            self.signalled = True
            raise self.told
        if number != self.number:
            self._take()
            self.signalled = True
            raise Redirected(self.brief)

    def _take(self) -> None:
        replay = self._driver.replay
        self.heard, self.brief, self.profile = self.number, replay.brief, replay.profile

    def tell(self, signal: Signal) -> None:
        """From here on every call of the function raises this, whatever it catches."""
        if not isinstance(self.told, Stopped):
            self.told = signal
        self._log.stir()

    def let_go(self) -> None:
        """The driver is done: it is not to be kept in memory from here."""
        self.told = None  # what was raised knows every frame that it has passed
        del self._driver

    def redirect(self) -> None:
        """The calls that waited raise it, or else the next one; the others are not disturbed."""
        driver, replay = self._driver, self._driver.replay
        told = replay.redirect()
        driver.function.redirected(told.brief)
        self.number += 1
        if told.calls:
            self.heard = self.number
        waiting: list[Step | Waiting] = [*driver.working.steps, *driver.working.waiting.values()]
        for call in waiting:
            waited = not replay.is_done(call.identity)
            if not (call.identity in told.calls if told.calls else waited):
                call.course = self.number
        self._log.stir()

    async def note_call(self) -> None:
        """The function makes a call. At replay it hears of a redirect at the same one.

        So none is made while it is being written down which calls wait, and how many there were.
        """
        driver, replay = self._driver, self._driver.replay
        if self.delivering:
            await self._log.until(lambda: not self.delivering or self.told is not None)
        moves = self._log.state.phase is Phase.RUNNING
        if moves and replay.tells and replay.redirect_due(driver.working.calls):
            self.redirect()
        replay.calls += 1
