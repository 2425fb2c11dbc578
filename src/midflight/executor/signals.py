"""The redirects and signals for an agent's function, and those of them that it has heard.

A redirect is told once and at one place: to the calls that waited when it was written down, or
else to the next one. A signal that ends the function is told to every call, whatever it catches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from midflight.executor.in_flight import InFlight, OpenStep, Waiting
from midflight.executor.logbook import RunJournal
from midflight.kernel.phases import Phase
from midflight.run import Redirected, Signal, Stopped


class Signals:
    """One run's signals. ``number`` counts the redirects that were told; a call notes its own."""

    __slots__ = (
        "_delivering", "_in_flight", "_journal", "_on_redirect", "brief", "heard", "number",
        "profile", "signalled", "told",
    )  # fmt: skip

    def __init__(self, journal: RunJournal, in_flight: InFlight) -> None:
        self._journal = journal
        self._in_flight = in_flight
        self._on_redirect: Callable[[str], None] | None = None
        self._delivering = False  # a redirect is being written down
        self.number = 0
        self.heard = 0  # the newest that the function knows of
        self.brief = ""  # as the function sees it
        self.profile = ""
        self.told: Signal | None = None
        self.signalled = False  # the function was given a signal since it was last entered

    @property
    def delivering(self) -> bool:
        """True while a redirect is being written down."""
        return self._delivering

    @contextmanager
    def delivery(self) -> Iterator[Callable[[], None]]:
        """Give a function that says: a redirect is being written down, until the end of this."""

        def begin() -> None:
            self._delivering = True

        try:
            yield begin
        finally:
            self._delivering = False
            self._journal.stir()

    def on_redirect(self, tell: Callable[[str], None] | None) -> None:
        """Have somebody told of each redirect as it is told to the function."""
        self._on_redirect = tell

    def enter(self) -> None:
        """The function is called (again), and knows everything that was told."""
        self.signalled = False
        self._take()

    def is_stopped(self) -> bool:
        """Return whether the function was told to end, or must be: its calls are not waited for."""
        return self._journal.lost or self.told is not None

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
        history = self._journal.history
        self.heard, self.brief, self.profile = self.number, history.brief, history.profile

    def tell(self, signal: Signal) -> None:
        """From here on every call of the function raises this, whatever it catches."""
        if not isinstance(self.told, Stopped):
            self.told = signal
        self._journal.stir()

    def forget(self) -> None:
        """Take the signal back: the function is called anew, or will never be again.

        What was raised knows every frame that it has passed, so it must not be kept.
        """
        self.told = None

    def redirect(self) -> None:
        """The calls that waited raise it, or else the next one; the others are not disturbed."""
        history = self._journal.history
        told = history.redirect()
        if self._on_redirect is not None:
            self._on_redirect(told.brief)
        self.number += 1
        if told.calls:
            self.heard = self.number
        in_flight = self._in_flight
        waiting: list[OpenStep | Waiting] = [*in_flight.steps, *in_flight.waiting.values()]
        for call in waiting:
            waited = not history.is_done(call.identity)
            if not (call.identity in told.calls if told.calls else waited):
                call.follow(self.number)
        self._journal.stir()

    async def note_call(self) -> None:
        """The function makes a call. At replay it hears of a redirect at the same one.

        So none is made while it is being written down which calls wait, and how many there were.
        """
        history = self._journal.history
        if self._delivering:
            await self._journal.until(lambda: not self._delivering or self.told is not None)
        moves = self._journal.state.phase is Phase.RUNNING
        if moves and history.tells and history.redirect_due(self._in_flight.calls):
            self.redirect()
        history.count_call()
