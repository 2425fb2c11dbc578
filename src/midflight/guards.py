"""What a run relies on outside itself: if it changes while the run rests, the run asks.

``await run.guard(FileContent("prices.csv"))`` notes how the file looks now. It is looked at again
whenever the function is entered again or the run is resumed, and before each effect that names it
in ``relies_on=``. Effects of the run itself may change it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import closing
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any, Protocol

import anyio
import msgspec


class Guard(Protocol):
    """Something outside that can be looked at."""

    @property
    def name(self) -> str:
        """What a person reads, and how a tool relies on it."""

    @property
    def kind(self) -> str:
        """A word for what it is."""

    async def look(self, now: float) -> str:
        """How it looks now, as a short text that is equal when it is."""

    async def changed(self, before: str, now: float) -> str:
        """In words what is different from ``before``; empty when nothing is."""


class FileContent:
    """The content of a file; a file that is missing has a look of its own."""

    kind = "file"

    def __init__(self, path: str | Path, name: str = "") -> None:
        self.name = name or str(path)
        self._path = Path(path)

    async def look(self, now: float) -> str:
        """See ``Guard.look``."""
        return await anyio.to_thread.run_sync(self._digest, abandon_on_cancel=True)

    def _digest(self) -> str:
        try:
            with self._path.open("rb") as file:
                return file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
        except FileNotFoundError:
            return "missing"

    async def changed(self, before: str, now: float) -> str:
        """See ``Guard.changed``."""
        found = await self.look(now)
        if found == before:
            return ""
        return {"missing": "is gone"}.get(
            found, "is there now" if before == "missing" else "has changed"
        )


class SqlRow:
    """What a query finds: in a SQLite file, or through any function that gives a connection."""

    kind = "sql"

    def __init__(
        self,
        name: str,
        database: str | Path | Callable[[], Any],
        query: str,
        parameters: tuple[Any, ...] = (),
    ) -> None:
        self.name = name
        self._connect = database if callable(database) else _reading(Path(database))
        self._query = query
        self._parameters = parameters

    async def look(self, now: float) -> str:
        """See ``Guard.look``."""
        return await anyio.to_thread.run_sync(self._digest, abandon_on_cancel=True)

    async def changed(self, before: str, now: float) -> str:
        """See ``Guard.changed``."""
        return "" if await self.look(now) == before else "has changed"

    def _digest(self) -> str:
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(self._query, self._parameters)
            return _short([list(row) for row in cursor.fetchall()])


class Fingerprint:
    """Whatever a function says: a version, an etag, a commit. It may be async."""

    kind = "call"

    def __init__(self, name: str, function: Callable[[], Any]) -> None:
        self.name = name
        self._function = function

    async def look(self, now: float) -> str:
        """See ``Guard.look``."""
        if inspect.iscoroutinefunction(self._function):
            return _short(await self._function())
        found = await anyio.to_thread.run_sync(self._function, abandon_on_cancel=True)
        return _short(await found if inspect.isawaitable(found) else found)

    async def changed(self, before: str, now: float) -> str:
        """See ``Guard.changed``."""
        return "" if await self.look(now) == before else "has changed"


class Age:
    """How long what the run knows may be used: after ``seconds`` it is out of date."""

    kind = "age"

    def __init__(self, seconds: float, name: str = "what it knows") -> None:
        self.name = name
        self._seconds = seconds

    async def look(self, now: float) -> str:
        """See ``Guard.look``."""
        return repr(now)

    async def changed(self, before: str, now: float) -> str:
        """See ``Guard.changed``."""
        age = now - float(before)
        if age <= self._seconds:
            return ""
        old = f"{age:.0f}" if age >= 10 else f"{age:.1f}"
        return f"is {old} s old, more than {self._seconds:g} s"


def _reading(path: Path) -> Callable[[], Any]:
    import sqlite3  # only for those who use it

    return lambda: sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _short(value: Any) -> str:
    plain = msgspec.json.encode(value, order="deterministic", enc_hook=repr)
    return blake2b(plain, digest_size=16).hexdigest()
