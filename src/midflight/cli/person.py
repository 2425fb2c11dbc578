"""The person who uses this terminal."""

from __future__ import annotations

import getpass


def person() -> str:
    """Return the name of this user, without characters that cannot stand in a name."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = ""
    return "".join(char for char in name if char.isascii() and char.isalnum()) or "operator"
