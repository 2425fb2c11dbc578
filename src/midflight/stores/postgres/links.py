"""The connections to the server, and the way in which work gets to one of them.

A connection is never trusted to be there. Work is a function of a connection, called again on a new
one when the old one was lost, for a bounded time. That is safe because everything that writes
carries the id of its append, and a known id changes nothing.

Work is done by tasks of the store, not by the tasks that want it: a caller that gives up leaves no
connection in the middle of a query, and nobody else has to wait for a new one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import anyio
from msgspec import Struct

from midflight.errors import StoreBusy, StoreError, StoreReadOnly
from midflight.stores.postgres.postgres_server import (
    ANSWER_S,
    BUSY,
    ERRORS,
    GONE,
    PATIENCE_S,
    REFUSED,
    REPLICA,
    Connection,
    Server,
    ServerError,
    only_reads,
)

T = TypeVar("T")
Work: TypeAlias = Callable[[Connection], Awaitable[T]]

MIND_S: Final = 1.0
AGAIN_S: Final = 0.25
READ_ONLY_S: Final = 1.0  # how long a connection to a replica is used: the primary may be elsewhere


class Link:
    """One connection, made anew after it was lost. Used by one task at a time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Connection | None = None
        self._until: float | None = None
        self._overdue = float("inf")
        self._missed = anyio.Event()
        self.sent = False  # whether the last work got as far as a connection

    @property
    def up(self) -> bool:
        """True if there is a connection that is still good, as far as can be known."""
        if self._connection is None or self._connection.is_closed():
            return False
        return self._until is None or anyio.current_time() < self._until  # layer what-only-reads

    async def connect(self) -> None:
        """Make a connection."""
        self.drop()
        self._connection = await self._server.connect(answer_s=None)
        self._until = anyio.current_time() + READ_ONLY_S if only_reads(self._connection) else None

    async def do(self, work: Work[T], answer_s: float = ANSWER_S) -> T:
        """Give the connection to ``work``, once."""
        self.sent = False
        if not self.up:
            await self.connect()
        connection = self._connection
        assert connection is not None
        self.sent = True
        self._overdue = asyncio.get_running_loop().time() + answer_s
        try:
            return await work(connection)
        except BaseException as error:
            # After a cancelled or unanswered query nobody knows what the connection is busy with.
            unsure = not isinstance(error, Exception) or isinstance(error, GONE)
            if unsure or connection.is_closed() or connection.is_in_transaction():
                self.drop()
            raise
        finally:
            self._overdue = float("inf")

    def drop(self) -> None:
        """Close the connection without waiting; work that uses it finds it lost."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def drop_if_silent(self, now: float) -> None:
        """Take a server that has not answered for too long for lost."""
        if now > self._overdue:  # layer server-says-nothing-taken-for-lost
            self.drop()

    def miss(self) -> None:
        """Ask for a connection, for next time."""
        self._missed.set()

    async def keep(self) -> None:
        """Connect whenever somebody misses the connection, in a task of the store."""
        while True:
            await self._missed.wait()
            try:
                await self.connect()
            except ERRORS:
                await anyio.sleep(AGAIN_S)
            else:
                self._missed = anyio.Event()


async def mind(links: Sequence[Link]) -> None:
    """Drop silent connections. One timer for all of them: in each call it would cost a tenth."""
    while True:
        fell_asleep = anyio.current_time()
        await anyio.sleep(MIND_S)
        now = anyio.current_time()
        if now - fell_asleep > 2 * MIND_S:
            continue  # it was we who did not listen: what has come meanwhile is looked at first
        for link in links:
            link.drop_if_silent(now)


class Doubt(Struct):
    """A note for one piece of work; ``open`` once some try of it was sent and not answered."""

    open: bool = False


async def persist(
    server: Server,
    link: Link,
    work: Work[T],
    *,
    writes: bool,
    answer_s: float = ANSWER_S,
    doubt: Doubt | None = None,
    waits_here: bool = True,
) -> T:
    """Do ``work`` until it is done or has an answer, through lost connections and deadlocks.

    ``doubt`` is that of tries before it, and of these afterwards. Unless it ``waits_here`` for a
    server that takes something, a replica's answer is the end: others want the link, to read.
    """
    doubt = doubt or Doubt()
    pause, deadline = 0.005, asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        try:
            return await link.do(work, answer_s)
        except (*GONE, *BUSY) as error:
            doubt.open |= writes and link.sent and not isinstance(error, REFUSED)
            if isinstance(error, REPLICA):
                pause = READ_ONLY_S
            left = deadline - anyio.current_time() - pause
            # layer lost-on-way-sent-again
            if left < 0 or (isinstance(error, REPLICA) and not waits_here):
                raise _given_up(server.explain(error), doubt) from error
            answer_s = max(answer_s, min(2 * answer_s, left))  # it may only have been slow
        except ServerError as error:
            raise _given_up(server.explain(error), doubt) from error
        await anyio.sleep(pause)
        pause = min(pause * 2, AGAIN_S)


def _given_up(error: StoreError, doubt: Doubt) -> StoreError:
    unknown = (
        "A try was not answered, so it is not known whether anything was changed; the same append "
        "id may be repeated safely."
    )
    if doubt.open:
        return type(error)(f"{error} {unknown}").leaving_it_open()
    return type(error)(f"{error} Nothing was changed.")


class _Errand(Struct, eq=False):
    """Some work, whether it writes, how long it may take, and who waits for it."""

    work: Work[Any]
    after: Callable[[], None]
    writes: bool
    answer_s: float
    doubt: Doubt
    answer: asyncio.Future[Any]
    given_up_at: float

    def fail(self, error: BaseException) -> None:
        self.after()
        if not self.answer.done():
            self.answer.set_exception(error)


class Pool:
    """A few connections, each with a task that does what readers and requests want done.

    A ``pressing`` errand does not wait for that: if all of them are busy, perhaps with locks of
    others, one more connection is made, which does nothing else.
    """

    def __init__(self, server: Server, size: int) -> None:
        self._server = server
        self._queue: deque[_Errand] = deque()
        self._pressing: deque[_Errand] = deque()
        self._put_off: set[_Errand] = set()  # a replica has refused them; there may be a primary
        self._idle: list[asyncio.Future[None]] = []
        self._spare_idle: list[asyncio.Future[None]] = []
        self._closed = False
        self._spare = Link(server)
        self.links = (*(Link(server) for _ in range(size)), self._spare)

    async def do(
        self,
        work: Work[T],
        *,
        after: Callable[[], None] = lambda: None,
        writes: bool = False,
        first: bool = False,
        pressing: bool = False,
        answer_s: float = ANSWER_S,
        doubt: Doubt | None = None,
    ) -> T:
        """Have ``work`` done. ``after`` is called when it is over, whether or not we still wait."""
        loop = asyncio.get_running_loop()
        errand = _Errand(
            work,
            after,
            writes,
            answer_s,
            doubt or Doubt(),
            loop.create_future(),
            loop.time() + PATIENCE_S,
        )
        if self._closed:
            errand.fail(self._server.closed())
        elif pressing:
            self._pressing.append(errand)
            self._wake(self._idle) or self._wake(self._spare_idle)  # layer lease-renewed-also
        else:
            (self._queue.appendleft if first else self._queue.append)(errand)
            self._wake(self._idle)
        result: T = await errand.answer
        return result

    async def fetch(
        self, statement: str, *arguments: object, answer_s: float = ANSWER_S
    ) -> list[Any]:
        """Read the rows that a statement finds."""
        return await self.do(lambda c: c.fetch(statement, *arguments), answer_s=answer_s)

    async def serve(self, link: Link) -> None:
        """Do what is wanted on this connection, for as long as the store is open."""
        spare = link is self._spare
        while True:
            if self._pressing:
                await self._run(link, self._pressing.popleft())
            elif self._queue and not spare:
                await self._run(link, self._queue.popleft())
            else:
                idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                (self._spare_idle if spare else self._idle).append(idle)
                await idle

    def close(self) -> None:
        """Refuse what has not begun."""
        self._closed = True
        self._queue.extend(self._put_off)
        self._put_off.clear()
        for errands in (self._pressing, self._queue):
            while errands:
                errands.popleft().fail(self._server.closed())

    def _wake(self, resting: list[asyncio.Future[None]]) -> bool:
        """Wake one of the resting tasks; return whether there was one."""
        while resting:  # the one who rested last: its connection is warm
            idle = resting.pop()
            if not idle.done():
                idle.set_result(None)
                return True
        return False

    async def _run(self, link: Link, errand: _Errand) -> None:
        if errand.answer.done() or errand.given_up_at < anyio.current_time():
            late = f"{self._server.where}: all connections of this process were busy"
            busy = StoreBusy(f"{late} for {PATIENCE_S:g} s: try again.")
            errand.fail(_given_up(busy, errand.doubt))
            return
        try:
            result = await persist(
                self._server,
                link,
                errand.work,
                writes=errand.writes,
                answer_s=errand.answer_s,
                doubt=errand.doubt,
                waits_here=False,
            )
        except StoreReadOnly as error:
            self._put_off_or_fail(errand, error)
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
            errand.fail(error)
        except BaseException:
            errand.fail(self._server.cut_short())
            raise
        else:
            errand.after()
            if not errand.answer.done():
                errand.answer.set_result(result)

    def _put_off_or_fail(self, errand: _Errand, error: StoreReadOnly) -> None:
        """Try it again later, if somebody still waits for it, and let others use the link."""
        loop = asyncio.get_running_loop()
        if self._closed or errand.answer.done() or loop.time() + READ_ONLY_S > errand.given_up_at:
            errand.fail(error)
            return
        self._put_off.add(errand)
        loop.call_later(READ_ONLY_S, self._take_up, errand)

    def _take_up(self, errand: _Errand) -> None:
        if errand in self._put_off:
            self._put_off.discard(errand)
            self._queue.append(errand)
            self._wake(self._idle)
