"""What the pictures of the page were taken of: run by ``make pictures`` once all are taken.

Pictures are not compared with the page, which would fail for every letter that a machine draws
otherwise. All sources of the page are: when one of them has changed since, the pictures may show
what is not there any more.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TAKEN_OF = ROOT / "docs/pictures/taken-of.txt"
SOURCES = ROOT / "web/src"


def shown() -> str:
    """A digest of what the page is made of."""
    digest = hashlib.sha256()
    for path in sorted(path for path in SOURCES.rglob("*") if path.is_file()):
        digest.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{digest.hexdigest()}\n"


if __name__ == "__main__":
    TAKEN_OF.write_text(shown(), encoding="utf-8")
