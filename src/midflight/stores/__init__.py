"""The stores of journals: memory, SQLite, Postgres, behind one Protocol (``protocol.Store``)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from urllib.parse import urlsplit

from midflight.errors import StoreUnavailable
from midflight.stores import address as server_address
from midflight.stores.protocol import Store


def open_store(address: str, *, lease_s: float | None = None) -> AbstractAsyncContextManager[Store]:
    """Open the store at an address for as long as the block runs.

    The packages of a store are imported only when it is opened. ``lease_s`` is how long a driver of
    this process counts as living when nothing is heard of it, where death is guessed by time.
    """
    if not address.strip():
        raise StoreUnavailable(
            "there is no address of a store: name a file, such as midflight.db. Nothing was opened."
        )
    address = "memory:" if address == ":memory:" else address  # as SQLite calls it
    scheme = urlsplit(address.partition("//")[0]).scheme  # of the rest nothing is sure yet
    match scheme:
        case "memory":
            from midflight.stores.memory import MemoryStore

            return MemoryStore.open()
        case "postgres" | "postgresql":
            from midflight.stores.postgres import PostgresStore
            from midflight.stores.postgres.postgres_lease import TTL_S

            dsn, schema = server_address.without_schema(address)
            return PostgresStore.open(dsn, schema=schema, lease_s=lease_s or TTL_S)
        case "" | "sqlite" | "file":
            from midflight.stores.sqlite import SqliteStore

            path = address.removeprefix(f"{scheme}:") if scheme else address
            return SqliteStore.open(path.removeprefix("//") if scheme else path)
        case _:
            raise StoreUnavailable(
                f"the address begins with {scheme}:, which is not a kind of store. Use a path or "
                "sqlite:PATH for a file, postgresql://USER@HOST/DATABASE for a server, or memory: "
                "for journals that are forgotten with the process. Nothing was opened."
            )


def shown(address: str) -> str:
    """The address as it may stand on a screen and in a log: without what is secret in it."""
    on_a_server = "://" in address and not address.startswith(("sqlite:", "file:"))
    return server_address.shown(address) if on_a_server else address
