"""Guards: things outside that a run relies on. If one changes while the run rests, the run asks.

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
from typing import Any, Protocol, TypeVar

import anyio
import msgspec

from midflight import store_files
from midflight.errors import InvalidRequest

T = TypeVar("T")


class Guard(Protocol):
    """Something outside that can be looked at."""

    @property
    def name(self) -> str:
        """The name that people read, and that a tool gives in ``relies_on=``."""

    @property
    def kind(self) -> str:
        """A word for what it is."""

    async def look(self, now: float) -> str:
        """Return how it looks now, as a short text that changes only when it does."""

    async def changed(self, before: str, now: float) -> str:
        """Say what is different from ``before``; return an empty text if nothing is."""


class FileContent:
    """The content of a file; a file that is missing has a look of its own."""

    kind = "file"

    def __init__(self, path: str | Path, name: str = "") -> None:
        self.name = name or str(path)
        self._path = Path(path)

    async def look(self, now: float) -> str:
        """See ``Guard.look``."""
        return await in_thread(self._digest)

    def _digest(self) -> str:
        _refuse_store(self._path)
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
    """The rows of a query: in a SQLite file, or through a function that gives a connection."""

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
        return await in_thread(self._digest)

    async def changed(self, before: str, now: float) -> str:
        """See ``Guard.changed``."""
        return "" if await self.look(now) == before else "has changed"

    def _digest(self) -> str:
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(self._query, self._parameters)
            return _short([list(row) for row in cursor.fetchall()])


class Fingerprint:
    """The value that a function returns: a version, an etag, a commit. It may be async."""

    kind = "call"

    def __init__(self, name: str, function: Callable[[], Any]) -> None:
        self.name = name
        self._function = function

    async def look(self, now: float) -> str:
        """See ``Guard.look``."""
        if inspect.iscoroutinefunction(self._function):
            return _short(await self._function())
        found = await in_thread(self._function)
        return _short(await found if inspect.isawaitable(found) else found)

    async def changed(self, before: str, now: float) -> str:
        """See ``Guard.changed``."""
        return "" if await self.look(now) == before else "has changed"


class Age:
    """An age limit for what the run knows: after ``seconds`` it is out of date."""

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


async def in_thread(function: Callable[[], T]) -> T:
    """Call it in a thread; whatever it raises there is an ordinary ``Exception`` here.

    It travels as a value: to a task that waits for a thread some errors mean something else.
    """
    raised: list[BaseException] = []
    returned: list[T] = []

    def called() -> None:
        try:
            returned.append(function())
        except BaseException as error:  # noqa: BLE001 - raised below
            raised.append(error)

    await anyio.to_thread.run_sync(called, abandon_on_cancel=True)
    for error in raised:
        if issubclass(type(error), Exception) and type(error) is not StopIteration:
            raise error
        raise RuntimeError(f"{type(error).__name__} was raised in a guard's thread") from error
    return returned[0]


def _reading(path: Path) -> Callable[[], Any]:
    import sqlite3  # only for those who use it

    def connect() -> Any:
        _refuse_store(path)
        return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)

    return connect


def _refuse_store(path: Path) -> None:
    """Refuse to look at a store that this process has open: its locks would be lost."""
    if store_files.is_open_at(path):
        raise InvalidRequest(f"{path} {store_files.WHY}. Guard another file.")


def _short(value: Any) -> str:
    try:
        plain = msgspec.json.encode(value, order="deterministic", enc_hook=repr)
    except Exception as error:
        kind = type(error).__name__
        raise InvalidRequest(
            f"the value that the guard returned cannot be compared ({kind}): return a version, "
            "a digest or other plain data. The guard was not recorded."
        ) from error
    return blake2b(plain, digest_size=16).hexdigest()
