"""A runtime that stops and holds as it says, and forgets everything else.

It does right what ``on_broken`` does wrong, and the reverse: a conversation goes on without what
was said in it, a resume has nothing to go on with, a message is turned away, a task that was left
for another begins from the start, a receipt is empty or knows nothing of the processes that were
started, and the runtime cannot say how a run has ended.
"""

from __future__ import annotations

from typing_extensions import override

from midflight.kit.adapters import stage
from midflight.kit.adapters.on_asyncio import OnAsyncio


class OnForgetful(OnAsyncio):
    """Each method is the mistake that a metric is there for."""

    offers = frozenset(["stop", "pause", "send", "crash", "again", "undo", "receipt", "switch"])

    @override
    async def ended(self, run: str) -> None:
        raise LookupError(f"what became of {run} is not known")

    @override
    async def pause(self, run: str) -> None:
        self.tasks.running[run].cancel()
        await self.tasks.over(run)

    @override
    async def resume(self, run: str) -> None:
        """Nothing is left of the run."""

    @override
    async def take_up(self, run: str) -> None:
        """Nothing is left of the run after a crash either."""

    @override
    async def send(self, run: str, text: str) -> None:
        if "urgent" not in text:
            raise BufferError("no message is taken while it works")
        brief = self.messages[run][0]["content"]
        await self.start(f"{run}.x", text)
        await self.tasks.over(f"{run}.x")
        await self.start(run, brief)

    @override
    async def again(self, run: str, text: str) -> None:
        self.messages[run] = []
        await super().again(run, text)

    @override
    async def receipt(self, run: str) -> dict[str, str]:
        return {f"{run}/a1": "unknown"} if run.startswith("process") else {}


if __name__ == "__main__":
    stage.serve(OnForgetful)
