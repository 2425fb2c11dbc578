"""Code that was left behind is not resumed any more, not even when the interpreter ends."""

from __future__ import annotations

import subprocess
import sys

from scenarios.stories import environment

PROGRAM = """
import asyncio
from midflight.runtime.steps.bounds import detachable

class Turned(Exception):
    pass

async def stubborn():
    try:
        await asyncio.sleep(3600)
    except Turned:  # at the interpreter's end this name is gone
        pass
    finally:
        print("resumed")

async def main():
    async def life():
        await detachable(stubborn(), lambda: True)

    task = asyncio.create_task(life())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})

asyncio.run(main())
"""


def test_code_that_was_left_behind_is_not_resumed_when_the_interpreter_ends() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment(), capture_output=True, timeout=60
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
