"""What the pictures of the page were taken of: run by ``make pictures`` once all are taken.

Pictures are not compared with the page, which would fail for every letter that a machine draws
otherwise. The sources that decide what is to be seen are: when they have changed since, the
pictures may show what is not there any more.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TAKEN_OF = ROOT / "docs/pictures/taken-of.txt"
SHOWN = ("web/src/styles/*.css", "web/src/ui/*.tsx", "web/src/model/bar.ts")


def shown() -> str:
    """A digest of what decides how the page looks."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in SHOWN for path in ROOT.glob(pattern)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"{digest.hexdigest()}\n"


if __name__ == "__main__":
    TAKEN_OF.write_text(shown(), encoding="utf-8")
