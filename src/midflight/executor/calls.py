"""One call of a tool in a task of its own, and how it is ended.

An abort is one edge cancel, then grace in which the tool's clean-up may await, then one more cancel
now and then. Not anyio's repeated delivery: that cuts ``finally: await close()`` short and spins at
full speed with a tool that swallows it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import math
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
from msgspec import Struct

from midflight.errors import CallFailed, CallRefused, InvalidRequest, ProcessNotStarted
from midflight.executor.alarms import Alarms
from midflight.executor.in_time import in_time
from midflight.inputs import steady
from midflight.kernel.record import Usage
from midflight.tools.base import NotDone, Tool
from midflight.tools.process import call_in_process, ended_of
from midflight.tools.progress import Ear, listening, stop_listening
from midflight.tools.supervised import limit

GRACE_S: Final = 2.0
AGAIN_S: Final = 0.1
STUBBORN_S: Final = 5.0
THREADS: Final = 256  # tools in threads at once, over all runs; a blocked one keeps its thread

in_step: Final = contextvars.ContextVar("in_step", default=False)


class Aborted(Struct, frozen=True):
    """We ended it. How much of it happened is not known, unless it had not even begun.

    Or the tool itself knows that nothing did: then that is ``proven``.
    """

    why: str
    began: bool = True
    proven: bool = False


class Returned(Struct, frozen=True):
    """It came to its end."""

    value: Any


class Raised(Struct, frozen=True):
    """It failed by itself; or could not even begin."""

    error: BaseException
    began: bool = True


Ending = Aborted | Returned | Raised


def _door(tool: Tool) -> threading.Lock | None:
    return threading.Lock() if tool.runs == "thread" else None


class _TooLate(Exception):
    """When there was a thread for it, it might not begin any more."""


class Nobody:
    """Listens to what an undo or a check says."""

    def hear(self, text: str) -> None:
        """It is for nobody."""

    def pay(self, usage: Usage) -> None:
        """It is on the house."""


NOBODY: Final = Nobody()


class Call:
    """A tool being called. Owned by the step that makes it."""

    __slots__ = (
        "_alarms", "_args", "_door", "_ear", "_kwargs", "_late", "_may_begin", "_since",
        "_stubborn_at", "_task", "_until", "_why", "stubborn", "tool",
    )  # fmt: skip

    def __init__(
        self,
        tool: Tool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        alarms: Alarms,
        ear: Ear = NOBODY,
        *,
        since: float | None = None,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> None:
        self.tool = tool
        self.stubborn = False
        self._args = args
        self._kwargs = kwargs
        self._alarms = alarms
        self._ear = ear
        self._why = ""
        self._late = False
        self._task: asyncio.Task[Any] | None = None
        self._stubborn_at = 0.0
        self._since = since
        self._may_begin = may_begin  # asked once more where it has to wait for a thread
        self._until: float | None = None  # for what others rely on: by the steady clock
        self._door = _door(tool)  # taken by the tool's thread or by an abort, whoever is first

    @property
    def running(self) -> bool:
        """Whether it is inside the tool now."""
        return self._task is not None

    async def run(self) -> Ending:
        """Call the tool and tell how it ended. Never raises what the tool raises."""
        self._task = asyncio.current_task()
        assert self._task is not None
        cancels = self._task.cancelling()
        mark, listens = in_step.set(True), listening(self._ear)
        if self._door is None and self.tool.effect.touches_world:
            self._until = self.tool.timeout + (steady() if self._since is None else self._since)
        within = limit.set(self._until)
        if self._door is None:
            self._alarms.set(self, self._alarms.loop.time() + self.tool.timeout)
        try:
            return Returned(await self._invoke())
        except (GeneratorExit, KeyboardInterrupt):
            raise
        except asyncio.CancelledError as error:
            if not self._why and being_ended():
                raise  # somebody outside is ending *us*: never swallow it
            return self._cancelled(error)
        except BaseException as error:  # noqa: BLE001 - the edge of a step: it is recorded
            return self._raised(error)
        finally:
            self._alarms.drop(self)
            limit.reset(within)
            stop_listening(listens)
            in_step.reset(mark)
            while self._task.cancelling() > cancels and not being_ended():
                self._task.uncancel()
            self._task = None

    def _raised(self, error: BaseException) -> Ending:
        if isinstance(error, _TooLate):
            return Aborted("it waited too long for a thread", began=False)
        if self._why:
            return self._aborted(error)
        if isinstance(error, TimeoutError) and self._late:
            return Raised(self._timed_out())
        return Raised(error, began=not (self._was_refused(error) or self._misfits(error)))

    def _misfits(self, error: BaseException) -> bool:
        """Whether its arguments do not fit: then its first line has not run."""
        function = self.tool.function
        if not (isinstance(error, TypeError) and inspect.isfunction(function)):
            return False  # of anything else a wrapper may have begun
        try:
            inspect.signature(function, follow_wrapped=False).bind(*self._args, **self._kwargs)
        except TypeError:
            return True
        return False

    def _was_refused(self, error: BaseException) -> bool:
        """Whether its process never ran; from within it the same error has another cause."""
        if self.tool.runs != "process" or isinstance(error.__cause__, CallFailed):
            return False
        return isinstance(error, ProcessNotStarted | CallRefused)

    def _cancelled(self, error: asyncio.CancelledError) -> Ending:
        """By us, because it took too long, or by itself."""
        if self._why:
            return self._aborted(error)
        return Raised(self._timed_out() if self._late else error)

    def _aborted(self, error: BaseException) -> Aborted:
        match self.tool.runs:
            case "thread":
                return Aborted(self._why, began=False)  # what has begun there is not aborted
            case _ if isinstance(error, NotDone):
                return Aborted(self._why, proven=True)
            case "process":
                ended = ended_of(error)
                if ended is None or not ended.started:
                    return Aborted(self._why, began=False)
                left = "" if ended.proven_dead else "; processes that it started may still run"
                return Aborted(self._why + left)
            case _:
                return Aborted(self._why)

    def ring(self, now: float) -> float | None:
        """It has taken too long: one cancel, which it may still make a result of.

        Once it was told to end, one now and then: it may have been deaf to the first.
        """
        self._cancel()
        if self._why:
            self.stubborn = now >= self._stubborn_at
            return now + AGAIN_S
        self._late = True
        return None

    def _timed_out(self) -> TimeoutError:
        return TimeoutError(f"no end within {self.tool.timeout:g} s")

    async def _invoke(self) -> Any:
        function, args, kwargs = self.tool.function, self._args, self._kwargs
        match self.tool.runs:
            case "thread":
                context = contextvars.copy_context()
                return await anyio.to_thread.run_sync(
                    lambda: context.run(self._in_thread), limiter=_threads()
                )
            case "process":
                return await call_in_process(function, *args, **kwargs)
            case _:
                if self._until is None:
                    return await function(*args, **kwargs)
                return await in_time(
                    _awaited(function(*args, **kwargs)), self._until, self._is_late
                )

    def _is_late(self) -> bool:
        """Its time was over while nothing in this process moved: it is told once, as by a ring."""
        if self._late or self._why:
            return False
        self._alarms.drop(self)
        self._late = True
        return True

    def _in_thread(self) -> Any:
        assert self._door is not None
        if not self._door.acquire(blocking=False):
            raise NotDone  # aborted while it waited for its thread; nobody hears this
        if not self._may_begin():
            raise _TooLate
        return self.tool.function(*self._args, **self._kwargs)

    def abort(self, why: str) -> bool:
        """Tell it to end, at once, and again if need be. False where that cannot be."""
        if self._why or not self.running:
            return False
        if self._door is not None and not self._door.acquire(blocking=False):
            return False  # a thread cannot be ended: it is in flight until it returns
        self._why = why
        now = self._alarms.loop.time()
        self._stubborn_at = now + STUBBORN_S
        self._alarms.set(self, now + GRACE_S)
        self._cancel()
        return True

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def _awaited(work: Awaitable[Any]) -> Any:
    """It may be something else than a coroutine."""
    return await work


def being_ended() -> bool:
    """Whether the driver around us is being ended, rather than the tool or function in it.

    A cancel may as well be its own: it has cancelled itself, or waited for something cancelled.
    """
    return anyio.current_effective_deadline() == -math.inf


def refuse_inside_a_step(what: str) -> None:
    """Code inside a step must get what it needs as arguments, or its record would lie."""
    if in_step.get():
        raise InvalidRequest(f"{what} cannot be used inside a step: pass what it needs in.")


_limiters: dict[int, anyio.CapacityLimiter] = {}


def _threads() -> anyio.CapacityLimiter:
    loop = id(asyncio.get_running_loop())
    return _limiters.setdefault(loop, anyio.CapacityLimiter(THREADS))
