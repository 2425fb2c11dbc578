"""Text of others on our screen, made unable to steer the terminal.

A terminal obeys what it is sent: an escape sequence in somebody's message would clear the screen or
write over it, and a character that turns the direction of reading shows words in another order. A
character that shows nothing hides that two texts differ. Joiners of scripts and emoji stay: what a
person approves has all of them escaped (``sheets.exact``).
All text passes through here before it is written to a terminal; our own styles are added after.
"""

from __future__ import annotations

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
