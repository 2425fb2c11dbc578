"""OpenAI Agents SDK: ``Runner.run_streamed`` with a ``SQLiteSession``.

By the pages "Streaming", "Results", "Sessions" and "Tools" of its documentation: stop
is ``result.cancel()``, after which the stream is read to its end; pause is
``cancel(mode="after_turn")``, and resume is a run from ``result.to_state()``. A message is given to
that state by ``RunState.add_input`` between the two, or begins a further run if none is left. The
conversation goes on through the session. It keeps no run over a crash without an engine beside it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    SQLiteSession,
    UserError,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from typing_extensions import override

from midflight.kit.adapters import stage, tools
from midflight.kit.adapters.stage import Runtime


class OnOpenaiAgents(Runtime):
    """One agent; a session and a result for each run."""

    offers = frozenset({"stop", "pause", "again", "send"})

    def __init__(self, folder: Path, model_url: str) -> None:
        super().__init__(folder, model_url)
        set_tracing_disabled(True)
        client = AsyncOpenAI(base_url=model_url, api_key="kit", max_retries=0)
        self._agent = Agent(
            name="clerk",
            model=OpenAIChatCompletionsModel("kit", client),
            tools=[function_tool(tool) for tool in tools.TOOLS],
        )
        self._results: dict[str, Any] = {}
        self._sessions: dict[str, SQLiteSession] = {}
        self._unread: defaultdict[str, list[str]] = defaultdict(list)
        self._turn: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def _begin(self, run: str, given: Any) -> None:
        session = self._sessions.setdefault(run, SQLiteSession(run, self.folder / "sessions.db"))
        result = Runner.run_streamed(self._agent, given, session=session)
        self._results[run] = result
        self.begin(run, self._read(result))

    async def _read(self, result: Any) -> None:
        async for _ in result.stream_events():
            pass

    @override
    async def start(self, run: str, brief: str) -> None:
        self._begin(run, brief)

    @override
    async def stop(self, run: str) -> list[str]:
        self._results[run].cancel()
        return []

    @override
    async def pause(self, run: str) -> None:
        self._results[run].cancel(mode="after_turn")
        await self.over(run)

    @override
    async def resume(self, run: str) -> None:
        self._begin(run, self._results[run].to_state())

    @override
    async def send(self, run: str, text: str) -> None:
        self._unread[run].append(text)
        async with self._turn[run]:
            if not self._unread[run]:
                return  # it went with that of another
            await self.pause(run)
            said: list[Any] = [{"role": "user", "content": t} for t in self._unread.pop(run)]
            state = self._results[run].to_state()
            try:
                state.add_input(said)
            except UserError:  # the run has come to its end meanwhile
                self._begin(run, said)
            else:
                self._begin(run, state)


if __name__ == "__main__":
    stage.serve(OnOpenaiAgents)
