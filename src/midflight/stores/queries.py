"""SQL lives in files, each statement with a name and a sentence; this reads them."""

from __future__ import annotations

import re
from importlib import resources
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def script(path: str) -> str:
    """Read a whole file of this package: a schema or a migration."""
    return (resources.files("midflight.stores") / path).read_text(encoding="utf-8")


def named(path: str) -> dict[str, str]:
    """Read the statements of a file, by their names."""
    _, *parts = _NAME.split(script(path))
    return dict(zip(parts[::2], (body.strip() for body in parts[1::2]), strict=True))
