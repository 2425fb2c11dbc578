"""The gateway of the stand-in: hello, identify, heartbeats, resume with what was missed, op codes.

Speaks zlib-stream where the client asks for it, as Discord does, and plain text where not.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11


class Gateway:
    """One session of one bot at a time."""

    def __init__(self, greeting: Callable[[], list[tuple[str, dict[str, Any]]]]) -> None:
        self._greeting = greeting
        self.address = ""
        self.token = ""
        self.session = 0
        self.connections: list[Connection] = []
        self.events: list[dict[str, Any]] = []
        self.identified = 0
        self.resumed = 0
        self.compressed: list[str] = []

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        compress = request.query.get("compress", "")
        self.compressed.append(compress)
        connection = Connection(socket, compress == "zlib-stream")
        await connection.send({"op": HELLO, "d": {"heartbeat_interval": 41_250}})
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                await self._take(connection, json.loads(message.data))
        if connection in self.connections:
            self.connections.remove(connection)
        return socket

    async def _take(self, connection: Connection, payload: dict[str, Any]) -> None:
        match payload["op"]:
            case 1:
                await connection.send({"op": ACK, "d": None})
            case 2:
                await self._identify(connection, payload["d"])
            case 6:
                await self._resume(connection, payload["d"])
            case _:
                pass

    async def _identify(self, connection: Connection, body: dict[str, Any]) -> None:
        if body["token"] != self.token:
            await connection.socket.close(code=4004, message=b"Authentication failed.")
            return
        self.identified += 1
        self.session += 1
        self.events = []
        self.connections = [connection]
        for name, data in self._greeting():
            await self.dispatch(name, data)

    async def _resume(self, connection: Connection, body: dict[str, Any]) -> None:
        if body["token"] != self.token:
            await connection.socket.close(code=4004, message=b"Authentication failed.")
            return
        if body["session_id"] != f"session-{self.session}":
            await connection.send({"op": INVALID, "d": False})
            return
        self.resumed += 1
        for event in self.events[body["seq"] :]:
            await connection.send(event)
        self.connections = [connection]
        await self.dispatch("RESUMED", {})

    async def dispatch(self, name: str, data: dict[str, Any], *, times: int = 1) -> None:
        """Send an event to the bot, or keep it until that comes back; ``times`` for duplicates."""
        for _ in range(times):
            event = {"op": DISPATCH, "t": name, "s": len(self.events) + 1, "d": data}
            self.events.append(event)
            for connection in self.connections:
                await connection.send(event)

    async def drop(self) -> None:
        """The connection breaks; the session stays."""
        broken, self.connections = self.connections, []
        for connection in broken:
            await connection.socket.close(code=WSCloseCode.GOING_AWAY)

    async def ask_to_reconnect(self) -> None:
        told, self.connections = self.connections, []
        for connection in told:
            await connection.send({"op": RECONNECT, "d": None})

    async def invalidate(self) -> None:
        """The session is over: what is missed from here on is not sent again."""
        told, self.connections = self.connections, []
        self.session += 1
        for connection in told:
            await connection.send({"op": INVALID, "d": False})

    async def shut_out(self) -> None:
        """The token is not good any more."""
        self.token = ""
        for connection in list(self.connections):
            await connection.socket.close(code=4004, message=b"Authentication failed.")


class Connection:
    """One websocket, with its own stream of compression."""

    def __init__(self, socket: web.WebSocketResponse, compressed: bool) -> None:
        self.socket = socket
        self._stream = zlib.compressobj() if compressed else None

    async def send(self, payload: dict[str, Any]) -> None:
        text = json.dumps(payload)
        if self.socket.closed:
            return
        if self._stream is None:
            await self.socket.send_str(text)
            return
        packed = self._stream.compress(text.encode()) + self._stream.flush(zlib.Z_SYNC_FLUSH)
        await self.socket.send_bytes(packed)
