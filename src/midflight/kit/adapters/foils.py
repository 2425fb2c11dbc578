"""Faulty runtimes, on which the kit itself is tried: each method is the mistake of a metric."""

from __future__ import annotations

import sys
from typing import Any, Final

from typing_extensions import override

from midflight.kit.adapters import stage
from midflight.kit.adapters.on_asyncio import OnAsyncio
from midflight.kit.adapters.stage import Runtime

EVERY_VERB: Final = frozenset(
    ["stop", "pause", "send", "crash", "again", "undo", "receipt", "stale", "switch"]
)


class OnBroken(OnAsyncio):
    """A runtime that claims everything and keeps nothing of it: the kit must see through it.

    Its stop only keeps the next turn from being queued and says *stopped* at once; its pause holds
    nothing; its resume begins anew; it drops messages that are sent while it works; effects that it
    calls undone are still there; it does not look at what has changed meanwhile.
    """

    offers = EVERY_VERB

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


class OnForgetful(OnAsyncio):
    """A runtime that stops and holds as it says, and forgets everything else.

    It does right what ``OnBroken`` does wrong, and the reverse: a conversation goes on without what
    was said in it, a resume has nothing to go on with, a message is turned away, a task that was
    left for another begins from the start, a receipt is empty or knows nothing of the processes
    that were started, and the runtime cannot say how a run has ended.
    """

    offers = EVERY_VERB - {"stale"}

    @override
    async def ended(self, run: str) -> None:
        raise LookupError(f"what became of {run} is not known")

    @override
    async def pause(self, run: str) -> None:
        self.tasks[run].cancel()
        await self.over(run)

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
        await self.over(f"{run}.x")
        await self.start(run, brief)

    @override
    async def again(self, run: str, text: str) -> None:
        self.messages[run] = []
        await super().again(run, text)

    @override
    async def receipt(self, run: str) -> dict[str, str]:
        return {f"{run}/a1": "unknown"} if run.startswith("process") else {}


class OnIdle(Runtime):
    """A runtime that accepts every verb and never begins any work.

    Its figures would be the best of all if the kit did not check that there was work to interrupt.
    """

    offers = EVERY_VERB

    @override
    async def start(self, run: str, brief: str) -> None:
        """Nothing begins."""

    @override
    async def stop(self, run: str) -> list[str]:
        return []

    @override
    async def ended(self, run: str) -> None:
        """Nothing ends."""

    @override
    async def pause(self, run: str) -> None:
        """Nothing is held."""

    @override
    async def resume(self, run: str) -> None:
        """Nothing goes on."""

    @override
    async def take_up(self, run: str) -> None:
        """Nothing is taken up."""

    @override
    async def send(self, run: str, text: str) -> None:
        """Nothing is heard."""

    @override
    async def again(self, run: str, text: str) -> None:
        """Nothing is answered."""

    @override
    async def asks(self, run: str) -> bool:
        return True

    @override
    async def receipt(self, run: str) -> dict[str, str]:
        return {}


FOILS: Final[dict[str, type[Runtime]]] = {
    "broken": OnBroken,
    "forgetful": OnForgetful,
    "idle": OnIdle,
}

if __name__ == "__main__":
    stage.serve(FOILS[sys.argv[3]])
