"""A command: presses one verb on a run that another process drives, and prints the position.

    python command.py JOURNALS VERB RUN [MORE …]

It drives nothing and knows no agent.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec

from midflight.control import Ack, Control
from midflight.journal.record import Limits
from midflight.stores import open_store


async def press(control: Control, verb: str, run: str, *more: str) -> Ack:
    """One verb, as a person would type it."""
    said: list[Any] = [msgspec.json.decode(text) for text in more]
    match verb:
        case "raise_limits":
            return await control.raise_limits(run, Limits(steps=said[0]))
        case _:
            accepted: Ack = await getattr(control, verb)(run, *said)
            return accepted


async def main() -> None:
    """Open the journals beside whoever drives, and leave again."""
    address, verb, run, *more = sys.argv[1:]
    async with open_store(address) as store:
        accepted = await press(Control(store), verb, run, *more)
    sys.stdout.write(f"{accepted.position}\n")


if __name__ == "__main__":
    asyncio.run(main())
