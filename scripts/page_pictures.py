"""Note which page the pictures show: run by ``make pictures`` once all are taken.

Pictures are not compared with the page, which would fail for every letter that a machine draws
otherwise. The built page is: when a file of it has changed since, the pictures may show something
that is not there any more.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TAKEN_OF = ROOT / "docs/pictures/taken-of.txt"
BUILT = ROOT / "src/midflight/_web"


def shown() -> str:
    """Return a digest of the built page."""
    digest = hashlib.sha256()
    for path in sorted(path for path in BUILT.rglob("*") if path.is_file()):
        digest.update(path.relative_to(BUILT).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{digest.hexdigest()}\n"


if __name__ == "__main__":
    TAKEN_OF.write_text(shown(), encoding="utf-8")
