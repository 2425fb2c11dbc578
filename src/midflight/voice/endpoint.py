"""Voice for pages: a WebSocket at ``/v1/threads/{thread}/voice``, behind the server's access.

Who is let in, to whom they talk, and with which engines; ``call.py`` is the talk itself.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

import anyio
import anyio.to_thread
from fastapi import APIRouter, WebSocket
from msgspec.structs import replace
from starlette.websockets import WebSocketDisconnect

from midflight.agents import Agent
from midflight.control import Control
from midflight.kernel.phases import Role
from midflight.kernel.record import Actor
from midflight.stores.lookup import thread_if_any
from midflight.stores.protocol import THREAD_PREFIX
from midflight.voice.call import POLICY, Call
from midflight.voice.line import Engines
from midflight.voice.seams import SpeechFailed
from midflight.voice.shown import Trouble
from midflight.voice.wire import as_text

log: Final = logging.getLogger("midflight.voice")
LINES_MAX: Final = 32  # at once; each takes a hundredth of a core, and recognition what it needs
LINES_EACH: Final = 4  # of one person's, at once
FULL, INTERNAL = 1013, 1011
LINE_FAILED: Final = "The line has failed. What was done stays done; you can call again, or write."


def router(control: Control, agents: Iterable[Agent], engines: Callable[[], Engines]) -> APIRouter:
    """The routes; ``engines`` are made when somebody first talks, which takes a second."""
    lines = _Lines(control, {agent.name: agent for agent in agents}, engines)
    routes = APIRouter()
    routes.add_api_websocket_route("/v1/threads/{thread}/voice", lines.talk)
    return routes


class _Lines:
    def __init__(
        self, control: Control, agents: Mapping[str, Agent], make: Callable[[], Engines]
    ) -> None:
        self._control, self._agents, self._make = control, agents, make
        self._engines: Engines | None = None
        self._making = anyio.Lock()
        self._open: Counter[str] = Counter()  # lines of each person

    async def talk(self, socket: WebSocket, thread: str) -> None:
        """One line, until somebody hangs up. That cancels nothing."""
        who: Actor = replace(socket.state.who, channel="voice")
        await socket.accept()
        refused = self._refused(thread, who)
        if refused is not None:
            why_not, code = refused
            await socket.send_text(as_text(Trouble(why_not)))
            await socket.close(code)
            return
        self._open[who.by] += 1
        try:
            agent = await self._agent(thread)
            engines = await self._ready()
            if isinstance(engines, SpeechFailed):
                await socket.send_text(as_text(Trouble(f"{engines} You can still write.")))
                await socket.close(FULL)
            else:
                await Call(socket, self._control, agent, thread, who, engines).run()
        except Exception:  # an edge: whoever talks is told, and others talk on
            log.exception("A line has failed", extra={"action": "line_failed", "journal": thread})
            with suppress(WebSocketDisconnect, RuntimeError):
                await socket.send_text(as_text(Trouble(LINE_FAILED)))
                await socket.close(INTERNAL)
        finally:
            self._open -= Counter({who.by: 1})  # who has none is not remembered

    async def _ready(self) -> Engines | SpeechFailed:
        """The engines; they are made once, and tried again where that has failed."""
        async with self._making:
            if self._engines is None:
                try:
                    self._engines = await anyio.to_thread.run_sync(self._make)
                except Exception as error:
                    log.exception("No engine", extra={"action": "no_engine"})
                    if isinstance(error, SpeechFailed):
                        return error
                    return SpeechFailed("voice", f"could not be prepared: {error}")
        return self._engines

    def _refused(self, thread: str, who: Actor) -> tuple[str, int] | None:
        if self._open.total() >= LINES_MAX:
            why_not = f"All {LINES_MAX} lines of this server are taken. Try again later, or write."
            return why_not, FULL
        if self._open[who.by] >= LINES_EACH:
            return f"You are on {LINES_EACH} lines here already. Hang one up, or write.", FULL
        if not thread.startswith(THREAD_PREFIX):
            return f"{thread} is not a thread. Nothing was changed.", POLICY
        if who.role is Role.VIEWER:
            return "You may look here and not talk. Ask an operator for more.", POLICY
        return None if self._agents else ("No agent is here to talk to.", POLICY)

    async def _agent(self, thread: str) -> Agent:
        """Who answers there; where nobody does yet, the first."""
        first = next(iter(self._agents.values()))
        talk = await thread_if_any(self._control.store, thread)
        host = talk.host if talk is not None else None
        return self._agents.get(host.agent, first) if host is not None else first
