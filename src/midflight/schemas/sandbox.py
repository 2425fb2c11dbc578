"""Check a value in a process of its own, which can be ended: for schemas with patterns.

A regular expression can take for ever, and ``re`` neither yields nor can be stopped. Run as a
module this is that process: it reads ``[value, schema]`` as JSON and writes what does not fit.
"""

from __future__ import annotations

import sys
from subprocess import DEVNULL, PIPE
from typing import Final

import anyio
import msgspec
from anyio.lowlevel import RunVar
from msgspec import Struct

from midflight.errors import InvalidRequest
from midflight.schemas.evaluation import TooMuchWork, first_misfit

DEADLINE_S: Final = 5.0  # the process needs 0.2 s to start; more, where the machine is busy
AT_ONCE: Final = 2

_turns: RunVar[anyio.Semaphore] = RunVar("midflight_schema_checks")


class Misfit(Struct, frozen=True):
    """The place at which a value does not fit, and the reason."""

    where: str
    why: str


async def misfit_apart(value: object, schema: object) -> Misfit | None:
    """Return what does not fit; InvalidRequest if that cannot be found out in time."""
    command = [sys.executable, "-P", "-m", __name__]
    asked = msgspec.json.encode([value, schema])
    async with _turn():
        with anyio.move_on_after(DEADLINE_S):
            done = await anyio.run_process(
                command, input=asked, stdout=PIPE, stderr=DEVNULL, check=False
            )
            if done.returncode == 0:
                return msgspec.json.decode(done.stdout, type=Misfit | None)
    raise InvalidRequest(
        f"the answer could not be checked within {DEADLINE_S:g} s: the patterns in the schema of "
        "the question take too long with it. The question is still open."
    )


def _turn() -> anyio.Semaphore:
    try:
        return _turns.get()
    except LookupError:
        _turns.set(anyio.Semaphore(AT_ONCE))
        return _turns.get()


def main() -> None:
    """Answer one question on standard input."""
    value, schema = msgspec.json.decode(sys.stdin.buffer.read())
    try:
        found = first_misfit(value, schema, patterns=True)
    except (TooMuchWork, RecursionError):
        sys.exit(1)
    misfit = Misfit(found.json_path, found.message[:2_000]) if found is not None else None
    sys.stdout.buffer.write(msgspec.json.encode(misfit))


if __name__ == "__main__":
    main()
