"""A runtime that claims everything and keeps nothing of it: the kit must see through each claim.

Its stop only keeps the next turn from being queued and says *stopped* at once; its pause holds
nothing; its resume begins anew; it drops messages that are sent while it works; effects that it
calls undone are still there; it does not look at what has changed meanwhile.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from midflight.kit.adapters import stage
from midflight.kit.adapters.on_asyncio import OnAsyncio


class OnBroken(OnAsyncio):
    """Each method is the mistake that its scenario is there for."""

    offers = frozenset(
        ["stop", "pause", "send", "crash", "again", "undo", "receipt", "stale", "switch"]
    )

    @override
    async def start(self, run: str, brief: str) -> None:
        (self.folder / f"{run}.brief").write_text(brief, encoding="utf-8")
        await super().start(run, brief)

    @override
    async def think(self, messages: list[Any]) -> dict[str, Any]:
        if messages[0].get("stopped"):
            return {"role": "assistant", "content": "stopped"}
        return await super().think([{k: m[k] for k in m if k != "stopped"} for m in messages])

    @override
    async def stop(self, run: str) -> list[str]:
        self.messages[run][0]["stopped"] = True
        return []

    @override
    async def ended(self, run: str) -> None:
        if not self.messages[run][0].get("stopped"):
            await super().ended(run)

    @override
    async def pause(self, run: str) -> None:
        """Nothing is held."""

    @override
    async def resume(self, run: str) -> None:
        await self.take_up(run)

    @override
    async def take_up(self, run: str) -> None:
        await self.start(run, (self.folder / f"{run}.brief").read_text(encoding="utf-8"))

    @override
    async def send(self, run: str, text: str) -> None:
        """Drop the message, or stop the run for an urgent one and begin another."""
        if "urgent" in text:
            await self.stop(run)
            await self.start(f"{run}.x", text)

    @override
    async def again(self, run: str, text: str) -> None:
        self.messages[run][0].pop("stopped", None)
        await super().again(run, text)

    @override
    async def asks(self, run: str) -> bool:
        return False

    @override
    async def receipt(self, run: str) -> dict[str, str]:
        return {f"{run}/a{number}": "undone" for number in range(9)}


if __name__ == "__main__":
    stage.serve(OnBroken)
