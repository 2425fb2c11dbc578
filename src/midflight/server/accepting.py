"""Accepting connections so that many which send nothing do not delay one that has sent a request.

The system hands connections over in the order in which they came. Making one ready for HTTP costs
ten times as much as accepting it, so that is not done in this order: a connection whose request is
there already is opened at once, and the others later, in both cases the newest first. Those that
only wait are dropped for newer ones, mostly before anything was spent on them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final

from midflight.server.connections import GuardedProtocol, Pending

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
        """Accept connections from now on, in place of the listener's earlier reader."""
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
