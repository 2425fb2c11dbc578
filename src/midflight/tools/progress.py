"""What a step says while it works: text so far, and that it is still alive.

``emit`` may be called anywhere inside a step, also in a thread. What it is given is shown at once,
is in the journal every two seconds and whenever the step is stopped, and is saved as partial work
by a cancel. Outside a step it does nothing, so a tool can be used and tested by itself.
"""

from __future__ import annotations

import codecs
import contextvars
from collections.abc import Callable
from typing import Final

Sink = Callable[[str], None]

_Decoder: Final = codecs.getincrementaldecoder("utf-8")
_sink: Final = contextvars.ContextVar[Sink | None]("midflight_progress", default=None)


def emit(text: str) -> None:
    """Say what there is so far. An empty text only says that the step is alive."""
    sink = _sink.get()
    if sink is not None:
        sink(text)


def output_of_process() -> Callable[[str, bytes], None] | None:
    """For ``on_output`` of ``run_process``: what is printed is what the step says so far.

    Bound to the step that asks, because output arrives in callbacks of the loop.
    """
    sink = _sink.get()
    if sink is None:
        return None
    streams: dict[str, codecs.IncrementalDecoder] = {}

    def printed(stream: str, data: bytes) -> None:
        decoder = streams.setdefault(stream, _Decoder(errors="replace"))
        sink(decoder.decode(data))  # a character may come in two pieces

    return printed


def listening(sink: Sink) -> contextvars.Token[Sink | None]:
    """From here on, in this context, what is emitted goes to ``sink``."""
    return _sink.set(sink)


def stop_listening(token: contextvars.Token[Sink | None]) -> None:
    """Undo ``listening``."""
    _sink.reset(token)
