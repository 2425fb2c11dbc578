"""One page on the line, behind a WebSocket at ``/v1/threads/{thread}/voice``."""

from __future__ import annotations

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastapi import APIRouter, WebSocket
from msgspec import Struct
from msgspec.structs import replace
from starlette.websockets import WebSocketDisconnect

from midflight.agents import Agent
from midflight.control import Control
from midflight.interfaces.voice.line import Line, line_to
from midflight.interfaces.voice.speech.speech_engines import (
    FRAME,
    RATE,
    WIDTH,
    Engines,
    SpeechFailed,
)
from midflight.interfaces.voice.voice_wire import (
    FloorShown,
    Hello,
    Misfit,
    PageSink,
    Shown,
    Silenced,
    Talk,
    Trouble,
    as_text,
    read_bytes,
    read_text,
)
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from midflight.stores.lookup import thread_if_any
from midflight.stores.protocol import THREAD_PREFIX

log: Final = logging.getLogger("midflight.interfaces.voice")
WAITING_MAX: Final = 256  # messages to a page that does not read them
UNHEARD_MAX: Final = 24 * RATE  # samples that wait to be heard: those before the line was open, too
KEYS_MAX: Final = 20  # times that a key is pressed in so many seconds: each is a recognition
KEYS_S: Final = 10.0
STILL_S: Final = 8.0  # in which nothing comes: a network that stands still is back by then
STILL_FRAMES: Final = 8  # at once, then
SILENT_S: Final = 5.0  # not a breath: the microphone is off
LAST_WORD_S: Final = 1.0  # to a page that is shut out
LAST_HEARD_S: Final = 2.0  # to hear what had come when it hung up
KNOWN_S: Final = 15.0  # between looks whether the person is still let in
SECONDS: Final = "midflight_voice_seconds_total"
POLICY: Final = 1008
TOO_OFTEN: Final = (
    "The key was pressed too often for me to follow. Wait some seconds, and press it again."
)
MUTE: Final = "Your microphone gives no sound at all. It may be muted, or not the right one."
SHUT_OUT: Final = "You are not let in here any more, so the call ends. Your runs go on."
BEHIND: Final = (
    "I cannot keep up at the moment: some of that was not heard. Wait a little, and say it again."
)


class Sound(Struct, frozen=True):
    """From a page. ``to_key``: to be heard only while the line knows its key to be down.

    ``fed``: it is from nobody, because nothing comes from the page.
    """

    pcm: bytes
    to_key: bool
    fed: bool = False

    @property
    def length(self) -> int:
        """The number of samples that the message counts for; even a short message is some work."""
        return max(FRAME, len(self.pcm) // WIDTH)


class Call:
    """See the module. ``run`` talks until one of both hangs up."""

    def __init__(
        self,
        socket: WebSocket,
        control: Control,
        agent: Agent,
        thread: str,
        who: Actor,
        engines: Engines,
    ) -> None:
        self._socket, self._who = socket, who
        self._open = (control, agent, thread)
        self._engines = engines
        self._sink = PageSink(self._send)
        self._out: MemoryObjectSendStream[bytes | str]
        self._out, self._to_write = anyio.create_memory_object_stream[bytes | str](WAITING_MAX)
        self._in: MemoryObjectSendStream[Sound | Talk]
        self._in, self._to_hear = anyio.create_memory_object_stream[Sound | Talk](math.inf)
        self._there = anyio.CancelScope()  # as long as the page is
        self._shut_out = anyio.CancelScope()  # whose last words are not wanted either
        self._came_at = self._heard_at = 0.0
        self._misfit = False
        self._push = self._pressed = False
        self._unheard = 0  # samples that wait
        self._keys: deque[float] = deque(maxlen=KEYS_MAX)  # when they were pressed
        self._mute_told = self._behind_told = False
        self._counted = {
            "heard": 0.0,
            "spoken": 0.0,
        }  # seconds of speech that the server's figures have

    async def run(self) -> None:
        """Talk until one of both hangs up; what was said until then is still heard, and done."""
        control, agent, thread = self._open
        with self._shut_out, self._out, self._to_write, self._in, self._to_hear:
            async with line_to(
                control,
                agent,
                thread,
                who=self._who,
                engines=self._engines,
                sink=self._sink,
                show=self._show,
            ) as line:
                self._show(FloorShown(line.taking.floor))  # the page waits for it before it speaks
                try:
                    await self._talk(line)
                finally:
                    self._count(line)

    async def _talk(self, line: Line) -> None:
        async with anyio.create_task_group() as hearing:
            hearing.start_soon(self._hear, line, self._to_hear)
            with self._there:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._write, self._to_write)
                    tasks.start_soon(self._look, line)
                    tasks.start_soon(self._let_time_pass)
                    await self._read()
                    self._there.cancel()
            self._sink.gone()  # layer last-words-of-hangs-up-do
            self._in.close()  # what came is heard to its end, if that is soon
            hearing.cancel_scope.deadline = anyio.current_time() + LAST_HEARD_S

    # ── reading ──────────────────────────────────────────────────────────────────────────────

    async def _read(self) -> None:
        while True:
            try:
                message = await self._socket.receive()
            except WebSocketDisconnect:
                return
            if message["type"] == "websocket.disconnect":
                return
            try:
                self._take(message.get("bytes"), message.get("text"))
            except Misfit as misfit:
                self._show(Trouble(str(misfit)))

    def _take(self, data: bytes | None, text: str | None) -> None:
        if data is not None:
            frame = read_bytes(data)
            self._sink.note(frame.played)
            if not self._misfit:
                self._came_at = anyio.current_time()
                self._put(Sound(frame.pcm, self._push))
            return
        try:
            said = read_text(text or "")
        except Misfit:
            self._misfit = self._misfit or '"hello"' in (text or "")  # sound of another kind
            raise
        match said:
            case Hello():
                self._misfit, self._push = False, said.mode == "push"
                if self._pressed and not self._push:
                    self._take_key(Talk(False))
            case Talk():
                self._take_key(said)
            case Silenced():
                self._sink.silenced(said.played, said.number)

    def _take_key(self, said: Talk) -> None:
        """A key that is let go is never dropped: one that stays down would keep us silent."""
        if said.on == self._pressed:
            return
        now = anyio.current_time()
        if said.on and len(self._keys) == KEYS_MAX and now - self._keys[0] < KEYS_S:
            self._show(Trouble(TOO_OFTEN))
            return
        if said.on:
            self._keys.append(now)
        self._pressed = said.on
        self._in.send_nowait(said)

    def _put(self, sound: Sound) -> None:
        if self._unheard < UNHEARD_MAX:
            self._in.send_nowait(sound)
            self._unheard += sound.length
            self._behind_told &= self._unheard > UNHEARD_MAX // 2  # once, until it has caught up
        elif not self._behind_told:
            self._behind_told = True
            self._show(Trouble(BEHIND))

    # ── hearing ──────────────────────────────────────────────────────────────────────────────

    async def _hear(self, line: Line, to_hear: MemoryObjectReceiveStream[Sound | Talk]) -> None:
        self._heard_at = anyio.current_time()
        async for heard in to_hear:
            if isinstance(heard, Talk):
                await line.press(down=heard.on)
                continue
            self._unheard -= heard.length
            if heard.pcm and (line.taking.pressed or not heard.to_key):
                await line.hear(heard.pcm)
                self._note_silence(any(heard.pcm))
            else:  # nobody presses, or for too long: it is silent, and time passes
                await line.hear(bytes(FRAME * WIDTH), fed=heard.fed)
                self._heard_at = anyio.current_time()  # nothing was to be heard of the microphone

    async def _let_time_pass(self) -> None:
        """A line's time is its sound's. Without any, who was held would be for ever.

        A browser that suspends a page's sound, as for a telephone call, sends nothing. A network
        that stands still does not either, and has the rest of what is being said.
        """
        self._came_at = anyio.current_time()
        while True:
            await anyio.sleep(STILL_FRAMES * FRAME / RATE)
            if anyio.current_time() - self._came_at >= STILL_S:  # layer line-time-goes
                for _ in range(STILL_FRAMES):
                    self._put(Sound(b"", self._push, fed=True))

    def _note_silence(self, sounds: bool) -> None:
        now = anyio.current_time()
        if sounds:
            self._heard_at, self._mute_told = now, False
        elif now - self._heard_at > SILENT_S and not self._mute_told:
            self._mute_told = True
            self._show(Trouble(MUTE))

    def _count(self, line: Line) -> None:
        """Tell the server's figures how much was said since they were last told."""
        metrics = getattr(self._socket.app.state, "metrics", None)
        for side, seconds in line.spoken_s.items():
            if metrics is not None:
                metrics.count(SECONDS, seconds - self._counted[side], side=side)
            self._counted[side] = seconds

    async def _look(self, line: Line) -> None:
        """End the call once the caller's key is revoked."""
        while self._socket.state.still_known():
            self._count(line)
            await anyio.sleep(KNOWN_S)
        with anyio.move_on_after(LAST_WORD_S), suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.send_text(as_text(Trouble(SHUT_OUT)))
            await self._socket.close(POLICY)
        self._shut_out.cancel()

    # ── writing ──────────────────────────────────────────────────────────────────────────────

    def _show(self, shown: Shown) -> None:
        self._put_out(as_text(shown))

    def _send(self, what: bytes | dict[str, object]) -> None:
        self._put_out(what if isinstance(what, bytes) else as_text(what))

    def _put_out(self, what: bytes | str) -> None:
        if self._there.cancel_called:
            return  # nobody is there any longer
        try:
            self._out.send_nowait(what)
        except anyio.WouldBlock:
            about = {"action": "page_stuck", "by": self._who.by}
            words = "The voice call of %s was ended, because the page takes nothing any more"
            log.warning(words, self._who.by, extra=about)
            self._there.cancel()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # somebody has hung up

    async def _write(self, to_write: MemoryObjectReceiveStream[bytes | str]) -> None:
        try:
            async for what in to_write:
                if isinstance(what, bytes):
                    await self._socket.send_bytes(what)
                else:
                    await self._socket.send_text(what)
        except (WebSocketDisconnect, RuntimeError):  # it was closed under our hands
            self._there.cancel()


LINES_MAX: Final = 32  # at once; each takes a hundredth of a core, and recognition what it needs
LINES_EACH: Final = 4  # of one person's, at once
FULL, INTERNAL = 1013, 1011
MAY_NOT_TALK: Final = "You may look here and not talk. Ask an operator to let you."
NO_AGENT: Final = "This server has no agent to talk to. Ask its operator to start one."
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
            about = {"action": "line_failed", "journal": thread}
            log.exception("The voice call in thread %s was ended by an error", thread, extra=about)
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
                    words = "The engines that hear and speak could not be prepared"
                    log.exception(words, extra={"action": "no_engine"})
                    if isinstance(error, SpeechFailed):
                        return error
                    return SpeechFailed("voice", f"could not be prepared: {error}")
        return self._engines

    def _refused(self, thread: str, who: Actor) -> tuple[str, int] | None:
        """Return why somebody gets no line, and the code to close with; None if they get one."""
        if self._open.total() >= LINES_MAX:
            why_not = f"All {LINES_MAX} lines of this server are taken. Try again later, or write."
            return why_not, FULL
        if self._open[who.by] >= LINES_EACH:
            return f"You are on {LINES_EACH} lines here already. Hang one up, or write.", FULL
        if not thread.startswith(THREAD_PREFIX):
            why_not = f"{thread} is no thread: ids of threads begin with {THREAD_PREFIX}."
            return f"{why_not} Nothing was changed.", POLICY
        if who.role is Role.VIEWER:
            return MAY_NOT_TALK, POLICY
        return None if self._agents else (NO_AGENT, POLICY)

    async def _agent(self, thread: str) -> Agent:
        """Return the agent that answers in the thread, or the first one where none does yet."""
        first = next(iter(self._agents.values()))
        talk = await thread_if_any(self._control.store, thread)
        host = talk.host if talk is not None else None
        return self._agents.get(host.agent, first) if host is not None else first
