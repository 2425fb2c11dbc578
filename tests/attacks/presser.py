"""A program that starts, pauses, resumes and cancels runs until somebody ends it,
and says of each when it is acknowledged.

python presser.py ADDRESS NAME
"""

from __future__ import annotations

import asyncio
import sys

from midflight.control import Control
from midflight.journal.record import Actor
from midflight.stores import open_store


async def main(address: str, name: str) -> None:
    async with open_store(address) as store:
        control = Control(store, who=Actor(by=name))
        while True:
            run = await control.start("clerk", "work")
            for press in (control.pause, control.resume, control.cancel):
                done = await press(run)
                sys.stdout.write(f"{run} {done.verb} {done.position}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
