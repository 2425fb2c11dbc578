"""Opening the SQLite file: its permissions, its layout, and the meaning of its errors."""

from __future__ import annotations

import errno
import os
import secrets
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from midflight.errors import (
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreReplaced,
    StoreUnavailable,
    StoreVersion,
)
from midflight.stores.codec import script
from midflight.stores.sqlite.locks import Turnstile

MIGRATIONS: Final = tuple(script(f"sqlite/sql/sqlite_00{layout}.sql") for layout in (1, 2, 3))
"""From each layout to the next, since the first; only ever added to."""

APPLICATION_ID: Final = 0x4D49_4446  # "MIDF", so that another program's file is not taken for ours
LAYOUT_BITS: Final = 8  # of SQLite's "user version", which is in the head of the file
MARK_BITS: Final = 24  # the rest of it: by chance, when the store is made
UNKNOWN: Final = "Whether it was appended is not known; it may be repeated under the same id."
LOG_PAGES: Final = 4000  # the write-ahead log is copied back at 16 MB: see decision 4


def connect(path: Path, *, writes: bool, busy_s: float) -> sqlite3.Connection:
    """Open a connection with the settings that durability rests on."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=64)
    db.execute(f"PRAGMA busy_timeout = {int(busy_s * 1000)}")
    # layer append-synced-before-acknowledged
    db.execute("PRAGMA synchronous = FULL")  # an acknowledged append survives a power cut
    db.execute("PRAGMA fullfsync = ON")  # the same on macOS, where fsync alone does not reach disk
    if writes:
        db.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
    else:
        db.execute("PRAGMA query_only = ON")  # layer only-reads-cannot-write
    db.execute("SELECT 1 FROM sqlite_master").fetchone()  # opens the log now, and not some day
    return db


def create(path: Path) -> None:
    """Create the file if it does not exist, so that nobody else can read it.

    Linux creates it without opening it. A descriptor of it that is closed here would drop the POSIX
    locks of another thread of this process that has found the file and opened it by then. Other
    systems let only root do so; there the descriptor is closed at once.
    """
    _refuse_lone_log(path)
    with suppress(FileExistsError):
        if sys.platform == "linux":
            os.mknod(path, 0o600)
        else:
            # layer file-owner-alone
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _refuse_lone_log(path: Path) -> None:
    """Refuse a path whose file was moved or deleted without its log: SQLite would delete the log.

    The log is looked at first: a process that creates the store writes to the file before the log.
    """
    log = path.with_name(f"{path.name}-wal")
    if _size(log) and not _size(path):  # layer no-new-store-made-beside-log
        raise StoreReplaced(
            f"there is no store at {path}, but {log} is still there: it is the log of the store "
            "that was at that path, and holds what was last written to it. The store's file was "
            "moved or deleted without its log. To keep that store, put its file back, or move the "
            f"log to where the file is now. To begin a new store, delete {log}. Nothing was "
            "changed."
        )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def prepare(path: Path, turnstile: Turnstile, busy_s: float) -> bytes:
    """Create the file or bring it to the layout of this version. Return the store's own mark."""
    create(path)
    db = connect(path, writes=True, busy_s=busy_s)
    try:
        _refuse_foreign(db, path)
        if _layout(db) < len(MIGRATIONS) or not _mark(db):
            db.execute("PRAGMA journal_mode = WAL")
            with turnstile.passed():
                migrate(db, MIGRATIONS)
        return _mark(db).to_bytes(MARK_BITS // 8)
    finally:
        db.close()


def migrate(db: sqlite3.Connection, migrations: Sequence[str]) -> None:
    """Take the missing steps in one transaction: a process that dies in it has taken none."""
    db.execute("BEGIN IMMEDIATE")
    for migration in migrations[_layout(db) :]:
        for statement in migration.split(";\n"):
            db.execute(statement)  # layer migration-one-transaction
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    mark = _mark(db) or secrets.randbits(MARK_BITS - 1) | 1  # the version has a sign
    db.execute(f"PRAGMA user_version = {mark << LAYOUT_BITS | len(migrations)}")
    db.execute("COMMIT")


def _layout(db: sqlite3.Connection) -> int:
    return _version(db) & (1 << LAYOUT_BITS) - 1


def _mark(db: sqlite3.Connection) -> int:
    """Return the number by which this store is told from others; 0 if it has none yet."""
    return _version(db) >> LAYOUT_BITS


def _version(db: sqlite3.Connection) -> int:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)


def shown_mark(head: bytes) -> bytes:
    """Return the mark in the head of a database's file; none if it is of another program."""
    return head[60:63] if head[68:72] == APPLICATION_ID.to_bytes(4) else b""


def _refuse_foreign(db: sqlite3.Connection, path: Path) -> None:
    (owner,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and owner != APPLICATION_ID:  # layer another-program-file-left-alone
        raise StoreUnavailable(
            f"{path} is an SQLite database of another program; choose another file for the store. "
            "It was not changed."
        )
    if _layout(db) > len(MIGRATIONS):  # layer newer-layout-left-alone
        raise StoreVersion(
            f"{path} has layout {_layout(db)} and this Midflight knows up to {len(MIGRATIONS)}: "
            "upgrade Midflight to open it. It was not changed."
        )


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether SQLite says that the file's pages are damaged."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def is_disk_error(error: sqlite3.Error) -> bool:
    """Return whether the operating system failed to read, write or sync the file."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_IOERR


def explain(path: Path, error: sqlite3.Error, changed: str = "Nothing was appended.") -> StoreError:
    """Say in a sentence what SQLite means by an error, what to do now, and what has changed."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    kind, advice = {
        sqlite3.SQLITE_FULL: (StoreFull, "the disk is full: free some space and try again"),
        sqlite3.SQLITE_READONLY: (StoreReadOnly, "it may be read and not written: mend its rights"),
        sqlite3.SQLITE_BUSY: (
            StoreBusy,
            "another program has locked it for too long: end that one",
        ),
        sqlite3.SQLITE_LOCKED: (StoreBusy, "another program has locked it: end that one"),
        sqlite3.SQLITE_NOTADB: (StoreUnavailable, "it is not an SQLite database: name another"),
        sqlite3.SQLITE_CORRUPT: (StoreError, "its pages are damaged: restore a backup"),
        sqlite3.SQLITE_CANTOPEN: (StoreUnavailable, "it cannot be opened: check folder and rights"),
        sqlite3.SQLITE_IOERR: (StoreUnavailable, "the disk has failed: check it and try again"),
    }.get(code, (StoreError, "SQLite refused it, for a reason that is not known here"))
    return kind(f"{path}: {advice} ({error}). {changed}")


def translate(path: Path, error: Exception) -> StoreError:
    """Return the store's error for one of SQLite or of the file system."""
    if isinstance(error, sqlite3.Error):
        return explain(path, error)
    if isinstance(error, OSError) and error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return StoreReadOnly(
            f"{path} may not be written by this user ({error.strerror}): mend the "
            "rights of the file and its folder, or choose another. Nothing was changed."
        )
    return StoreUnavailable(
        f"{path} cannot be used ({error}): check the file, its folder and the disk. Nothing was "
        "changed."
    )


FAULTS: Final = (sqlite3.Error, OSError)
"""Errors that ``translate`` makes errors of the store of."""
