"""The store in one SQLite file."""

from midflight.stores.sqlite.sqlite_store import SqliteStore

__all__ = ["SqliteStore"]
