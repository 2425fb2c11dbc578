"""The witnesses of a trial: the ledger of what happened, and a stand-in for the model's provider.

Tools, and the adapters of the runtimes, tell the ledger over a Unix socket and wait until it is
written down; what is told after the answer has a higher number. The kit's own process keeps it, not
the process of the runtime.

The provider is a real HTTP server that streams as OpenAI does. It answers by a script, which it
finds by the mark ``[run NAME]`` in the conversation, so any number of runs and any process can ask
it, also again after a crash. It sees what no runtime can embellish: which messages reach the model,
whether a conversation is whole, when a connection is closed and how much was sent after a stop.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
from msgspec import Struct

WAIT_S: Final = 20.0
RUN: Final = re.compile(r"\[run ([\w.-]+)\]")
NOTE: Final = re.compile(r"note-[\w.-]+")
ASKED: Final = re.compile(r"Message (\d+) from [^\n]*\n((?:(?!Message \d+ from ).*\n?)*)")
TRIAGE: Final = "triage"
URGENT: Final = "urgent"
LAST_WORDS: Final = "All is done."
REQUEST_MAX: Final = 1 << 24


class Told(Struct, frozen=True, array_like=True):
    """One thing that happened: to which run, and to what in it."""

    number: int
    at: float
    what: str
    about: str
    more: str = ""


class Ledger:
    """All that was told, by run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._runs: defaultdict[str, list[Told]] = defaultdict(list)
        self._news: dict[str, anyio.Event] = {}
        self._count = 0

    def note(self, what: str, about: str, more: str = "") -> None:
        """Write down one thing that happened."""
        self._count += 1
        run = about.partition("/")[0]
        self._runs[run].append(Told(self._count, time.monotonic(), what, about, more))
        if run in self._news:
            self._news.pop(run).set()

    def of(self, run: str) -> list[Told]:
        """Return all that was told of a run, in order."""
        return self._runs[run]

    def acted(self, key: str) -> bool:
        """Return whether a thing was done and not taken back since."""
        deeds = [t.what for t in self._runs[key.partition("/")[0]] if t.about == key]
        last = next((what for what in reversed(deeds) if what in {"acted", "undone"}), "")
        return last == "acted"

    async def until(
        self, run: str, ready: Callable[[Sequence[Told]], bool], within_s: float = WAIT_S
    ) -> bool:
        """Wait until a run is ``ready``; return whether it was so in time."""
        with anyio.move_on_after(within_s):
            while not ready(self._runs[run]):
                await self._news.setdefault(run, anyio.Event()).wait()
        return ready(self._runs[run])

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):  # a process was killed
            while line := await reader.readline():
                what, about, *more = line.decode().rstrip("\n").split(" ", 2)
                if what == "?":
                    writer.write(b"1" if self.acted(about) else b"0")
                else:
                    self.note(what, about, *more)
                    writer.write(b".")
        writer.close()


@asynccontextmanager
async def keeping(folder: Path) -> AsyncIterator[Ledger]:
    """Keep a ledger during the block."""
    ledger = Ledger(folder / "ledger")
    server = await asyncio.start_unix_server(ledger._hear, ledger.path, limit=1 << 20)
    try:
        yield ledger
    finally:
        server.close()


def happened(what: str, times: int = 1) -> Callable[[Sequence[Told]], bool]:
    """Return a test of whether something was told at least so many times."""
    return lambda told: sum(one.what == what for one in told) >= times


# ── the provider ─────────────────────────────────────────────────────────────────────────────


class Call(Struct, frozen=True):
    """A tool that the model wants called: its key in the run, and how long it takes."""

    tool: str
    name: str
    ms: int = 20


class Answer(Struct, frozen=True):
    """One turn of the model: tool calls, or so many words with so much time between them."""

    calls: tuple[Call, ...] = ()
    words: int = 0
    between_ms: float = 5.0


class Provider:
    """Answers by script, and keeps what it has seen."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._scripts: dict[str, Sequence[Answer]] = {}
        self.port = 0
        self.notes: defaultdict[str, set[str]] = defaultdict(set)
        """By run: the messages that have reached its model."""
        self.complaints: defaultdict[str, list[str]] = defaultdict(list)
        """By run: why its provider would have refused a request."""
        self.shown: dict[str, str] = {}
        """By run: all that its model was given to read, at the last request."""

    @property
    def url(self) -> str:
        """The base URL for an SDK."""
        return f"http://127.0.0.1:{self.port}/v1"

    def script(self, run: str, *answers: Answer) -> str:
        """Set the answers of the model in a run, and return the brief that leads to them."""
        self._scripts[run] = answers
        return f"[run {run}] Do the work."

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the one request of a connection."""
        try:
            body = await _request(reader)
            if body is not None:
                await self._answer(body, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, body: Any, reader: asyncio.StreamReader, writer: Any) -> None:
        if TRIAGE in {tool["function"]["name"] for tool in body.get("tools", ())}:
            writer.write(_head(200) + b"".join(_chunks(_triage(body), ())))
            await writer.drain()
            return
        run, turn = _place(body["messages"])
        self.shown[run] = "\n".join(map(_text, body["messages"]))
        self._ledger.note("asked", run)
        self.notes[run.partition(".")[0]].update(_notes(body["messages"]))
        if complaint := broken_pairing(body["messages"]):
            self.complaints[run].append(complaint)
            self._ledger.note("refused", run)
            error = {"error": {"message": complaint, "type": "invalid_request_error"}}
            writer.write(_head(400) + json.dumps(error).encode())
            await writer.drain()
            return
        script = self._scripts.get(run, ())
        answer = script[turn] if turn < len(script) else Answer()
        await self._stream(run, turn, answer, reader, writer)
        self._ledger.note("answered", run)

    async def _stream(
        self, run: str, turn: int, answer: Answer, reader: asyncio.StreamReader, writer: Any
    ) -> None:
        words = ["word "] * answer.words or ([] if answer.calls else [LAST_WORDS])
        calls = [
            (f"call_{run}_{turn}_{n}", call.tool, {"item": f"{run}/{call.name}", "ms": call.ms})
            for n, call in enumerate(answer.calls)
        ]
        writer.write(_head(200))
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._notice_close, run, reader, writer, beside.cancel_scope)
            with suppress(ConnectionError):
                for chunk in _chunks(calls, words):
                    writer.write(chunk)
                    await writer.drain()
                    if answer.words:
                        self._ledger.note("word", run)
                        await anyio.sleep(answer.between_ms / 1000)
            beside.cancel_scope.cancel()

    async def _notice_close(self, run: str, reader: Any, writer: Any, scope: Any) -> None:
        with suppress(ConnectionError):
            while await reader.read(1 << 16):
                pass
        self._ledger.note("closed", run)
        scope.cancel()


async def _request(reader: asyncio.StreamReader) -> Any:
    head = await reader.readuntil(b"\r\n\r\n")
    found = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    return json.loads(await reader.readexactly(int(found.group(1)))) if found else None


def _head(status: int) -> bytes:
    kind = "text/event-stream" if status == 200 else "application/json"
    return f"HTTP/1.1 {status} OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode()


def _chunks(calls: Sequence[tuple[str, str, Any]], words: Sequence[str]) -> Iterator[bytes]:
    def chunk(delta: Any, finish: str | None = None, usage: Any = None) -> bytes:
        choices = [] if usage else [{"index": 0, "delta": delta, "finish_reason": finish}]
        data = {"id": "kit", "object": "chat.completion.chunk", "created": 1, "model": "kit"}
        return f"data: {json.dumps(data | {'choices': choices, 'usage': usage})}\n\n".encode()

    yield chunk({"role": "assistant", "content": ""})
    for word in words:
        yield chunk({"content": word})
    for index, (name, tool, arguments) in enumerate(calls):
        function = {"name": tool, "arguments": json.dumps(arguments)}
        call = {"index": index, "id": name, "type": "function", "function": function}
        yield chunk({"tool_calls": [call]})
    yield chunk({}, "tool_calls" if calls else "stop")
    yield chunk({}, usage={"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18})
    yield b"data: [DONE]\n\n"


def _text(message: Any) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(p.get("text", "") for p in content)


def _place(messages: Sequence[Any]) -> tuple[str, int]:
    """Return the run that asks, by the last mark of a person, and its number of calling turns."""
    run, turn = "", 0
    for message in messages:
        if message["role"] == "user" and (found := RUN.findall(_text(message))):
            run, turn = found[-1], 0
        turn += message["role"] == "assistant" and bool(message.get("tool_calls"))
    return run, turn


def _notes(messages: Sequence[Any]) -> Iterator[str]:
    for message in messages:
        if message["role"] == "user":
            yield from NOTE.findall(_text(message))


def broken_pairing(messages: Sequence[Any]) -> str:
    """Return why a provider refuses a conversation: a call without its result, or the reverse."""
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return f"a result for {message.get('tool_call_id')}, which is not open"
            open_calls.discard(message["tool_call_id"])
        elif open_calls:
            return f"no result for {', '.join(sorted(open_calls))}"
        for call in message.get("tool_calls") or ():
            open_calls.add(call["id"])
    return f"no result for {', '.join(sorted(open_calls))}" if open_calls else ""


def _triage(body: Any) -> list[tuple[str, str, Any]]:
    """Return the choices about messages: switch to urgent ones, incorporate the others."""
    text = _text(body["messages"][-1])
    choices = [
        {
            "message": int(number),
            "action": "switch" if URGENT in words else "incorporate",
            "say": "All right.",
            "title": "the urgent thing" if URGENT in words else "",
        }
        for number, words in ASKED.findall(text)
    ]
    return [("call_triage", TRIAGE, {"choices": choices})]


@asynccontextmanager
async def providing(ledger: Ledger) -> AsyncIterator[Provider]:
    """Answer on a port of loopback during the block."""
    provider = Provider(ledger)
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0, limit=REQUEST_MAX)
    provider.port = server.sockets[0].getsockname()[1]
    try:
        yield provider
    finally:
        server.close()
