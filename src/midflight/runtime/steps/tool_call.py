"""One call of a tool in a task of its own, and how it is ended.

An abort is one edge cancel, then grace in which the tool's clean-up may await, then one more cancel
now and then. Not anyio's repeated delivery: that cuts ``finally: await close()`` short and spins at
full speed with a tool that swallows it.

A tool that has not ended ``stops_within`` seconds later is left behind: a coroutine is not resumed
any more, so that no line of it runs again; a thread is not waited for any more, and may still act.

A function in a thread may return something to await, as a lambda does that calls an async function.
The call has not ended then: the loop awaits the returned value, as it does for an async tool.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import math
import threading
import types
from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

from midflight.errors import CallFailed, CallRefused, InvalidRequest, ProcessNotStarted
from midflight.inputs import steady
from midflight.runtime.foreign import being_ended, ends_us, tamed
from midflight.runtime.steps.bounds import (
    NOBODY,
    Aborted,
    Alarms,
    Ending,
    Raised,
    Returned,
    StillAtWork,
    _awaited,
    _close,
    _is_to_await,
    _nothing,
    detachable,
    in_thread,
    in_time,
)
from midflight.tools.declaration import NotDone, Tool
from midflight.tools.processes.process import call_in_process, ended_of
from midflight.tools.processes.supervised import limit
from midflight.tools.progress import Ear, listener

GRACE_S: Final = 2.0
AGAIN_S: Final = 0.1
STUBBORN_S: Final = 5.0
log: Final = logging.getLogger(__name__)

in_step: Final[contextvars.ContextVar[Call | None]] = contextvars.ContextVar(
    "in_step", default=None
)
"""The call of a tool in which this code runs, also in tasks that the tool has begun."""


class _Thrown(Struct, frozen=True):
    """An error that a tool has raised in its thread.

    It is kept as a value: some errors mean something else to a coroutine that waits for a future.
    """

    error: BaseException


class _TooLate(Exception):
    """Raised when a thread is free for a call that may not begin any more."""


class Call:
    """A tool being called. Owned by the step that makes it."""

    __slots__ = (
        "_alarms",
        "_args",
        "_asked",
        "_began_at",
        "_door",
        "_ear",
        "_ends",
        "_kwargs",
        "_late",
        "_leave_at",
        "_left",
        "_may_begin",
        "_runs",
        "_since",
        "_stubborn_at",
        "_task",
        "_tell_late",
        "_until",
        "_waits",
        "_why",
        "stubborn",
        "tool",
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
        waits: Callable[[], None] = _nothing,
        late: Callable[[Ending], None] | None = None,
    ) -> None:
        self.tool = tool
        self.stubborn = False
        self._tell_late = late  # told how what was left behind has ended
        self._args = args
        self._kwargs = kwargs
        self._alarms = alarms
        self._ear = ear
        self._why = ""
        self._late = False
        self._task: asyncio.Task[Any] | None = None
        self._stubborn_at = 0.0
        self._leave_at = math.inf
        self._began_at = 0.0
        self._asked = ""  # why a thread is to end, which cannot be told to
        self._left = False
        self._ends = 0  # how often it was told that its process is ending, from the first time on
        self._since = since
        self._may_begin = may_begin  # asked once more where it has to wait for a thread
        self._until: float | None = None  # for what others rely on: by the steady clock
        self._runs = tool.runs  # "async" once a thread has returned something to await
        in_thread = tool.runs == "thread"  # the door: for its thread or an abort, who is first
        self._door: threading.Lock | None = threading.Lock() if in_thread else None
        self._waits = waits  # called as it begins to wait for something; before, no alarm can ring

    @property
    def running(self) -> bool:
        """True while the call is inside the tool."""
        return self._task is not None

    @property
    def timed_out(self) -> bool:
        """True if its time was over before it ended, and nobody had told it to end."""
        return self._late and not self._why

    async def run(self) -> Ending:
        """Call the tool and tell how it ended. Never raises what the tool raises."""
        self._task = asyncio.current_task()
        assert self._task is not None
        cancels = self._task.cancelling()
        mark, listens = in_step.set(self), listener.set(self._ear)
        if self._door is None and self.tool.effect.touches_world:
            self._until = self.tool.timeout + (steady() if self._since is None else self._since)
        within = limit.set(self._until)
        self._began_at = self._alarms.loop.time()
        try:
            if self._runs == "async":
                value = await self._within_bounds(self.tool.function(*self._args, **self._kwargs))
                while issubclass(type(value), Awaitable):  # or an ``await`` that was forgotten
                    value = await self._within_bounds(value)  # would pass for something done
            else:
                value = await self._elsewhere()
            return self._raised(tamed(value.error)) if type(value) is _Thrown else Returned(value)
        except asyncio.CancelledError as error:
            if self._left:
                return self._left_behind()
            if not self._why and being_ended():  # layer cancel-of-tool-own-not-taken
                raise  # somebody outside is ending *us*: never swallow it
            return self._cancelled(error)
        except BaseException as error:  # the edge of a step: it is recorded
            elsewhere = self._runs != "async"
            if ends_us(tamed(error), self._task, elsewhere=elsewhere):  # in no variable: it would
                raise  # keep this frame, and the frame keeps it
            return self._raised(tamed(error))
        finally:
            self._alarms.drop(self)
            limit.reset(within)
            listener.reset(listens)
            in_step.reset(mark)
            while self._task.cancelling() > cancels and not being_ended():
                self._task.uncancel()
            self._task = None

    def _raised(self, error: BaseException) -> Ending:
        if isinstance(error, _TooLate):
            return Aborted("it waited too long for a thread", began=False)
        if self._why:  # layer tool-proves-ended-in-time-has
            return self._aborted(error)
        if isinstance(error, TimeoutError) and self._late:
            return Raised(self._timed_out())
        # layer effect-arguments-do-not-fit
        return Raised(error, began=not (self._was_refused(error) or self._misfits(error)))

    def _misfits(self, error: BaseException) -> bool:
        """Return whether the arguments do not fit: then the first line of the tool has not run."""
        function = self.tool.function
        if not (isinstance(error, TypeError) and inspect.isfunction(function)):
            return False  # of anything else a wrapper may have begun
        try:
            inspect.signature(function, follow_wrapped=False).bind(*self._args, **self._kwargs)
        except TypeError:
            return True
        return False

    def _was_refused(self, error: BaseException) -> bool:
        """Return whether its process never ran; from within it the same error has another cause."""
        if self.tool.runs != "process" or isinstance(error.__cause__, CallFailed):
            return False
        return isinstance(error, ProcessNotStarted | CallRefused)

    def _cancelled(self, error: asyncio.CancelledError) -> Ending:
        """By us, because it took too long, or by itself."""
        if self._why:
            return self._aborted(error)
        return Raised(self._timed_out() if self._late else error)

    def _aborted(self, error: BaseException) -> Aborted:
        match self._runs:
            case "thread":
                return Aborted(self._why, began=False)  # what has begun there is not aborted
            case _ if isinstance(error, NotDone):  # layer aborted-and-knows-nothing-happened
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

        Once it was told to end, one now and then: it may have been deaf to the first. A call that
        has still not ended is left behind.
        """
        if self._door is not None and not self._why:  # a thread: only the wait for it can end
            self._left = self._late = True
            self._cancel()
            return None
        if now >= self._leave_at:  # layer coroutine-would-never-end-left
            self._left = True
        self._cancel()
        if self._why:
            self.stubborn = now >= self._stubborn_at
            return now + AGAIN_S
        if not self._late:
            self._late, self._leave_at = True, now + self.tool.stops_within
            return self._leave_at
        return now + AGAIN_S

    def _left_behind(self) -> Ending:
        """Say that it would not end, and whether it may still act."""
        about = {"action": "left_behind", "tool": self.tool.name, "runs": self.tool.runs}
        log.warning("Tool %s did not end in time and was left behind", self.tool.name, extra=about)
        if self._door is not None and not self._why:
            took = self._alarms.loop.time() - self._began_at
            words = f"it did not end within {self.tool.timeout:g} s and may still be at work"
            if self._asked:
                thread = f"it runs in a thread that has not ended after {took:.3g} s"
                return Aborted(
                    f"{self._asked}; {thread} and may still act", left=True, at_work=True
                )
            return Raised(StillAtWork(words), left=True, at_work=True)
        deaf = f"it ignored that for {self.tool.stops_within:g} s and was left behind"
        if self._why:
            return Aborted(f"{self._why}; {deaf}", left=True)
        return Raised(TimeoutError(f"{self._timed_out()}; {deaf}"), left=True)

    def _timed_out(self) -> TimeoutError:
        return TimeoutError(f"no end within {self.tool.timeout:g} s")

    async def _elsewhere(self) -> Any:
        """Call it in a process or in a thread."""
        self._wait()
        if self._runs == "process":
            return await call_in_process(self.tool.function, *self._args, **self._kwargs)
        found = await in_thread(self._in_thread, self._is_thread_left, self._ended_late)
        return await self._await_here(found) if _is_to_await(found) else found

    def _wait(self) -> None:
        """It waits for something, so it can take too long, and others can tell it to end."""
        if self._door is None or not self.tool.effect.touches_world:  # layer blocking-undo-waited
            self._alarms.set(self, self._began_at + self.tool.timeout)
        self._waits()

    async def _await_here(self, work: Awaitable[Any]) -> Any:
        """Await what a function in a thread has returned, as an async function is awaited.

        It has what is left of the call's time. If the call was told to end, no line of it runs.
        """
        self._door, self._runs = None, "async"
        if self._asked or self._late:
            _close(work)
            self._why, self._left = self._asked, False
            raise asyncio.CancelledError
        if self.tool.effect.touches_world:  # its thread had no timeout
            self._until = self.tool.timeout + (steady() if self._since is None else self._since)
            limit.set(self._until)  # which ``run`` resets
            self._alarms.set(self, self._began_at + self.tool.timeout)
        return await self._within_bounds(work)

    def _within_bounds(self, work: Awaitable[Any]) -> Awaitable[Any]:
        """Return it so that it can be left behind, and does not go on after its time."""
        if type(work) is not types.CoroutineType:
            work = _awaited(work)
        if self._until is None:
            return detachable(work, self._is_left, self._wait)
        return in_time(work, self._until, self._is_late, self._is_left, self._wait)

    def _is_left(self) -> bool:
        """Return whether a cancel that comes now ends the wait, and is not for the tool to hear.

        At the end of its process it hears of that once.
        """
        if self._ends:
            self._ends += 1
            self._left |= self._ends > 2
        return self._left

    def _is_thread_left(self) -> bool:
        """Return whether nobody waits for it any more, or it was told to end before it began."""
        return self._left or bool(self._why)

    def _is_late(self) -> bool:
        """Its time was over while nothing in this process moved: it is told once, as by a ring."""
        if self._late or self._why:
            return False
        self._alarms.drop(self)
        self._late = True
        return True

    def _in_thread(self) -> Any:
        assert self._door is not None
        if not self._door.acquire(blocking=False):  # layer thread-has-not-begun-never-does
            raise NotDone  # aborted while it waited for its thread; nobody hears this
        if not self._may_begin():
            raise _TooLate
        try:
            return self.tool.function(*self._args, **self._kwargs)
        except BaseException as error:  # noqa: BLE001 - told where it is waited for
            return _Thrown(error)

    def _ended_late(self, value: Any, error: BaseException | None) -> None:
        """A thread that was left behind has come to its end."""
        thrown = value.error if type(value) is _Thrown else error
        if _is_to_await(value):  # nobody awaits it any more, so nothing more is known
            _close(value)
        elif self._tell_late is not None:
            self._tell_late(Returned(value) if thrown is None else Raised(tamed(thrown)))

    def abort(self, why: str, *, hurry: bool = False) -> bool:
        """Tell it to end, at once, and again if need be. False where that cannot be.

        A thread cannot be ended: it is in flight until it returns. It is waited for until its
        timeout has passed; in a ``hurry`` only as long as anything else that would not end.
        """
        if self._why or not self.running:
            return False
        now = self._alarms.loop.time()
        if self._door is not None and not self._door.acquire(blocking=False):
            self._asked = why
            patience = 0.0 if hurry else self._began_at + self.tool.timeout
            self._alarms.set(self, max(patience, now + self.tool.stops_within))
            return False
        self._why = why
        self._leave_at = now + self.tool.stops_within
        self._stubborn_at = now + STUBBORN_S
        self._alarms.set(self, now + min(GRACE_S, self.tool.stops_within))
        self._cancel()
        return True

    def end_with_process(self, why: str) -> None:
        """Do not keep the process: leave a thread behind, and a coroutine after one more cancel."""
        if not self.running:
            return
        if self._door is not None and not self._why:
            self._asked, self._left = why, True
            self._cancel()
        else:
            self._ends = max(self._ends, 1)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def refuse_inside_a_step(what: str) -> None:
    """Code inside a step must get what it needs as arguments, or its record would lie."""
    if in_step.get() is not None:
        raise InvalidRequest(
            f"{what} cannot be used inside a step: use it outside, and pass the value to the "
            "step as an argument."
        )
