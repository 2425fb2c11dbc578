"""One call of a tool in a task of its own, and how it is ended.

An abort is one edge cancel, then grace in which the tool's clean-up may await, then one more cancel
now and then. Not anyio's repeated delivery: that cuts ``finally: await close()`` short and spins at
full speed with a tool that swallows it.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any, Final

import anyio
from msgspec import Struct

from midflight.errors import InvalidRequest
from midflight.tools.base import Tool

GRACE_S: Final = 2.0
AGAIN_S: Final = 0.1
STUBBORN_S: Final = 5.0
THREADS: Final = 256  # tools in threads at once, over all runs; a blocked one keeps its thread

in_step: Final = contextvars.ContextVar("in_step", default=False)


class Aborted(Struct, frozen=True):
    """We ended it; how much of it happened is not known."""

    why: str


class Returned(Struct, frozen=True):
    """It came to its end."""

    value: Any


class Raised(Struct, frozen=True):
    """It failed by itself."""

    error: BaseException


Ending = Aborted | Returned | Raised


class Call:
    """A tool being called. Owned by the step that makes it."""

    def __init__(self, tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.tool = tool
        self.stubborn = False
        self._args = args
        self._kwargs = kwargs
        self._why = ""
        self._task: asyncio.Task[Any] | None = None
        self._over = anyio.Event()

    @property
    def running(self) -> bool:
        """Whether it is inside the tool now."""
        return self._task is not None

    @property
    def aborting(self) -> bool:
        """Whether we have begun to end it, or cannot."""
        return bool(self._why) or self.tool.runs == "thread"

    async def run(self) -> Ending:
        """Call the tool and tell how it ended. Never raises what the tool raises."""
        self._task = asyncio.current_task()
        assert self._task is not None
        mark = in_step.set(True)
        try:
            async with asyncio.timeout(self._timeout):
                return Returned(await self._invoke())
        except asyncio.CancelledError:
            if not self._why:
                raise  # somebody outside is ending *us*: never swallow it
            return Aborted(self._why)
        except TimeoutError:
            return Raised(TimeoutError(f"no end within {self.tool.timeout:g} s"))
        except Exception as error:  # noqa: BLE001 - the edge of a step: it is recorded
            return Aborted(self._why) if self._why else Raised(error)
        finally:
            in_step.reset(mark)
            while self._why and self._task.uncancel():
                pass
            self._task = None
            self._over.set()

    @property
    def _timeout(self) -> float | None:
        return None if self.tool.runs == "thread" else self.tool.timeout

    async def _invoke(self) -> Any:
        function, args, kwargs = self.tool.function, self._args, self._kwargs
        match self.tool.runs:
            case "thread":
                context = contextvars.copy_context()
                return await anyio.to_thread.run_sync(
                    lambda: context.run(function, *args, **kwargs), limiter=_threads()
                )
            case "process":
                from midflight.tools.process import call_in_process

                return await call_in_process(function, *args, **kwargs)
            case _:
                return await function(*args, **kwargs)

    async def abort(self, why: str) -> None:
        """End it, as gently as it lets us, and wait until it has ended."""
        if self.begin_abort(why):
            await self.see_out()

    def begin_abort(self, why: str) -> bool:
        """Tell it to end, at once and not in a turn of the loop. False where that cannot be."""
        if self._why or not self.running or self.tool.runs == "thread":
            return False  # a thread cannot be ended: it is in flight until it returns
        self._why = why
        self._cancel()
        return True

    async def see_out(self) -> None:
        """Wait until what was told to end has ended; tell it again if need be."""
        began = anyio.current_time()
        with anyio.move_on_after(GRACE_S):
            await self._over.wait()
        while not self._over.is_set():
            self.stubborn = anyio.current_time() - began >= STUBBORN_S
            self._cancel()
            with anyio.move_on_after(AGAIN_S):
                await self._over.wait()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def refuse_inside_a_step(what: str) -> None:
    """Code inside a step must get what it needs as arguments, or its record would lie."""
    if in_step.get():
        raise InvalidRequest(f"{what} cannot be used inside a step: pass what it needs in.")


_limiters: dict[int, anyio.CapacityLimiter] = {}


def _threads() -> anyio.CapacityLimiter:
    loop = id(asyncio.get_running_loop())
    return _limiters.setdefault(loop, anyio.CapacityLimiter(THREADS))
