"""Text of others on our screen, made unable to steer the terminal; and long lists, folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

CONTROLS: Final = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
"""Control characters -> their pictures: ESC is shown as one sign."""
DELETE: Final = {0x7F: 0x2421}
UNNAMED: Final = (
    *range(0x80, 0xA0),  # controls of eight bits: CSI alone is one of them
    *range(0x202A, 0x202F),  # embeddings and overrides of the direction
    *range(0x2066, 0x206A),  # isolates
    0x200E,
    0x200F,
    0x061C,  # marks of a direction
    *(0x00AD, 0x034F, 0x115F, 0x1160, 0x180E, 0x200B, 0x3164, 0xFEFF, 0xFFA0),  # show nothing
    *range(0x2060, 0x2066),
    *range(0x206A, 0x2070),
    *range(0xFFF9, 0xFFFC),
    0x2028,
    0x2029,  # line ends that not every terminal takes for one
)
STEERING: Final = CONTROLS | DELETE | dict.fromkeys(UNNAMED, 0xFFFD)
ESCAPES: Final = {code: f"\\u{code:04x}" for code in STEERING}


def visible(text: str) -> str:
    """Return the text with a sign in place of each character that would steer a terminal."""
    return text.replace("\r\n", "\n").translate(STEERING)


def escaped(encoded: str) -> str:
    """Return the same JSON with an escape for each character that would steer a terminal."""
    return encoded.translate(ESCAPES)


FIRST: Final = 5
LAST: Final = 15
SHORT: Final = 40  # a list of so many is shown whole
MARKED_MAX: Final = 20


def folded(count: int, marked: Iterable[int] = (), *, whole: bool = False) -> Iterator[int | range]:
    """Yield the places of a list in order; a range stands for a stretch that is folded.

    ``marked`` are places that are shown wherever they are, the last of them if there are many.
    """
    if whole or count <= SHORT:
        yield from range(count)
        return
    shown = {*range(FIRST), *range(count - LAST, count), *list(marked)[-MARKED_MAX:]}
    after = 0
    for place in sorted(shown):
        if place - after == 1:  # a fold of one entry takes as much room as the entry
            yield after
        elif place > after:
            yield range(after, place)
        yield place
        after = place + 1


def more(hidden: range, noun: str, how: str) -> str:
    """Return the line for a folded stretch: ``… 1,960 more steps (--all)``."""
    return f"… {len(hidden):,} more {noun}{'s' * (len(hidden) != 1)} ({how})"
