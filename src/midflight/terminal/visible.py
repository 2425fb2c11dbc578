"""Text of others on our screen: shown to the letter, and unable to steer the terminal.

A terminal obeys what it is sent: an escape sequence in somebody's message would clear the screen or
write over it, and a character that turns the direction of reading shows words in another order.
Whoever writes text to a terminal lets it pass here first; styles of ours are added after that.
"""

from __future__ import annotations

from typing import Final

CONTROLS: Final = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
"""To their pictures: ESC is shown as one sign."""
DELETE: Final = {0x7F: 0x2421}
UNNAMED: Final = (
    *range(0x80, 0xA0),  # controls of eight bits: CSI alone is one of them
    *range(0x202A, 0x202F),  # embeddings and overrides of the direction
    *range(0x2066, 0x206A),  # isolates
    0x200E,
    0x200F,
    0x061C,  # marks of a direction
)
STEERING: Final = CONTROLS | DELETE | dict.fromkeys(UNNAMED, 0xFFFD)
ESCAPES: Final = {code: f"\\u{code:04x}" for code in STEERING}


def visible(text: str) -> str:
    """The same text with a sign in place of each character that would steer a terminal."""
    return text.replace("\r\n", "\n").translate(STEERING)


def escaped(encoded: str) -> str:
    """JSON that says the same, and can be shown: what it may hold as it is becomes an escape."""
    return encoded.translate(ESCAPES)
