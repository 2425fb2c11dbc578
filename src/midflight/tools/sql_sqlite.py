"""A query to a SQLite file over a connection that can only read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from midflight.tools.base import ToolRefused

if TYPE_CHECKING:
    from midflight.tools.sql import Kept

STEPS: Final = 10_000  # of SQLite's machine between two looks at the time: about a millisecond
BUSY_S: Final = 5.0
VALUE_MAX: Final = 10_000_000  # bytes of one value, also in between: zeroblob(1e9) is an attack
DEPTH_MAX: Final = 100

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


def ask(source: str, sql: str, params: list[Any], kept: Kept, over: Callable[[], bool]) -> None:
    """Run one statement and keep its rows. Runs in a thread; ends soon when ``over()`` says so."""
    path = Path(source.removeprefix("sqlite:")).absolute()
    if not path.is_file():
        raise ToolRefused(f"there is no database {path.name} at that place.")
    uri = f"{path.as_uri()}?mode=ro"
    with closing(
        sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)
    ) as connection:
        _bind_hands(connection)
        connection.set_progress_handler(lambda: int(over()), STEPS)
        with closing(connection.execute(sql, params)) as cursor:
            kept.columns = [column[0] for column in cursor.description or ()]
            for row in cursor:
                kept.add(row)
                if kept.enough:
                    break


def _bind_hands(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_MAX)
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, DEPTH_MAX)
    connection.set_authorizer(_allowed)
    connection.text_factory = lambda data: data.decode(errors="replace")


def _allowed(
    action: int, first: str | None, second: str | None, _database: str | None, _by: str | None
) -> int:
    """Reading is allowed, and what tells how tables look; all else is not, known or not."""
    fine = (
        action in READING
        or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in HARMFUL)
        or (action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in DESCRIBING)
    )
    return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY
