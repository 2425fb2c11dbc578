"""News of journals that have moved: a process hears of another's appends by LISTEN and NOTIFY.

A NOTIFY inside an append's transaction would make all commits of the server queue up behind each
other, so it goes out beside them: at once for a request, which somebody waits for, and forty
times a second for what drivers write, and that only if another process is there to hear it. It only
ever says that there is something to read. If one is lost, because a process died or a connection
broke, the poll finds it a second later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

import anyio
import msgspec

from midflight.inputs import Ids
from midflight.stores.hub import Hub
from midflight.stores.postgres.echo import Echo
from midflight.stores.postgres.postgres_server import ERRORS, SQL, Connection, Server, only_reads

POLL_S: Final = 1.0
SPACING_S: Final = 0.025  # each NOTIFY wakes every process that has the store open
PAYLOAD_MAX: Final = 7500  # Postgres takes less than 8,000 bytes
OUTBOX_MAX: Final = 10_000  # without a connection: past this, the others' poll has to do
AGAIN_S: Final = 0.25
DEAF_S: Final = 60.0  # how far back is looked after a lost connection
log: Final = logging.getLogger(__name__)

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(dict[str, int])


class News:
    """One connection of its own, on which this process listens, tells and polls."""

    def __init__(self, server: Server, hub: Hub, ids: Ids) -> None:
        self._server = server
        self._hub = hub
        self._echo = Echo(hub, ids, self._stir)
        self._said = False  # something on other channels than ours waits to be told
        self._outbox: dict[str, int] = {}
        self._anything = anyio.Event()
        self._urgent = anyio.Event()
        self._alone = False
        self._deaf = False
        self._pid = 0
        self._closing = False
        self._ended = anyio.Event()

    def moved(self, heads: Iterable[tuple[str, int]], *, at_once: bool) -> None:
        """Tell the other processes that these journals now end here."""
        if self._alone and not at_once:
            return
        if len(self._outbox) > OUTBOX_MAX:
            self._outbox.clear()
        self._outbox.update(heads)
        self._anything.set()
        if at_once:
            self._urgent.set()

    def _stir(self) -> None:
        self._said = True
        self._anything.set()

    async def close(self) -> None:
        """Tell what is left, then end."""
        self._closing = True
        self._anything.set()
        self._urgent.set()
        await self._ended.wait()

    async def run(self) -> None:
        """Listen, through lost connections, until closed."""
        try:
            await self._run()
        finally:
            self._ended.set()

    async def _run(self) -> None:
        while self._outbox or not self._closing:
            connection = None
            try:
                connection = await self._server.connect()
                await self._listen(connection)
            except ERRORS as error:
                if self._closing:
                    return  # they will poll
                self._hear_nothing(error)
                await anyio.sleep(AGAIN_S)
            finally:
                self._alone = False  # anybody may come while we hear nothing
                if connection is not None:
                    connection.terminate()

    def _hear_nothing(self, error: Exception) -> None:
        """Say so once: a replica, for one, refuses LISTEN for as long as it is one."""
        if not self._deaf:
            why = str(self._server.explain(error))
            words = "This process is not told what others write to the store; trying again: %s"
            log.warning(words, why, extra={"action": "news_lost", "error": why})
        self._deaf = True

    def _hear_again(self) -> None:
        if self._deaf:
            words = "This process is told again what others write to the store"
            log.info(words, extra={"action": "news_heard"})
        self._deaf = False

    async def _listen(self, connection: Connection) -> None:
        self._pid = await connection.fetchval(SQL["process"])
        await connection.add_listener(self._server.channel, self._heard)
        await connection.add_listener(self._server.echo_channel, self._heard_saying)
        connection.add_termination_listener(lambda _: self._anything.set())
        await connection.execute(SQL["be_present"], self._server.channel)
        # layer alone-hears-when-not-any-more
        await self._send(connection, {})  # a process that thought to be alone hears of us
        await self._poll(connection)  # news that came while nobody listened
        await self._look_everywhere(connection)
        self._hear_again()
        polled = anyio.current_time()
        while not connection.is_closed():
            await self._tell(connection)
            if self._closing:
                return
            if anyio.current_time() - polled >= POLL_S:
                if only_reads(connection):
                    return  # what the primary is told of is not heard here: look for it again
                await self._poll(connection)
                polled = anyio.current_time()
            await self._wait(polled + POLL_S)

    async def _wait(self, until: float) -> None:
        with anyio.move_on_after(until - anyio.current_time()):
            await self._anything.wait()
        if self._outbox or self._said:
            with anyio.move_on_after(SPACING_S):
                await self._urgent.wait()
        self._anything, self._urgent = anyio.Event(), anyio.Event()

    async def _tell(self, connection: Connection) -> None:
        told = dict(self._outbox)
        if told:
            await self._send(connection, told)
        for journal, head in told.items():
            if self._outbox.get(journal) == head:
                del self._outbox[journal]
        self._said = False
        if letters := self._echo.letters():
            await connection.execute(SQL["notify"], self._server.echo_channel, letters)

    async def _send(self, connection: Connection, heads: Mapping[str, int]) -> None:
        await connection.execute(SQL["notify"], self._server.channel, _letters(heads))

    def _heard(self, _connection: object, pid: int, _channel: str, payload: object) -> None:
        if pid == self._pid:
            return  # our own words; our watchers know already
        self._alone = False
        try:
            heads = _decoder.decode(str(payload))
        except msgspec.DecodeError:
            return  # somebody else's words on our channel
        self._hub.moved(heads)  # layer facts-and-decisions-of-others

    def _heard_saying(self, _connection: object, pid: int, _channel: str, payload: object) -> None:
        if pid != self._pid:
            self._echo.heard(str(payload))

    async def _poll(self, connection: Connection) -> None:
        self._alone = await connection.fetchval(SQL["alone"], self._server.channel)
        if watched := self._hub.watched:
            rows = await connection.fetch(SQL["heads"], watched)
            # layer polling-where-notify-lost
            self._hub.moved({row["journal"]: row["head"] for row in rows})

    async def _look_everywhere(self, connection: Connection) -> None:
        """Name the journals that may have moved while nobody listened, for lists of runs."""
        if self._hub.movements:
            rows = await connection.fetch(SQL["moved_lately"], DEAF_S)
            for everywhere in self._hub.movements:
                for row in rows:
                    everywhere.note(row["journal"])


def _letters(heads: Mapping[str, int]) -> list[str]:
    """As many payloads as it takes; one also for no heads at all."""
    letters, some, size = [], dict[str, int](), 0
    for journal, head in heads.items():
        size += 6 * len(journal) + 24  # as JSON, were every letter escaped
        if size > PAYLOAD_MAX and some:
            letters.append(some)
            some, size = {}, 6 * len(journal) + 24
        some[journal] = head
    return [_encoder.encode(letter).decode() for letter in (*letters, some)]
