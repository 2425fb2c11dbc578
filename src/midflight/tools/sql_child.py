"""A query to a SQLite file, in a process of its own that can only read and is bounded.

``sql.py`` starts this file as a program, with the standard library alone, so that it begins
quickly. It reads a question as JSON from its standard input and writes the answer to its output.
The process that started it ends it when time is up: one step of SQLite can take for ever, and
nothing inside the process could end that.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

VALUE_MAX: Final = 10_000_000  # bytes of one value, also in between: zeroblob(1e9) is an attack
DEPTH_MAX: Final = 100
BUSY_S: Final = 5.0
CELL_MAX: Final = 10_000  # characters of one value in an answer
NAME_MAX: Final = 1_000  # characters of a column's name in an answer
COUNTED_MAX: Final = 10_000  # rows that are read only to say how many more there are
FILE_BYTES_MAX: Final = 16_000_000  # a reader may have to make the index of a write-ahead log
FILES_MAX: Final = 64
BESIDES: Final = 400_000_000  # bytes of addresses for everything but what SQLite allocates

Found = tuple[list[str], list[list[Any]], str]
"""Columns, rows, and a note about what is missing."""

READING: Final = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
HARMFUL: Final = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "sqlite_log"}
DESCRIBING: Final = {
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
}


class Kept:
    """The rows of an answer, as far as there is room, and how many more there were."""

    def __init__(self, rows_max: int, bytes_max: int) -> None:
        self.columns: list[str] = []
        self.rows: list[list[Any]] = []
        self._room = bytes_max
        self._rows_max = rows_max
        self._more = 0
        self._cut = False

    @property
    def enough(self) -> bool:
        """True if so many rows are left out that they need not be counted further."""
        return self._more > COUNTED_MAX

    @property
    def note(self) -> str:
        """The missing parts in words: values that are cut, and rows that are not shown."""
        notes = ["long values are cut"] if self._cut else []
        if self._more:
            count = f"more than {COUNTED_MAX:,}" if self.enough else f"{self._more:,}"
            notes.append(f"{count} more rows are not shown")
        return "; ".join(notes)

    def add(self, row: Any) -> None:
        """Take a row, or count it."""
        plain = [self._plain(value) for value in row] if not self._more else []
        size = sum(len(str(value)) for value in plain)
        if self._more or len(self.rows) >= self._rows_max or size > self._room:
            self._more += 1
        else:
            self._room -= size
            self.rows.append(plain)

    def _plain(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int):
            return value if not isinstance(value, int) or abs(value) < 1 << 63 else str(value)
        if isinstance(value, float):
            return value if value == value and abs(value) != float("inf") else str(value)
        text = f"0x{value[:CELL_MAX].hex()}" if isinstance(value, bytes) else str(value)
        if len(text) > CELL_MAX:
            self._cut = True
            return text[:CELL_MAX] + "…"
        return text.encode(errors="replace").decode()


def main() -> None:
    """Answer one question."""
    asked = json.load(sys.stdin)
    _bound_process(asked["memory_bytes_max"])
    kept = Kept(asked["rows_max"], asked["bytes_max"])
    try:
        _ask(asked, kept)
        answer: dict[str, Any] = {"columns": kept.columns, "rows": kept.rows, "note": kept.note}
    except (MemoryError, RecursionError):
        answer = {"error": "out of memory"}
    except (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError) as error:
        answer = {"error": str(error)}
    json.dump(answer, sys.stdout)


def _ask(asked: dict[str, Any], kept: Kept) -> None:
    uri = f"{Path(asked['path']).as_uri()}?mode=ro"
    with closing(
        sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)
    ) as connection:
        _bind_hands(connection, asked["memory_bytes_max"])
        with closing(connection.execute(asked["sql"], asked["params"])) as cursor:
            kept.columns = [column[0][:NAME_MAX] for column in cursor.description or ()]
            for row in cursor:
                kept.add(row)
                if kept.enough:
                    break


def _bind_hands(connection: sqlite3.Connection, memory_bytes_max: int) -> None:
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    # layer query-to-sqlite-sorts-in-bounded
    connection.execute("PRAGMA temp_store = MEMORY")  # a large sort writes no temporary files
    connection.execute("PRAGMA mmap_size = 0")
    connection.execute(f"PRAGMA hard_heap_limit = {memory_bytes_max:d}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_MAX)
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, DEPTH_MAX)
    connection.set_authorizer(_allowed)  # layer sqlite-asked-by-authorizer
    connection.text_factory = lambda data: data.decode(errors="replace")


def _bound_process(memory_bytes_max: int) -> None:
    """Set the system's own limits, for what SQLite does not count."""
    with suppress(ImportError):  # not on every system
        import resource

        for kind, most in (
            (resource.RLIMIT_FSIZE, FILE_BYTES_MAX),
            (resource.RLIMIT_NOFILE, FILES_MAX),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_AS, 2 * memory_bytes_max + BESIDES),
        ):
            with suppress(ValueError, OSError):  # a system that knows it otherwise, or less of it
                resource.setrlimit(kind, (most, most))


def _allowed(
    action: int, first: str | None, second: str | None, _database: str | None, _by: str | None
) -> int:
    """Allow reading tables and their definitions; deny everything else, known or not."""
    fine = (
        action in READING
        or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in HARMFUL)
        or (action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in DESCRIBING)
    )
    return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY


if __name__ == "__main__":
    main()
