"""The store on a Postgres server."""

from midflight.stores.postgres.postgres_store import PostgresStore

__all__ = ["PostgresStore"]
