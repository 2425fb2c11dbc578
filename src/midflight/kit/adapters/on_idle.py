"""A runtime that accepts every verb and never begins any work.

Its figures would be the best of all if the kit did not check that there was work to interrupt.
"""

from __future__ import annotations

from typing_extensions import override

from midflight.kit.adapters import stage
from midflight.kit.adapters.stage import Runtime


class OnIdle(Runtime):
    """Every verb returns at once."""

    offers = frozenset(
        ["stop", "pause", "send", "crash", "again", "undo", "receipt", "stale", "switch"]
    )

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


if __name__ == "__main__":
    stage.serve(OnIdle)
