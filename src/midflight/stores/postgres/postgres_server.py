"""The Postgres server as seen from here: address, layout, clock, and what its errors mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import anyio

from midflight.errors import (
    InvalidRequest,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    StoreVersion,
    to_install,
)
from midflight.inputs import Clock
from midflight.stores.address import named, unreadable
from midflight.stores.codec import named as statements
from midflight.stores.codec import script

try:
    import asyncpg
except ImportError as missing:
    raise ImportError(
        f"the Postgres store needs asyncpg, which is not installed: {to_install('postgres')}"
    ) from missing

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"  # generic in its stubs only
ServerError: TypeAlias = asyncpg.PostgresError
Taken: TypeAlias = asyncpg.UniqueViolationError
Orphaned: TypeAlias = asyncpg.ForeignKeyViolationError

SQL: Final = statements("postgres/sql/postgres.sql")
MIGRATIONS: Final = tuple(script(f"postgres/sql/postgres_00{layout}.sql") for layout in (1, 2, 3))
"""From each layout to the next, since the first; only ever added to."""

PATIENCE_S: Final = 10.0  # how long a lost server is waited for before the caller is told
# layer connection-died-without-word
ANSWER_S: Final = 3.0  # a connection that says nothing for so long is lost: time for another
# layer request-under-lock-leaves-time
LONG_S: Final = 6.0  # the same where there may be much to read, or several locks to wait for
CONNECT_S: Final = 5.0
KEPT_S: Final = 10.0  # clocks drift apart by less than a millisecond in this time
MIGRATE_S: Final = 600.0  # a table of millions of events may have to be rewritten
SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")

SETTINGS: Final = {
    "application_name": "midflight",
    # layer every-statement-sees
    "default_transaction_isolation": "read committed",  # every check is on rows locked before it
    # layer no-lock-waited-for-without-end
    "lock_timeout": "2s",  # one stuck lock must not hold up the batch around it, nor look as lost
    # layer role-limit-for-statements-not-ours
    "statement_timeout": "0",  # a role's would end a purge; what is silent for too long is minded
    # layer process-froze-loses-locks
    "idle_in_transaction_session_timeout": "5s",  # frozen with locks held: the server takes them
    # All statements here are short and find their rows by index. Plans are made once, and are the
    # same when the tables are still empty and no statistics say that they will not be.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "jit": "off",
}

GONE: Final = (  # layer connection-takes-nothing-given
    OSError,  # with it every TimeoutError
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,  # a replica: a new connection may lead to the primary
)
COLLIDED: Final = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
BUSY: Final = (*COLLIDED, asyncpg.LockNotAvailableError)
REPLICA: Final = asyncpg.ReadOnlySQLTransactionError
REFUSED: Final = (*BUSY, asyncpg.ReadOnlySQLTransactionError, asyncpg.QueryCanceledError)
"""Answers that say that nothing was changed, though it is worth another try."""
ERRORS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)


class Pooled(asyncpg.InterfaceError):
    """Raised when the connection is not a session of our own that keeps our settings."""


POOLED: Final = (
    Pooled,
    asyncpg.ProtocolViolationError,  # it does not know our settings
    asyncpg.InvalidSQLStatementNameError,  # what we have prepared is in another session
    asyncpg.DuplicatePreparedStatementError,
)


def only_reads(connection: Connection) -> bool:
    """Return whether the server takes no writes, as it said when the connection was opened."""
    told = connection.get_settings()
    return "on" in (
        getattr(told, "in_hot_standby", ""),
        getattr(told, "default_transaction_read_only", ""),
    )


class Server:
    """One database on one server, and the schema of the store in it."""

    def __init__(self, dsn: str, schema: str) -> None:
        if not SCHEMA_NAME.fullmatch(schema):
            raise InvalidRequest(
                f"{schema!r} cannot be the store's schema: use up to 48 small letters, digits and "
                "_, with no digit in front. Nothing was opened."
            )
        self._dsn = dsn
        self._schema = schema
        self._user, self._database, self._host = named(dsn)
        self.channel = f"midflight_{schema}"
        self.echo_channel = f"{self.channel}_says"
        self.where = f"database {self._database} on {self._host}"

    async def connect(self, *, answer_s: float | None = ANSWER_S) -> Connection:
        """Open a connection whose tables are the store's.

        One that is minded by somebody else (None) needs no timer of its own in every call.
        """
        settings = SETTINGS | {"search_path": self._schema}
        connection: Connection = await asyncpg.connect(
            self._dsn,
            timeout=CONNECT_S,
            command_timeout=answer_s,
            server_settings=settings,
        )
        try:
            await self._settle_in(connection, settings)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _settle_in(self, connection: Connection, settings: Mapping[str, str]) -> None:
        """Check that the settings were taken.

        Else our tables would be looked for, and made, in the schema of somebody else.
        """
        asked = {name: value for name, value in settings.items() if name != "application_name"}
        found = await connection.fetchrow(SQL["settle_in"], list(asked), timeout=CONNECT_S)
        assert found is not None
        taken = zip(asked.items(), found["settings"], strict=True)
        # layer pooler-keeps-settings-back-refused
        if ignored := [name for (name, value), kept in taken if kept != value]:
            raise Pooled(f"it ignored the settings {', '.join(ignored)}")

    async def prepare(self) -> None:
        """Create the tables or bring them to the layout of this version."""
        try:
            connection = await self._first_connection()
            try:
                await self._refuse_if_shared(connection)
                await self._prepare(connection)
            finally:
                connection.terminate()
        except POOLED as error:
            raise StoreUnavailable(f"{self.explain(error)} Nothing was changed.") from error
        except ERRORS as error:
            told = self.explain(error)
            raise type(told)(f"{told} The store was not opened.") from error
        except ValueError:  # a port that is no number, and perhaps half of a password
            raise unreadable() from None

    async def _first_connection(self) -> Connection:
        """Wait for a server that is starting, and for nothing else: the address may be wrong."""
        with anyio.move_on_after(PATIENCE_S):
            while True:
                try:
                    return await self.connect(answer_s=PATIENCE_S)
                except asyncpg.CannotConnectNowError:
                    await anyio.sleep(0.1)
        raise StoreUnavailable(
            f"{self.where} has been starting for {PATIENCE_S:g} s: try again when it runs. The "
            "store was not opened."
        )

    async def _refuse_if_shared(self, connection: Connection) -> None:
        """Refuse a pooler that gives us another process of the server for every transaction.

        Locks, LISTEN and settings of a session would be anybody's. It is looked for only where the
        server's process is not the one that we were told of: then somebody stands in between.
        """
        ours = await connection.fetchval(SQL["process"])
        if ours == connection.get_server_pid():
            return
        other = await self.connect(answer_s=PATIENCE_S)
        try:
            async with other.transaction():  # it keeps its process for so long
                theirs = await other.fetchval(SQL["process"])
                kept = theirs != ours and ours == await connection.fetchval(SQL["process"])
        finally:
            other.terminate()
        if not kept:  # layer pooler-shares-sessions-refused
            raise Pooled("it gives a connection to another client after each transaction")

    async def _prepare(self, connection: Connection) -> None:
        encoding = await connection.fetchval("SHOW server_encoding")
        if encoding != "UTF8":
            raise StoreUnavailable(
                f"{self.where} stores text as {encoding} and Midflight needs UTF8: create a "
                "database with that encoding. Nothing was changed."
            )
        if await self._layout(connection) == len(MIGRATIONS):
            return
        # Others who open the store now wait for our layout. The lock comes before the transaction,
        # which would else not see what they did while it waited, and goes with the connection.
        await connection.execute("SET lock_timeout = 0")
        # layer those-open-new-store-take-turns
        await connection.execute(SQL["lock_layout"], self.channel, timeout=MIGRATE_S)
        # layer postgres-migration-one-transaction
        async with connection.transaction():  # a process that dies in it has taken no step
            await self._migrate(connection, MIGRATIONS)

    async def _migrate(self, connection: Connection, migrations: Sequence[str]) -> None:
        layout = await self._layout(connection)
        if layout == 0:
            await self._create_schema(connection)
        for migration in migrations[layout:]:
            await connection.execute(migration, timeout=MIGRATE_S)
        if layout == 0:
            await connection.execute("INSERT INTO midflight_layout VALUES (0)")
        await connection.execute("UPDATE midflight_layout SET version = $1", len(migrations))

    async def _create_schema(self, connection: Connection) -> None:
        if not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", self._schema):
            create = "SELECT format('CREATE SCHEMA %I', $1::text)"
            await connection.execute(await connection.fetchval(create, self._schema))

    async def _layout(self, connection: Connection) -> int:
        if await connection.fetchval("SELECT to_regclass('midflight_layout') IS NULL"):
            return 0
        layout = int(await connection.fetchval("SELECT version FROM midflight_layout"))
        if layout > len(MIGRATIONS):  # layer postgres-newer-layout-left-alone
            raise StoreVersion(
                f"{self.where}, schema {self._schema}, has layout {layout} and this Midflight "
                f"knows up to {len(MIGRATIONS)}: upgrade Midflight to open it. It was not changed."
            )
        return layout

    def read_only(self) -> StoreError:
        """Return the error for a caller that asks whether anything can be written."""
        return self.explain(asyncpg.ReadOnlySQLTransactionError("it says so when it is asked"))

    def closed(self) -> StoreError:
        """Return the error for a caller that comes after the store was closed."""
        return StoreUnavailable(
            f"{self.where}: the store is closed: open it again. Nothing was changed."
        )

    def cut_short(self) -> StoreError:
        """Return the error for a caller that was waiting when the store was closed."""
        return StoreUnavailable(
            f"{self.where}: the store was closed before the server answered, so it is not known "
            "whether anything was changed; the same append id may be repeated safely."
        ).leaving_it_open()

    def explain(self, error: BaseException) -> StoreError:
        """Say in a sentence what an error means and what to do about it; never the password."""
        user, schema = self._user, self._schema
        for kinds, raised, advice in (
            (
                POOLED,
                StoreUnavailable,
                "is behind a pooler with which the store cannot work: connect to the server "
                "itself, or in session mode through a pooler that passes settings on",
            ),
            (
                asyncpg.ClientConfigurationError,
                StoreUnavailable,
                "has an address with an option that cannot be used: correct it, or leave it out",
            ),
            (
                asyncpg.InvalidAuthorizationSpecificationError,
                StoreUnavailable,
                f"does not let user {user} in: check user, password and the server's pg_hba.conf",
            ),
            (
                asyncpg.InvalidCatalogNameError,
                StoreUnavailable,
                f"does not exist: create it (createdb {self._database}) or correct the address",
            ),
            (
                asyncpg.InsufficientPrivilegeError,
                StoreReadOnly,
                f"does not let user {user} write to schema {schema}: grant it the right",
            ),
            (
                (asyncpg.ReadOnlySQLTransactionError, asyncpg.TargetServerAttributeNotMatched),
                StoreReadOnly,
                "may be read and not written: it is a replica, or its administrator made it so; "
                "connect to the primary, or try again when it is one",
            ),
            (asyncpg.DiskFullError, StoreFull, "has no space left on its disk: free some"),
            (
                asyncpg.TooManyConnectionsError,
                StoreUnavailable,
                "has no connection left: raise max_connections or run fewer processes",
            ),
            (
                asyncpg.QueryCanceledError,
                StoreBusy,
                "ended the statement before it was done, by hand or for a time limit: try again",
            ),
            (BUSY, StoreBusy, "is held up by another program's locks: try again"),
            (
                (asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError),
                StoreUnavailable,
                f"has lost the store's tables in schema {schema}: restore them from a backup",
            ),
            (GONE, StoreUnavailable, "cannot be reached: check that it runs, host and port"),
        ):
            if isinstance(error, kinds):
                return raised(f"{self.where} {advice} ({_brief(error)}).")
        return StoreError(f"{self.where} refused it: see the server's log ({_brief(error)}).")


def _brief(error: BaseException) -> str:
    return (str(error) or type(error).__name__).partition("\n")[0]


class ServerClock:
    """The server's clock, read from here without asking it.

    An event's time is folded into the state before the event is written, so it must be known before
    the server is asked. It is our own clock, moved by what the server's clock showed when its last
    answers arrived. The estimate is late by the time the fastest of them travelled, and early by no
    more than the clocks have drifted since. It goes back only when answers of two stretches of time
    agree on it: one that was slow to arrive would else stamp what is new before what is old. The
    server refuses a stamp that is far from its clock, and compares deadlines and leases with
    nothing else.
    """

    def __init__(self, local: Clock) -> None:
        self._local = local
        self._ahead = 0.0
        self._before = self._lately = float("-inf")  # the most in each of two stretches
        self._since = float("-inf")  # when the later one began

    def now(self) -> float:
        """The server's time, or a little less."""
        return self._local() + self._ahead  # layer our-clock-moved-to-server

    def heard(self, at: float) -> None:
        """The server showed ``at`` in an answer that has just arrived."""
        here = self._local()
        if not 0 <= here - self._since < KEPT_S:
            self._before, self._lately, self._since = self._lately, float("-inf"), here
        self._lately = max(self._lately, at - here)  # the less it travelled, the more it shows
        self._ahead = max(self._before, self._lately)  # layer one-slow-answer-does-not-set

    def mistrust(self) -> None:
        # layer clock-refused-set-anew
        """Take the next answer whatever it says: the clocks have moved apart."""
        self._before = self._lately = float("-inf")
