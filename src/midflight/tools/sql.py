"""Questions to a database as a tool that cannot change it, whatever the statement says.

The connection reads only; the statement is not inspected for that. SQLite: the file is opened for
reading and an authorizer allows nothing but reading tables, in a process that is bounded in memory
and files and is ended when time is up. Postgres: one statement, by a protocol that takes no second
one, as a part of a SELECT, in a transaction that was begun read only and is rolled back. There the
role decides what a *function* may do: give a role that may only read. Superusers are refused,
because for them some functions write files and start programs.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from midflight.tools.declaration import Tool, ToolRefused, tool
from midflight.tools.sql_sources import Source, ask_postgres, ask_sqlite

SQL_MAX: Final = 100_000

Param = str | int | float | bool | None


class Rows(Struct, frozen=True):
    """The result of a query."""

    columns: list[str]
    rows: list[list[Any]]
    note: str = ""


class SqlReader(Source, frozen=True):
    """A database to ask: the path of a SQLite file, or ``postgresql://…``."""

    @property
    def query(self) -> Tool:
        """The tool for a model."""
        declare = tool(
            effect="read",
            name=f"{self.name}.query",
            timeout=self.timeout_s + 15.0,
            untrusted=self.untrusted,
        )
        return declare(self._query)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tool in a list, as other classes of tools give theirs."""
        return (self.query,)

    async def _query(self, sql: str, params: list[Param] | None = None) -> Rows:
        """Ask the database with one SELECT statement. It can be read and not changed.

        How tables look: ``SELECT sql FROM sqlite_master`` in SQLite, ``information_schema`` in
        Postgres.

        Values go into ``params``: SQLite takes them at each ?, Postgres at $1, $2 and so on. Of a
        long answer the first rows are given, and how many more there are.
        """
        if len(sql) > SQL_MAX or "\0" in sql:
            raise ToolRefused(
                f"the statement is longer than {SQL_MAX:,} characters, or has a zero byte in it. "
                "Nothing was asked."
            )
        if self.source.startswith(("postgres://", "postgresql://")):
            found = await ask_postgres(self, sql, params or [])
        else:
            found = await ask_sqlite(self, sql, params or [])
        return Rows(*found)
