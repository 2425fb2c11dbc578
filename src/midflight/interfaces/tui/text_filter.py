"""A filter at the edge of the app: no text that any widget draws can steer the terminal."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from midflight.interfaces.terminal.safe_text import STEERING

TAKEN_OUT = dict.fromkeys(STEERING)


class Harmless(LineFilter):
    """Takes the characters that a terminal would obey out of every line; styles are added later.

    Such a character has no width, so a line stays as long as it was laid out. Widgets make
    their text ``visible`` first; the filter is for text where that was forgotten.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """See Textual."""
        return [
            Segment(text.translate(TAKEN_OUT), style, control) for text, style, control in segments
        ]
