"""Finds the caller's token: in the environment, or in a file that only its owner can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from midflight.errors import NotAdmitted

VARIABLE: Final = "MIDFLIGHT_TOKEN"
FILE_VARIABLE: Final = "MIDFLIGHT_TOKEN_FILE"
SIZE_MAX: Final = 4096


def usual_file() -> Path:
    """Return the path of the file that holds a person's token, unless they name another one."""
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(os.environ.get(FILE_VARIABLE) or Path(config) / "midflight" / "token")


def found_token(path: str | Path | None = None) -> str:
    """Return the token of ``MIDFLIGHT_TOKEN``, or of a file; "" if there is no token.

    A file that other users can read is refused: its token is no secret any more.
    """
    if path is None and (given := os.environ.get(VARIABLE, "").strip()):
        return checked_token(given, VARIABLE)
    place = Path(path) if path is not None else usual_file()
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        if path is None:
            return ""
        raise NotAdmitted(
            f"there is no token file {place}: name the right one, or put the token into "
            "MIDFLIGHT_TOKEN. Nothing was sent."
        ) from None
    except OSError as error:
        raise NotAdmitted(
            f"the token file {place} cannot be read: {error.strerror}. Nothing was sent."
        ) from None
    with os.fdopen(handle, "rb") as file:
        _check(place, os.fstat(file.fileno()))
        token = file.read(SIZE_MAX).decode("ascii", "replace").strip()
    return checked_token(token, str(place))


def checked_token(token: str, place: str) -> str:
    """Return a token that can stand in a request; another is refused, and as a secret not shown."""
    if not (token and token.isascii() and token.isprintable()) or " " in token:
        raise NotAdmitted(
            f"{place} does not hold a token, which is one word of ASCII. Nothing was sent."
        )
    return token


def _check(place: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotAdmitted(
            f"{place} cannot hold a token: it is not an ordinary file. Nothing was sent."
        )
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise NotAdmitted(
            f"other users can read the token file {place}. Run `chmod 600 {place}`, and have a "
            "new token made if somebody may have read it. Nothing was sent."
        )


def keep_token(token: str, path: Path | None = None) -> Path:
    """Write a token where ``found_token`` finds it, readable by nobody else."""
    place = path or usual_file()
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = place.with_name(f".{place.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    fresh.replace(place)
    return place
