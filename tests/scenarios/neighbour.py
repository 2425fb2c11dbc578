"""A program that holds something of a store until its standard input is closed.

    python neighbour.py file PATH             locks the SQLite file without passing the turnstile
    python neighbour.py turn PATH             is in the middle of a turn at the turnstile
    python neighbour.py rows ADDRESS SCHEMA [JOURNAL]
                                              has locked the row of a journal in Postgres, or all

It prints ``held`` when it has it. The test may freeze it then.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys

import asyncpg

from midflight.stores.sqlite import SqliteStore


def hold() -> None:
    """Say so, and wait for the end of the input."""
    sys.stdout.write("held\n")
    sys.stdout.flush()
    sys.stdin.read()


def hold_file(path: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    hold()
    db.execute("ROLLBACK")
    db.close()


async def hold_turn(path: str) -> None:
    async with SqliteStore.open(path) as store:
        with store._writer._turnstile.passed():
            hold()


async def hold_rows(address: str, schema: str, journal: str = "") -> None:
    settings = {"search_path": schema, "idle_in_transaction_session_timeout": "0"}
    connection = await asyncpg.connect(address, server_settings=settings)
    async with connection.transaction():
        locked = "SELECT journal FROM journals WHERE $1 IN ('', journal) FOR UPDATE"
        await connection.fetch(locked, journal)
        hold()
    await connection.close()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["file", path]:
            hold_file(path)
        case ["turn", path]:
            asyncio.run(hold_turn(path))
        case ["rows", address, schema, *journal]:
            asyncio.run(hold_rows(address, schema, *journal))
        case _:
            sys.exit(__doc__)
