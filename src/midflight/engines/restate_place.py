"""Where Restate is. Apart from what speaks to it, which needs packages that not everybody has."""

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
    """Where Restate is, and under which name it knows our runs."""

    ingress: str = INGRESS
    admin: str = ADMIN
    service: str = SERVICE


def shown(words: object) -> str:
    """An address, or words with addresses in them, without who may speak there and their secret."""
    return _USER_INFO.sub(f"{DOTS}@", str(words))
