"""SQL lives in files, each statement with a name and a sentence; this reads them."""

from __future__ import annotations

import re
from importlib import resources
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def script(filename: str) -> str:
    """A whole file: a schema or a migration."""
    return (resources.files("midflight.stores") / "sql" / filename).read_text(encoding="utf-8")


def named(filename: str) -> dict[str, str]:
    """The statements of a file by their names."""
    _, *parts = _NAME.split(script(filename))
    return dict(zip(parts[::2], (body.strip() for body in parts[1::2]), strict=True))
