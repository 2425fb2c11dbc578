"""What a step says while it works: text so far, that it is still alive, and what it has spent.

``emit`` and ``spend`` may be called anywhere inside a step, also in a thread. What is emitted is
shown at once, is in the journal every two seconds and whenever the step is stopped, and is saved as
partial work by a cancel. What is spent counts against the run's caps, however the step ends.
Outside a step both do nothing, so a tool can be used and tested by itself.
"""

from __future__ import annotations

import codecs
import contextvars
from collections.abc import Callable
from typing import Final, Protocol

from midflight.kernel.record import Usage

_Decoder: Final = codecs.getincrementaldecoder("utf-8")


class Ear(Protocol):
    """Who listens to a step."""

    def hear(self, text: str) -> None:
        """Text so far."""

    def pay(self, usage: Usage) -> None:
        """What was spent."""


_ear: Final = contextvars.ContextVar[Ear | None]("midflight_progress", default=None)


def emit(text: str) -> None:
    """Say what there is so far. An empty text only says that the step is alive."""
    ear = _ear.get()
    if ear is not None:
        ear.hear(text)


def spend(tokens: int, usd: float | None = None) -> None:
    """Say what was used. Without a price it is shown in tokens, and never as a sum of money."""
    ear = _ear.get()
    if ear is not None:
        ear.pay(Usage(tokens=tokens, usd=usd))


def output_of_process() -> Callable[[str, bytes], None] | None:
    """For ``on_output`` of ``run_process``: what is printed is what the step says so far.

    Bound to the step that asks, because output arrives in callbacks of the loop.
    """
    ear = _ear.get()
    if ear is None:
        return None
    streams: dict[str, codecs.IncrementalDecoder] = {}

    def printed(stream: str, data: bytes) -> None:
        decoder = streams.setdefault(stream, _Decoder(errors="replace"))
        ear.hear(decoder.decode(data))  # a character may come in two pieces

    return printed


def listening(ear: Ear) -> contextvars.Token[Ear | None]:
    """From here on, in this context, what is said goes to ``ear``."""
    return _ear.set(ear)


def stop_listening(token: contextvars.Token[Ear | None]) -> None:
    """Undo ``listening``."""
    _ear.reset(token)
