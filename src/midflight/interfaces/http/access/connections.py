"""Connections of callers who have not shown who they are: how many, how long, in which order."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol

import h11
from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

HEAD_S: Final = 10.0  # from the first byte of a request to the end of its head
BODY_S: Final = 20.0  # and from there to the end of its body
READ_MAX: Final = 16 * 1024  # bytes at once: what is read of strangers is kept for a while
PIECE_MAX: Final = 16 * 1024  # bytes of an answer that are written at once
TAKE_S: Final = 20.0  # in which a stranger takes a piece that was written
FILES_WANTED: Final = 16_384
LATE: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%s"
)
TOLD: Final = (
    b'{"error":"too_slow","message":"the request did not arrive in time. Nothing was changed.",'
    b'"changed":false}'
)


class Room(Struct, frozen=True):
    """The number of connections that may be pending, in all and for one address."""

    in_all: int = 512
    an_address: int = 256


def make_room() -> Room:
    """Let the process open as many files as it may, and keep three quarters for what is known."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, FILES_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    if soft == resource.RLIM_INFINITY:
        return Room()
    in_all = max(16, min(Room().in_all, soft // 4))
    return Room(in_all, max(8, in_all // 2))


class Held(Protocol):
    """A connection that can be pending."""

    @property
    def address(self) -> str:
        """From where it came."""

    def drop(self) -> None:
        """Hang up."""


class Pending:
    """The connections that are pending, the oldest first."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held: dict[Held, str] = {}
        self._of_address: Counter[str] = Counter()
        self.dropped = 0

    def add(self, connection: Held) -> None:
        """Count a connection, as the newest; drop the oldest where there is no room."""
        self.discard(connection)
        address = connection.address
        if self._of_address[address] >= self._room.an_address:
            self._drop_oldest(address)
        elif len(self._held) >= self._room.in_all:
            self._drop_oldest(max(self._of_address, key=self._of_address.__getitem__))
        self._held[connection] = address
        self._of_address[address] += 1

    def ensure(self, connection: Held) -> None:
        """Count a connection unless it is counted."""
        if connection not in self._held:
            self.add(connection)

    def discard(self, connection: Held) -> None:
        """Stop counting a connection."""
        address = self._held.pop(connection, None)
        if address is not None:
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]

    def _drop_oldest(self, address: str) -> None:
        oldest = next(one for one, whose in self._held.items() if whose == address)
        self.discard(oldest)
        self.dropped += 1
        oldest.drop()  # layer connection-only-waits-dropped


class InPieces:
    """An app whose answers are sent in pieces; the server waits for each to be taken."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the app does."""

        async def cut(message: Message) -> None:
            body = message.get("body", b"")
            if message["type"] != "http.response.body" or len(body) <= PIECE_MAX:
                await send(message)
                return
            for start in range(0, len(body), PIECE_MAX):
                end = start + PIECE_MAX
                more = message.get("more_body", False) or end < len(body)
                await send({**message, "body": body[start:end], "more_body": more})

        await self._app(scope, receive, cut)


class GuardedProtocol(H11Protocol):
    """HTTP with deadlines, and connections that are counted while they are pending."""

    pending: Pending
    head_s = HEAD_S
    body_s = BODY_S
    take_s = TAKE_S

    def __init__(self, *args: Any, has_request: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        self.app = InPieces(self.app)
        self._has_request = has_request  # it lies there and will be read at once
        self._deadline: asyncio.TimerHandle | None = None
        self._receives = ""  # "", "head" or "body"
        self._taking: asyncio.TimerHandle | None = None  # while an answer lies there
        self._answered = False  # an answer is complete, and it lies there
        self._upgraded = False

    @property
    def address(self) -> str:
        """From where it came."""
        return self.client[0] if self.client else ""

    def drop(self) -> None:
        """Hang up at once."""
        self.transport.abort()

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count it from its first moment: one that sends nothing is pending, too."""
        super().connection_made(transport)
        if hasattr(transport, "max_size"):  # asyncio's own, which reads 256 kB otherwise
            transport.max_size = READ_MAX
        else:  # uvloop's reads all that lies there
            lies = transport.get_extra_info("socket")
            lies.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_MAX)
        transport.set_write_buffer_limits(high=0)  # or we would not hear that all was taken
        if not self._has_request:
            self.pending.add(self)
        self._expect("head", self.head_s)

    @override
    def data_received(self, data: bytes) -> None:
        """Take in what came, and see how far the request is now."""
        if not self._receives and self._is_between_requests():
            self._expect("head", self.head_s)
        super().data_received(data)
        self._look()

    @override
    def on_response_complete(self) -> None:
        """Count the connection as pending until the next request is here.

        The next one is not looked at before this answer was taken, and a stranger's not at all.
        """
        self._expect("", 0)
        self.pending.add(self)
        if not self._is_known and self.conn.trailing_data[0]:
            self.transport.close()  # when the answer is taken
        if self._is_untaken:
            self._answered = True
            return
        super().on_response_complete()
        self._look()  # the next request may have come already

    @override
    def pause_writing(self) -> None:
        """Give a stranger some time to take what lies there."""
        super().pause_writing()
        if not self._is_known:
            self.pending.ensure(self)
            self._taking = self.loop.call_later(self.take_s, self.drop)

    @override
    def resume_writing(self) -> None:
        """Go on: all that lay there was taken."""
        super().resume_writing()
        self._stop_waiting()
        if self._answered:
            self._answered = False
            self.on_response_complete()
        else:
            self._look()

    @override
    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over; the door has its say on it before it is accepted."""
        self._upgraded = True
        self._expect("", 0)
        self.pending.discard(self)
        self.transport.set_write_buffer_limits()
        super().handle_websocket_upgrade(event)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._expect("", 0)
        self._stop_waiting()
        self.pending.discard(self)
        super().connection_lost(exc)

    @property
    def _is_known(self) -> bool:
        """Return whether the door knows who has sent the request that is answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.scope["state"].get("who") is not None

    @property
    def _is_untaken(self) -> bool:
        return bool(self.transport.get_write_buffer_size())

    def _stop_waiting(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _is_between_requests(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _look(self) -> None:
        if self._upgraded or self.transport.is_closing():
            return
        if self._is_between_requests() or (self._is_untaken and not self._is_known):
            self.pending.ensure(self)
        elif not self.cycle.more_body:
            self._expect("", 0)
            self.pending.discard(self)
        else:
            self.pending.ensure(self)
            if self._receives != "body":
                self._expect("body", self.body_s)

    def _expect(self, what: str, within_s: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._receives = what
        self._deadline = self.loop.call_later(within_s, self._end_late) if what else None

    def _end_late(self) -> None:
        if self._is_between_requests() or not self.cycle.response_started:
            self.transport.write(LATE % (len(TOLD), TOLD))
        self.transport.close()


def guarded(
    room: Room, *, head_s: float = HEAD_S, body_s: float = BODY_S, take_s: float = TAKE_S
) -> type[GuardedProtocol]:
    """Return the protocol of one server, with pending connections of its own."""
    own = {"pending": Pending(room), "head_s": head_s, "body_s": body_s, "take_s": take_s}
    return type("Guarded", (GuardedProtocol,), own)


ACCEPTED_AT_ONCE: Final = 128  # before others have their turn
OPENED_AT_ONCE: Final = 2  # of those whose request is not there, while more connections come
PEEKED: Final = 16 * 1024  # bytes among which a head ends
NO_FILES_S: Final = 0.1  # until accepting is tried again where no file can be opened
END_OF_HEAD: Final = b"\r\n\r\n"


class Waiting:
    """A connection that was accepted and not opened yet."""

    def __init__(
        self, connection: socket.socket, address: str, forget: Callable[[Waiting], None]
    ) -> None:
        self.connection, self.address, self._forget = connection, address, forget

    def drop(self) -> None:
        """Hang up."""
        self._forget(self)
        self.connection.close()

    def has_a_request(self) -> bool:
        """Return whether the head of a request is there, without taking it."""
        try:
            return END_OF_HEAD in self.connection.recv(PEEKED, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True  # it is broken, which the protocol finds out


class Accepting:
    """Accepts the connections of one listener, and opens each with ``protocol``."""

    def __init__(
        self, listener: socket.socket, protocol: Callable[..., GuardedProtocol], pending: Pending
    ) -> None:
        self._listener, self._protocol, self._pending = listener, protocol, pending
        self._waiting: dict[Waiting, None] = {}  # the newest last
        self._opening: set[asyncio.Task[None]] = set()
        self._again: asyncio.Handle | None = None  # when accepting is tried again
        self._next: asyncio.Handle | None = None  # when more of those that wait are opened
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Accept connections from now on."""
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more, and hang up on those that are not opened."""
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener.fileno())
        for handle in (self._again, self._next):
            if handle is not None:
                handle.cancel()
        for task in tuple(self._opening):
            task.cancel()
        for one in tuple(self._waiting):
            one.drop()

    def _accept(self) -> None:
        ready: list[Waiting] = []
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError:  # no file is left
                self._loop.remove_reader(self._listener.fileno())
                self._again = self._loop.call_later(NO_FILES_S, self.start)
                break
            connection.setblocking(False)
            one = Waiting(connection, str(address[0]), self._forget)
            if one.has_a_request():
                ready.append(one)
            else:
                self._waiting[one] = None
                self._pending.add(one)
        for one in reversed(ready):
            self._open(one, has_request=True)
        self._open_some()

    def _open_some(self) -> None:
        """Open the newest of those that wait; all of them in the end, since the loop comes back."""
        for one in list(islice(reversed(self._waiting), OPENED_AT_ONCE)):
            self._forget(one)
            self._open(one)
        if self._waiting and self._next is None:
            self._next = self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._next = None
        self._open_some()

    def _forget(self, one: Waiting) -> None:
        self._waiting.pop(one, None)
        self._pending.discard(one)

    def _open(self, one: Waiting, *, has_request: bool = False) -> None:
        task = self._loop.create_task(self._opened(one.connection, has_request))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _opened(self, connection: socket.socket, has_request: bool) -> None:
        made = partial(self._protocol, has_request=has_request)
        try:
            await self._loop.connect_accepted_socket(made, connection)
        except OSError:
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise
