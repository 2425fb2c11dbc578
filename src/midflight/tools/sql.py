"""Questions to a database as a tool that cannot change it, whatever the statement says.

It is the connection that reads only, not a look at the text. SQLite: the file is opened for reading
and an authorizer allows nothing but reading tables. Postgres: one statement, by a protocol that
takes no second one, as a part of a SELECT, in a transaction that was begun read only and is rolled
back. What a *function* may do there depends on the role: give a role that may only read. Superusers
are refused, because for them some functions write files and start programs.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any, Final

import anyio
from msgspec import Struct

from midflight.tools.base import Tool, ToolFailed, ToolRefused, tool

ROWS_MAX: Final = 200
BYTES_MAX: Final = 100_000
COUNTED_MAX: Final = 10_000  # rows that are read only to say how many more there are
TIMEOUT_S: Final = 30.0
CELL_MAX: Final = 10_000  # characters of one value in an answer
SQL_MAX: Final = 100_000

Param = str | int | float | bool | None


class Rows(Struct, frozen=True):
    """What a query has found."""

    columns: list[str]
    rows: list[list[Any]]
    note: str = ""


class SqlReader(Struct, frozen=True):
    """A database to ask: the path of a SQLite file, or ``postgresql://…``."""

    source: str
    name: str = "sql"
    rows_max: int = ROWS_MAX
    bytes_max: int = BYTES_MAX
    timeout_s: float = TIMEOUT_S
    superuser: bool = False

    @property
    def query(self) -> Tool:
        """For a model."""
        declare = tool(effect="read", name=f"{self.name}.query", timeout=self.timeout_s + 15.0)
        return declare(self._query)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The same as a list, like that of other tools."""
        return (self.query,)

    async def _query(self, sql: str, params: list[Param] | None = None) -> Rows:
        """Ask the database with one SELECT statement. It can be read and not changed.

        How tables look: ``SELECT sql FROM sqlite_master`` in SQLite, ``information_schema`` in
        Postgres.

        Values go into ``params``: SQLite takes them at each ?, Postgres at $1, $2 and so on. Of a
        long answer the first rows are given, and how many more there are.
        """
        if len(sql) > SQL_MAX or "\0" in sql:
            raise ToolRefused(f"a statement has at most {SQL_MAX:,} characters and no zero byte.")
        kept = Kept(self.rows_max, self.bytes_max)
        if self.source.startswith(("postgres://", "postgresql://")):
            from midflight.tools.sql_postgres import ask

            await ask(self, sql, params or [], kept)
        else:
            await self._ask_file(sql, params or [], kept)
        return kept.rows()

    async def _ask_file(self, sql: str, params: list[Param], kept: Kept) -> None:
        import sqlite3  # only for those who use it

        from midflight.tools.sql_sqlite import ask

        stop = time.monotonic() + self.timeout_s
        given_up = threading.Event()

        def over() -> bool:
            return given_up.is_set() or time.monotonic() > stop

        try:
            call = partial(ask, self.source, sql, params, kept, over)
            await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
        except sqlite3.OperationalError as error:
            if "interrupted" in str(error):
                raise ToolFailed(f"the query took longer than {self.timeout_s:g} s.") from None
            raise ToolFailed(f"the database says: {error}. It was not changed.") from None
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            raise ToolFailed(f"the database says: {error}. It was not changed.") from None
        finally:
            given_up.set()  # a thread that nobody waits for ends soon


class Kept:
    """The rows of an answer, as far as there is room, and how many more there were."""

    def __init__(self, rows_max: int, bytes_max: int) -> None:
        self.columns: list[str] = []
        self._rows: list[list[Any]] = []
        self._room = bytes_max
        self._rows_max = rows_max
        self._more = 0
        self._cut = False

    @property
    def enough(self) -> bool:
        """Whether counting on would only take time."""
        return self._more > COUNTED_MAX

    def add(self, row: Any) -> None:
        """Take a row, or count it."""
        plain = [self._plain(value) for value in row] if not self._more else []
        size = sum(len(str(value)) for value in plain)
        if self._more or len(self._rows) >= self._rows_max or size > self._room:
            self._more += 1
        else:
            self._room -= size
            self._rows.append(plain)

    def rows(self) -> Rows:
        """All that was kept, with a note about the rest."""
        notes = ["long values are cut"] if self._cut else []
        if self._more:
            count = f"more than {COUNTED_MAX:,}" if self.enough else f"{self._more:,}"
            notes.append(f"{count} more rows are not shown")
        return Rows(self.columns, self._rows, "; ".join(notes))

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
