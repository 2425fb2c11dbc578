"""Pydantic AI: ``Agent.iter`` with every model response streamed.

By the pages "Agents" (cancelling a run, adding messages to a running run) and "Messages and chat
history" of its documentation: stop is a ``CancellationToken``, which works before the run has begun
too; a message is ``AgentRun.enqueue(priority="asap")``; the conversation goes on with
``RunCancelled.all_messages()`` as history, through ``repair_messages``: without it a new prompt was
refused where tools had ended at the moment of the stop. It has no verb for pause, and keeps no run
over a crash without an engine beside it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, CancellationToken
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import repair_messages
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from typing_extensions import override

from midflight.kit.adapters import stage, tools
from midflight.kit.adapters.stage import Runtime


class OnPydanticAi(Runtime):
    """One agent; a token and a history for each run."""

    offers = frozenset({"stop", "send", "again"})

    def __init__(self, folder: Path, model_url: str) -> None:
        super().__init__(folder, model_url)
        model = OpenAIChatModel("kit", provider=OpenAIProvider(base_url=model_url, api_key="kit"))
        self._agent: Agent[None, str] = Agent(model, tools=tools.TOOLS)
        self._tokens: dict[str, CancellationToken] = {}
        self._history: dict[str, Any] = {}
        self._runs: dict[str, asyncio.Future[Any]] = {}

    async def _work(self, run: str, text: str) -> None:
        try:
            async with self._agent.iter(
                text, message_history=self._history.get(run), cancellation_token=self._tokens[run]
            ) as working:
                self._runs[run].set_result(working)
                async for node in working:
                    if Agent.is_model_request_node(node):
                        async with node.stream(working.ctx) as stream:
                            async for _ in stream:
                                pass
                self._history[run] = working.all_messages()
        except RunCancelled as cancelled:
            self._history[run] = repair_messages(cancelled.all_messages())

    @override
    async def start(self, run: str, brief: str) -> None:
        self._tokens[run] = CancellationToken()
        self._runs[run] = asyncio.get_running_loop().create_future()
        self.begin(run, self._work(run, brief))

    @override
    async def stop(self, run: str) -> list[str]:
        self._tokens[run].cancel()
        return []

    @override
    async def send(self, run: str, text: str) -> None:
        (await self._runs[run]).enqueue(text, priority="asap")


if __name__ == "__main__":
    stage.serve(OnPydanticAi)
