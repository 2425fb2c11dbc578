"""The addresses of Restate. Code that speaks to it is elsewhere, and needs further packages."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from midflight.errors import DOTS

INGRESS: Final = "http://127.0.0.1:8080"
ADMIN: Final = "http://127.0.0.1:9070"
SERVICE: Final = "MidflightRun"
_USER_INFO: Final = re.compile(r"(?<=//)[^@\s]*@")


class Restate(Struct, frozen=True, kw_only=True):
    """The addresses of Restate, and the name under which it knows our runs."""

    ingress: str = INGRESS
    admin: str = ADMIN
    service: str = SERVICE


def shown(words: object) -> str:
    """Return words without the names and secrets that addresses in them may hold."""
    return _USER_INFO.sub(f"{DOTS}@", str(words))
