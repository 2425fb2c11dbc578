"""The answer that is an AG-UI stream: bounded, and ended by a terminal event wherever one can be.

A reader that leaves cancels nothing. One that takes nothing is dropped. A server that leaves says
so, and that the same runId finds the run again. One whose key is revoked is told that it is.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, aclosing
from typing import Final

import anyio
from ag_ui.core import BaseEvent, RunErrorEvent
from ag_ui.encoder import EventEncoder
from starlette.types import Receive, Scope, Send

from midflight.control import Control
from midflight.errors import MidflightError
from midflight.overriding import override
from midflight.server.agui_stream import Story, Turn
from midflight.server.streaming import ALIVE, NOT_KNOWN, Stalled, Streamed, Streams

AGAIN: Final = "The run goes on by itself; send the same runId to follow it again."
log: Final = logging.getLogger(__name__)


class EventAnswer(Streamed):
    """One AG-UI run, as it happens. ``slot`` is given back at its end."""

    def __init__(self, control: Control, turn: Turn, streams: Streams, slot: ExitStack) -> None:
        super().__init__(streams, {"cache-control": "no-cache"})
        self._slot = slot
        self._turn = turn
        self._story = Story(control, turn, heartbeat_s=streams.pace.heartbeat_s)
        self._encoder = EventEncoder()
        self._known = anyio.CancelScope()

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        with self._slot:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._until_gone, receive, tasks.cancel_scope)
                tasks.start_soon(self._streams.until_unknown, scope, self._known)
                try:
                    await self._tell(send)
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                except Stalled:
                    self._dropped(self._turn.who.by)
                tasks.cancel_scope.cancel()

    async def _tell(self, send: Send) -> None:
        """The edge at which a failure of the stream becomes an event."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        staying = anyio.CancelScope()
        self._streams.enter(staying)
        try:
            with staying, self._known:
                await self._events(send)
            if self._known.cancelled_caught:
                await self._end(send, f"{NOT_KNOWN} The run goes on by itself.", "not_known")
            elif staying.cancelled_caught:
                await self._end(send, f"this server is leaving. {AGAIN}", "leaving")
        except Stalled:
            raise
        except Exception as error:
            about = {"action": "stream_failed", "run": self._turn.run, "error": str(error)}
            log.error("AG-UI stream failed", extra=about, exc_info=error)
            what = str(error) if isinstance(error, MidflightError) else "this stream has failed."
            await self._end(send, f"{what} {AGAIN}", "stream")
        finally:
            self._streams.exit(staying)

    async def _events(self, send: Send) -> None:
        async with aclosing(self._story.told()) as told:
            async for event in told:
                await self._put_event(send, event)

    async def _end(self, send: Send, words: str, code: str) -> None:
        for event in (*self._story.close(), RunErrorEvent(message=words, code=code)):
            await self._put_event(send, event)

    async def _put_event(self, send: Send, event: BaseEvent | None) -> None:
        await self._put(send, self._encoder.encode(event).encode() if event is not None else ALIVE)
