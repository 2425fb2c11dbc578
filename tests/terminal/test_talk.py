"""A conversation as a terminal tells it."""

from __future__ import annotations

import pytest

from midflight.control.transcript import CUT, UNHEARD, Line
from midflight.interfaces.terminal import looks


@pytest.mark.parametrize(
    ("line", "who"),
    [
        (Line(3, 0.0, "said: text", "The sales were"), "agent"),
        (Line(3, 0.0, "said: text", "The sales were", status=CUT), "agent, cut short"),
        (Line(4, 0.0, "said: partial", "The sales were 7", said="partial"), "partial"),
        (
            Line(4, 0.0, "said: partial", "The sales were 7", status=UNHEARD, said="partial"),
            "partial, not all of it heard",
        ),
    ],
)
def test_who_reads_what_was_spoken_is_told_if_it_was_not_heard_to_its_end(
    line: Line, who: str
) -> None:
    told = looks.told(line)

    assert told is not None
    assert (told.who, told.text) == (who, line.text)
