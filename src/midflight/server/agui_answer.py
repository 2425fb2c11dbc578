"""The answer that is an AG-UI stream: bounded, and ended by a terminal event wherever one can be.

``agui_leaving`` acts on the run when its reader leaves. A reader that takes nothing is dropped, and
counts as one that has left. A server that shuts down says so, and that the same runId finds the run
again. A reader whose key is revoked is told so.
"""

from __future__ import annotations

from contextlib import ExitStack, aclosing
from typing import Final

import anyio
from ag_ui.core import BaseEvent, RunErrorEvent
from ag_ui.encoder import EventEncoder
from starlette.types import Receive, Scope, Send

from midflight.control import Control
from midflight.errors import MidflightError
from midflight.overriding import override
from midflight.server.agui_follow import Following
from midflight.server.agui_leaving import Leaving
from midflight.server.agui_stream import Turn
from midflight.server.streaming import ALIVE, NOT_KNOWN, Stalled, Streamed, Streams
from midflight.tools.secret import clean_logger

AGAIN: Final = "The run goes on by itself; send the same runId to follow it again."
log: Final = clean_logger(__name__)


class EventAnswer(Streamed):
    """One AG-UI run, as it happens. ``slot`` is given back at its end."""

    def __init__(
        self, control: Control, turn: Turn, streams: Streams, slot: ExitStack, leaving: Leaving
    ) -> None:
        super().__init__(streams, {"cache-control": "no-cache"})
        self._slot = slot
        self._leaving = leaving
        self._left = False
        self._ended = False
        self._turn = turn
        self._story = Following(control, turn, heartbeat_s=streams.pace.heartbeat_s)
        self._encoder = EventEncoder()
        self._known = anyio.CancelScope()

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        with self._slot, self._leaving.is_reading():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._until_left, receive, tasks.cancel_scope)
                tasks.start_soon(self._streams.until_unknown, scope, self._known)
                try:
                    await self._tell(send)
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                except Stalled:
                    self._left = True
                    self._dropped(self._turn.who.by)
                tasks.cancel_scope.cancel()
        if self._left and self._story.in_motion and not self._ended:
            await self._leaving.left(self._story.run, self._streams)

    async def _until_left(self, receive: Receive, scope: anyio.CancelScope) -> None:
        await self._until_gone(receive, scope)
        self._left = True

    async def _tell(self, send: Send) -> None:
        """Send the stream; this is the edge at which a failure of it becomes an event."""
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
        """End the stream from here: whose stream was ended has not left it."""
        self._ended = True
        ended = self._story.ended_by(RunErrorEvent(message=words, code=code))
        for event in (*self._story.close(), *ended):
            await self._put_event(send, event)

    async def _put_event(self, send: Send, event: BaseEvent | None) -> None:
        await self._put(send, self._encoder.encode(event).encode() if event is not None else ALIVE)
