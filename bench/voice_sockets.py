"""Twenty pages that are no browsers talk to a real server in a process of its own, at once.

Each plays by the clock what it gets and says how much it has played, as a page does. What counts is
the client's time: how late a tick of its loudspeaker has the sound that it should play.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import msgspec
import numpy as np
from anyio.from_thread import run as in_loop
from figures import percentile
from voice_stage import ClockedSink, Microphone, SoundCard, fell_silent, silent_pct
from websockets.asyncio.client import ClientConnection, connect

from midflight.interfaces.voice.page_call import LINES_EACH
from midflight.interfaces.voice.speech.speech_engines import FRAME, RATE, WIDTH, silence
from midflight.interfaces.voice.voice_wire import ASKED
from voice.speakers import said

SESSIONS, SESSIONS_S = 20, 20.0
READY_S = 60.0
WARM_S = 4
MIDFLIGHT = str(Path(sys.executable).with_name("midflight"))
HERE = Path(__file__).resolve().parent
SPOKEN = "yeah", "flite:slt"
RESUMED = "resumed"


class Page:
    """One of them. ``sink`` is its loudspeaker."""

    def __init__(self, socket: ClientConnection, sink: ClockedSink) -> None:
        self._socket, self.sink = socket, sink
        self.outcomes: Counter[str] = Counter()
        self.last = ""  # of them
        self.troubles: list[str] = []
        self.opened = anyio.Event()  # its engines may have to be made first

    async def listen(self) -> None:
        """Do what the server says, until it is hung up."""
        async for message in self._socket:
            if isinstance(message, bytes):
                await self.sink.play(message)
            else:
                self.opened.set()
                await self._obey(msgspec.json.decode(message))

    async def _obey(self, told: dict[str, Any]) -> None:
        match told["t"]:
            case "hold":
                await self.sink.hold()
            case "go on":
                await self.sink.go_on()
            case "cut":
                played = await self.sink.cut()
                answer = {"t": "silenced", "played": played, "number": told["number"]}
                await self._socket.send(json.dumps(answer))
            case "outcome":
                self.outcomes[told["outcome"]] += 1
                self.last = told["outcome"]
            case "trouble":
                self.troubles.append(told["text"])
            case _:
                pass

    async def hang_up(self) -> None:
        await self._socket.close()

    async def hear(self, frame: bytes) -> None:
        """A frame of the microphone, and how much was played."""
        await self._socket.send(self.sink.played.to_bytes(4, "little") + frame)


@contextmanager
def server() -> Iterator[tuple[int, list[str]]]:
    """``midflight serve --voice``, as people run it: its port, and a token for each person."""
    with tempfile.TemporaryDirectory() as folder:
        keys = ["--keys", f"{folder}/keys.json"]
        tokens = [_issued(f"person-{number}", keys) for number in range(SESSIONS // LINES_EACH)]
        command = [MIDFLIGHT, "serve", "voice_scene:teller", "--voice", "--json", "--port", "0"]
        command += ["--store", f"{folder}/runs.db", "--workdir", folder, "--drain", "0", *keys]
        path = os.pathsep.join([str(HERE), str(HERE.parent / "tests")])
        env = {**os.environ, "PYTHONPATH": path}
        with subprocess.Popen(
            command, cwd=HERE, env=env, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                told = json.loads(process.stdout.readline())
                yield httpx.URL(told["url"]).port or 0, tokens
            finally:
                process.terminate()


def _issued(name: str, keys: list[str]) -> str:
    issue = [MIDFLIGHT, "token", name, "--role", "controller", *keys]
    return subprocess.run(
        issue, check=True, timeout=READY_S, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


async def _begin(port: int, headers: dict[str, str], thread: str, page: Page) -> None:
    """Have it told the tale, and wait for its first sound."""
    with anyio.fail_after(READY_S):
        await page.opened.wait()
    async with httpx.AsyncClient(headers=headers, timeout=READY_S) as http:
        body = {"agent": "teller", "brief": "Tell me", "thread": thread}
        begun = await http.post(f"http://127.0.0.1:{port}/v1/runs", json=body)
        begun.raise_for_status()
    with anyio.fail_after(READY_S):
        while not page.sink.played:  # noqa: ASYNC110 - a thread counts it
            await anyio.sleep(FRAME / RATE)


async def _breathe(pages: list[Page]) -> None:
    """Nobody says anything yet: who is on the line is there all the same, as a page is."""
    frame = breath(FRAME / RATE)
    while True:
        for page in pages:
            if page.opened.is_set():
                await page.hear(frame)
        await anyio.sleep(FRAME / RATE)


def breath(seconds: float) -> bytes:
    """Nobody speaks; a microphone that gives no sound at all would be told of."""
    faint = np.random.default_rng(1).integers(-2, 3, int(seconds * RATE))
    return bytes(faint.astype("<i2").tobytes())


async def _connected(port: int, headers: dict[str, str], number: int, sink: ClockedSink) -> Page:
    thread = f"t-page-{number}"
    url = f"ws://127.0.0.1:{port}/v1/threads/{thread}/voice"
    socket = await connect(url, additional_headers=headers, open_timeout=READY_S)
    await socket.send(json.dumps({"t": "hello", "rate": RATE}))
    return Page(socket, sink)


async def over_sockets() -> dict[str, Any]:
    """How late the sound of a tick is there, how often none is, and what came of what was said."""
    sinks = [ClockedSink() for _ in range(SESSIONS)]
    user = breath(2) + said(*SPOKEN) + breath(2.5)
    frames = [user[at : at + FRAME * WIDTH] for at in range(0, len(user), FRAME * WIDTH)]
    pages: list[Page] = []
    places = count()
    card = SoundCard(*sinks)

    async def hear(_: bytes) -> None:
        place = next(places)
        if place == WARM_S * RATE // FRAME:  # whoever was connected first has waited for the last
            card.late_ms.clear()
            for sink in sinks:
                sink.forget_gaps()
        for number, page in enumerate(pages):
            turn = place + number * len(frames) // SESSIONS
            await page.hear(frames[turn % len(frames)])

    with server() as (port, tokens), card:
        async with anyio.create_task_group() as tasks:
            async with anyio.create_task_group() as breathing:
                breathing.start_soon(_breathe, pages)
                for number, sink in enumerate(sinks):
                    token = tokens[number // LINES_EACH]
                    headers = {"authorization": f"Bearer {token}", "x-midflight": "1"}
                    pages.append(await _connected(port, headers, number, sink))
                    tasks.start_soon(pages[-1].listen)
                    await _begin(port, headers, f"t-page-{number}", pages[-1])
                breathing.cancel_scope.cancel()
            whole = silence(WARM_S + SESSIONS_S)
            microphone = Microphone(whole, lambda frame: in_loop(hear, frame))
            await anyio.to_thread.run_sync(microphone.run)
            for page in pages:
                page.sink.end(time.monotonic(), waits=page.last in ASKED)
            for page in pages:
                await page.hang_up()
    return _counted(pages, card)


def _counted(pages: list[Page], card: SoundCard) -> dict[str, Any]:
    troubles = {text for page in pages for text in page.troubles}
    if troubles:
        raise SystemExit(f"{SESSIONS} pages at once had trouble: {troubles}. Nothing is kept.")
    sinks = [page.sink for page in pages]
    asked = [page.outcomes.total() - page.outcomes[RESUMED] for page in pages]
    silent = fell_silent(sinks, asked)
    if silent:
        raise SystemExit(f"Of {SESSIONS} pages at once {silent}. Nothing is kept.")
    starved = [ms for sink in sinks for ms in sink.starved_ms]
    return {
        "socket_late_p99_ms": percentile([*card.late_ms * len(pages), *starved], 99),
        "socket_late_max_ms": max([*card.late_ms, *starved]),
        "socket_gaps": sum(sink.gaps for sink in sinks),
        "socket_silent_pct": silent_pct(sinks),
        "sockets_came_of": sum((page.outcomes for page in pages), Counter[str]()),
    }
