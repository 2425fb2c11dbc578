"""The edge of the app: what is drawn, by whichever widget, cannot steer the terminal."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from midflight.terminal.visible import STEERING

TAKEN_OUT = dict.fromkeys(STEERING)


class Harmless(LineFilter):
    """Takes out of every line what a terminal would obey; styles are added after it.

    Such a character has no width, so a line stays as long as it was laid out. Who writes a text
    makes it ``visible`` before; this is for the text where somebody has forgotten to.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """See Textual."""
        return [
            Segment(text.translate(TAKEN_OUT), style, control) for text, style, control in segments
        ]
