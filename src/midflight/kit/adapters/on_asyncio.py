"""A hand-written loop on plain asyncio, as one writes it without any runtime.

The ``openai`` SDK streams; tools are awaited one after the other, blocking ones by
``asyncio.to_thread``; stop is ``Task.cancel`` (docs.python.org, "Task Cancellation"), a message
goes to a list that the loop looks at between two turns. Nothing is kept when the process ends.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from typing_extensions import override

from midflight.kit.adapters import stage, tools
from midflight.kit.adapters.stage import Runtime

TOOLS: dict[str, Callable[..., Any]] = {tool.__name__: tool for tool in tools.TOOLS}
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "ms": {"type": "integer"}},
    "required": ["item", "ms"],
}


class OnAsyncio(Runtime):
    """A list of messages and a task for each run."""

    offers = frozenset({"stop", "again", "send"})

    def __init__(self, folder: Path, model_url: str) -> None:
        super().__init__(folder, model_url)
        self.client = AsyncOpenAI(base_url=model_url, api_key="kit", max_retries=0)
        self.messages: dict[str, list[Any]] = {}
        self.inbox: defaultdict[str, list[str]] = defaultdict(list)

    @override
    async def start(self, run: str, brief: str) -> None:
        self.messages[run] = [{"role": "user", "content": brief}]
        self.begin(run, self.work(run))

    async def work(self, run: str) -> None:
        """Think, act, listen, repeat."""
        messages = self.messages[run]
        while True:
            reply = await self.think(messages)
            messages.append(reply)
            for call in reply.get("tool_calls", ()):
                result = await self.act(call)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
            heard = [{"role": "user", "content": text} for text in self.inbox.pop(run, ())]
            messages += heard
            if not (reply.get("tool_calls") or heard):
                return

    async def think(self, messages: list[Any]) -> dict[str, Any]:
        """Return one answer of the model, put together from its stream."""
        told: Any = [
            {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in TOOLS
        ]
        stream = await self.client.chat.completions.create(
            model="kit", messages=messages, stream=True, tools=told
        )
        text, calls = "", []
        async with stream:
            async for chunk in stream:
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    calls += [call.model_dump() for call in choice.delta.tool_calls or ()]
        made = [{"id": c["id"], "type": "function", "function": c["function"]} for c in calls]
        reply: dict[str, Any] = {"role": "assistant", "content": text}
        return reply | ({"tool_calls": made} if made else {})

    async def act(self, call: Any) -> str:
        """Call one tool, and return its result."""
        tool = TOOLS[call["function"]["name"]]
        arguments = json.loads(call["function"]["arguments"])
        if inspect.iscoroutinefunction(tool):
            return str(await tool(**arguments))
        return str(await asyncio.to_thread(tool, **arguments))

    @override
    async def stop(self, run: str) -> list[str]:
        self.tasks[run].cancel()
        return []

    @override
    async def send(self, run: str, text: str) -> None:
        self.inbox[run].append(text)

    @override
    async def again(self, run: str, text: str) -> None:
        self.messages[run].append({"role": "user", "content": text})
        self.begin(run, self.work(run))
        await self.over(run)


if __name__ == "__main__":
    stage.serve(OnAsyncio)
