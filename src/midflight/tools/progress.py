"""Progress of a step while it works: its text so far, a sign of life, and its spending.

``emit`` and ``spend`` may be called anywhere inside a step, also in a thread. Emitted text is shown
at once, is in the journal every two seconds and whenever the step is stopped, and is saved as
partial work by a cancel. Spending counts against the run's caps, however the step ends.
Outside a step both do nothing, so a tool can be used and tested by itself.
"""

from __future__ import annotations

import codecs
import contextvars
from collections.abc import Callable
from typing import Final, Protocol

from midflight.errors import InvalidRequest
from midflight.journal.record import Usage

COUNTED_MAX: Final = 2**53  # what JSON counts exactly, everywhere
_Decoder: Final = codecs.getincrementaldecoder("utf-8")


class Ear(Protocol):
    """The listener of a step: it takes the step's text and its spending."""

    def hear(self, text: str) -> None:
        """Take the text so far."""

    def pay(self, usage: Usage) -> None:
        """Take what the step has spent."""


listener: Final = contextvars.ContextVar[Ear | None]("midflight_progress", default=None)
"""The ear of the step that this code is in."""


def emit(text: str) -> None:
    """Say what there is so far. An empty text only says that the step is alive."""
    ear = listener.get()
    if ear is not None:
        ear.hear(text)


def spend(tokens: int, usd: float | None = None) -> None:
    """Say what was used. Without a price it is shown in tokens, and never as a sum of money.

    Raises ``InvalidRequest`` for less than nothing, NaN and Infinity, and counts none of it.
    """
    check_usage(Usage(tokens=tokens, usd=usd), "spend")
    ear = listener.get()
    if ear is not None:
        ear.pay(Usage(tokens=tokens, usd=usd))


def check_usage(usage: Usage, what: str) -> None:
    """Raise ``InvalidRequest`` for amounts that cannot be: below zero, NaN or Infinity."""
    if not _is_whole(getattr(usage, "tokens", None)):
        raise InvalidRequest(
            f"{what}: tokens= has to be a whole number, zero or more. Nothing was counted."
        )
    if usage.usd is not None and not _is_sum(usage.usd):
        raise InvalidRequest(
            f"{what}: usd= has to be a sum of money, zero or more, or None. Nothing was counted."
        )


def _is_whole(number: object) -> bool:
    return type(number) is int and 0 <= number <= COUNTED_MAX


def _is_sum(number: object) -> bool:
    return type(number) in {int, float} and 0 <= number <= COUNTED_MAX  # type: ignore[operator]


def output_of_process() -> Callable[[str, bytes], None] | None:
    """Return an ``on_output`` for ``run_process`` that emits what the process prints.

    Bound to the step that asks, because output arrives in callbacks of the loop.
    """
    ear = listener.get()
    if ear is None:
        return None
    streams: dict[str, codecs.IncrementalDecoder] = {}

    def printed(stream: str, data: bytes) -> None:
        decoder = streams.setdefault(stream, _Decoder(errors="replace"))
        ear.hear(decoder.decode(data))  # a character may come in two pieces

    return printed
