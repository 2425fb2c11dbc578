"""A program that brings a SQLite file to the next layouts, and stops in the middle of it.

    python migrator.py PATH

Says "half-way" when the first of two steps is taken and the second is not, and waits to be killed.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path

from midflight.stores.sqlite.sqlite_file import connect, migrate
from stores.test_migrations import NEXT_SQLITE


def main(path: Path) -> None:
    def stop_half_way(statement: str) -> None:
        if "half_way" in statement:
            sys.stdout.write("half-way\n")
            sys.stdout.flush()
            time.sleep(60)

    with closing(connect(path, writes=True, busy_s=1.0)) as db:
        db.set_trace_callback(stop_half_way)
        migrate(db, NEXT_SQLITE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
