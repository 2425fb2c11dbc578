"""Ends a run whose driver fails again and again: it must not be tried for ever.

Every try may repeat a read or a call of a model that nobody asked for. So after a few tries the run
fails, with a sentence that says why. A run that we cannot end is left alone until somebody changes
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from midflight.journal import events as e
from midflight.journal.facts import claim
from midflight.journal.phases import Phase
from midflight.journal.record import Event
from midflight.journal.state import RunState
from midflight.runtime.foreign import words
from midflight.runtime.journal_client import TROUBLE

TRIES: Final = 5
FORGET_S: Final = 600.0  # failures that lie further apart have nothing to do with each other
ENDABLE: Final = {Phase.QUEUED, Phase.RUNNING, Phase.PAUSING, Phase.WAITING, Phase.CANCELLING}


STUCK: Final = (
    f"The cancel failed {TRIES} times and is not tried again by itself: not everything is undone. "
    "Cancel it with now=True, which undoes nothing more, or start the process again. The error:"
)


class Failures(Struct):
    """The failures of a run's driver in this process. ``head`` is set once there were enough."""

    times: int = 0
    at: float = 0.0
    head: int | None = None

    def count(self, now: float) -> bool:
        """Count one more, and return whether that is enough."""
        self.times = self.times + 1 if now - self.at < FORGET_S else 1
        self.at = now
        return self.times >= TRIES


def causes(error: BaseException) -> Iterator[BaseException]:
    """Give the errors of which a group consists."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from causes(inner)
    else:
        yield error


def is_trouble(error: BaseException) -> bool:
    """Return whether only the store is to blame: it may be mended, and then the run goes on."""
    return all(isinstance(cause, TROUBLE) for cause in causes(error))


def given_up(state: RunState, driver: str, error: BaseException) -> tuple[Event, ...]:
    """Return what ends a run that its own driver has given up; empty where that is not possible.

    Claiming it again settles what was in flight: nobody knows how that ended. A run that is being
    cancelled is not ended: its effects are not undone yet, and its background runs may still work.
    It says what has failed, and waits until somebody stops it for good.
    """
    if state.phase not in ENDABLE or state.driver not in {"", driver} or state.opaque:
        return ()
    epoch, told = state.epoch + 1, next(causes(error), error)
    claimed = claim(state, driver, lease_gone=False)
    released = e.DriverReleased(epoch=epoch, why="given up")
    if state.phase is Phase.CANCELLING:
        words_now = f"{STUCK} {words(told)}"
        return (*claimed, e.NoticeGiven(epoch=epoch, kind="given_up", text=words_now), released)
    sentence = f"its driver failed {TRIES} times, and it was given up: {words(told)}"
    return (
        *claimed,
        *([e.WaitEnded(epoch=epoch)] if state.phase is Phase.WAITING else []),
        *_delivered(state, epoch),
        e.RunFinished(epoch=epoch, outcome="failed", error=sentence),
        released,
    )


def _delivered(state: RunState, epoch: int) -> Iterator[Event]:
    """A run ends only when what was asked of it has been told."""
    if "redirect" in state.pending.values() and state.redirect is not None:
        brief, profile = state.redirect
        yield e.RedirectDelivered(
            epoch=epoch, upto=state.head, brief=brief, profile=profile, diff=""
        )
