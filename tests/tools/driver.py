"""A driver for tests that kill it, or that must not touch the test's own process.

python driver.py TOKEN MODE COMMAND …
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

from midflight.tools.processes.process import Ended, ended_of, run_process
from midflight.tools.processes.supervisor import become_subreaper, children_of


def pass_on(_: str, data: bytes) -> None:
    os.write(1, data)


def fork_that_holds_our_pipes(_: str, data: bytes) -> None:
    holder = os.fork()
    if holder == 0:
        time.sleep(60)
        os._exit(0)
    os.write(1, f"{holder}\n".encode())


def say(ended: Ended) -> None:
    facts = {
        "children": children_of(os.getpid()),
        "proven": ended.proven_dead,
        "signal": ended.signal,
        "survivors": ended.survivors,
    }
    os.write(1, json.dumps(facts).encode() + b"\n")


async def main(mode: str, command: list[str]) -> None:
    match mode:
        case "run":
            say(await run_process(command, on_output=pass_on))
        case "fork":
            await run_process(command, on_output=fork_that_holds_our_pipes)
        case "subreaper":
            assert become_subreaper()
            say(await run_process(command))
        case "cancel":
            say(await cancelled_when_up(command))
        case _:
            raise ValueError(mode)


async def cancelled_when_up(command: list[str]) -> Ended:
    def cancel(_: str, __: bytes) -> None:
        task.cancel()

    task = asyncio.get_running_loop().create_task(run_process(command, on_output=cancel))
    try:
        return await task
    except asyncio.CancelledError as error:
        ended = ended_of(error)
        assert ended is not None
        return ended


if __name__ == "__main__":
    asyncio.run(main(sys.argv[2], sys.argv[3:]))
