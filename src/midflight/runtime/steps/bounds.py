"""Bounds on code of others: its time, its thread, and how to leave it behind.

A coroutine that swallows every exception cannot be ended: each cancel only makes it go round once
more, and a loop that closes waits for it for ever. But it runs only while somebody resumes it.
``detachable`` stands between the task and the coroutine, and stops resuming it when told to.

A timer is not enough where the whole process was stopped, or the machine slept: an answer to the
tool may have come before that, and then its next line is run on waking, before any timer. Others
may by then have looked up what became of it, and rely on its timeout. ``in_time`` looks at the
clock before each line.

Most calls end long before their time, so each costs an entry in ``Alarms`` and no timer of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ctypes
import threading
import types
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, ClassVar, Final, Protocol, TypeVar
from weakref import WeakKeyDictionary

import anyio
from anyio._backends import _asyncio as anyio_asyncio
from msgspec import Struct

from midflight.inputs import steady
from midflight.journal.record import Usage

PER_ENTRY_S: Final = 1e-5  # between looks: one takes a tenth of a microsecond an entry
T = TypeVar("T")

THREADS: Final = 256  # at once, over all runs; a function that never ends keeps its thread

_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, anyio.CapacityLimiter] = WeakKeyDictionary()


class Timed(Protocol):
    """A call that may take too long."""

    def ring(self, now: float) -> float | None:
        """Its time has come, by the loop's clock. Returns when to look again, if ever."""


def _where_anyio_knows_the_loop() -> contextvars.Context:
    """A context to begin tasks in, also from a callback of the loop.

    Where sniffio is installed, as beside many SDKs, anyio asks it, and it knows the loop of a task
    only.
    """
    context = contextvars.copy_context()
    try:
        from sniffio import current_async_library_cvar
    except ImportError:
        return context
    context.run(current_async_library_cvar.set, "asyncio")  # layer anyio-knows-loop-also
    return context


class Alarms:
    """The alarms of one engine. They are closed with it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()  # in which the loop runs
        self._due: dict[Timed, float] = {}
        self._timers: list[asyncio.TimerHandle] = []  # the soonest last
        self._context = contextvars.copy_context()  # not that of the code that sets a timer
        self.home = _where_anyio_knows_the_loop()

    def set(self, timed: Timed, due: float) -> None:
        """Ring it at this time of the loop's clock, unless it is dropped before."""
        self._due[timed] = due
        self._look_at(due)

    def drop(self, timed: Timed) -> None:
        """It has ended. The timer stays: the next one to begin will want it."""
        self._due.pop(timed, None)

    def close(self) -> None:
        """Ring no more."""
        self._due.clear()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _look_at(self, due: float) -> None:
        """Unless somebody looks before. A later timer stays: a loop keeps what is cancelled."""
        if not self._timers or due < self._timers[-1].when():
            timer = self.loop.call_at(due, self._look, context=self._context)
            self._timers.append(timer)

    def _look(self) -> None:
        now = max(self._timers.pop().when(), self.loop.time())
        for timed in [timed for timed, due in self._due.items() if due <= now]:
            later = timed.ring(now)
            if later is None:
                self.drop(timed)
            else:
                self._due[timed] = later
        if self._due:  # very many are not looked at each time that one of them is due
            soonest = now + PER_ENTRY_S * len(self._due)
            self._look_at(max(soonest, min(self._due.values())))


def innermost_scope() -> Any:
    """The cancel scope in which this task is now. There is no public way to it."""
    task = asyncio.current_task()
    state = anyio_asyncio._task_states.get(task) if task is not None else None
    return state.cancel_scope if state is not None else None


def abandon(coroutine: Coroutine[Any, Any, Any], begun_in: Any) -> None:
    """Leave it behind, in the task that has resumed it so far, ``begun_in`` this cancel scope.

    The scopes that it has left open in the task are closed, and what is in them is cancelled. It
    will never do so itself, and a task that ends with an open scope breaks its task group.

    It is never collected, which would resume it, not even when the interpreter ends and clears the
    modules whose names it uses. No variable lives as long as that: a reference is counted instead.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(coroutine))
    while (scope := innermost_scope()) is not None and scope is not begun_in:
        scope.__exit__(None, None, None)
        scope.cancel()


def _nothing() -> None:
    """Nobody wants to hear that a call waits."""


@types.coroutine
def detachable(
    coroutine: Coroutine[Any, Any, T],
    detached: Callable[[], bool],
    waits: Callable[[], None] | None = None,
) -> Generator[Any, Any, T]:
    """Await ``coroutine``; once ``detached()``, the next exception ends us and not it.

    ``waits`` is called as it begins to wait.
    """
    value: Any = None
    thrown: BaseException | None = None
    begun_in, waiting = innermost_scope(), False
    while True:
        try:
            awaited = coroutine.send(value) if thrown is None else coroutine.throw(thrown)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            thrown = None  # it knows this frame, and neither would go
        if waits is not None and not waiting:
            waiting = True
            waits()
        try:
            value = yield awaited
        except BaseException as error:
            if detached():
                abandon(coroutine, begun_in)
                raise
            thrown = error
        finally:
            del awaited  # it may hold what it has raised


@types.coroutine
def in_time(
    work: Coroutine[Any, Any, Any],
    until: float,
    is_late: Callable[[], bool],
    is_left: Callable[[], bool] = lambda: False,
    waits: Callable[[], None] = _nothing,
) -> Generator[Any, Any, Any]:
    """Await it; cancel it at ``until`` by the steady clock, if it has not ended by then.

    ``is_late`` has a say: not what is being ended already, which may take its time for that. Once
    ``is_left()``, the next exception ends us and not the work, which is not resumed any more.
    ``waits`` is called as it begins to wait.
    """
    waiting = False
    error: BaseException | None = None
    begun_in = innermost_scope()
    if steady() >= until and is_late():
        work.close()
        raise CancelledError
    try:
        while True:
            try:
                awaited = work.send(None) if error is None else work.throw(error)
            except StopIteration as end:
                return end.value
            error = None
            if not waiting:
                waiting = True
                waits()
            try:
                yield awaited
            except GeneratorExit:
                work.close()
                raise
            except BaseException as raised:
                if is_left():
                    abandon(work, begun_in)
                    raise
                error = raised
            else:
                if steady() >= until and is_late():  # layer effect-does-not-go
                    error = CancelledError()
    finally:
        error = None  # or its traceback would keep us, and we it


def _limiter() -> anyio.CapacityLimiter:
    loop = asyncio.get_running_loop()
    if loop not in _limiters:
        _limiters[loop] = anyio.CapacityLimiter(THREADS)
    return _limiters[loop]


Ended = asyncio.Future[tuple[Any, BaseException | None]]
"""The value that a function in a thread has returned, or the error that it has raised."""


async def in_thread(
    function: Callable[[], Any],
    is_left: Callable[[], bool],
    late: Callable[[Any, BaseException | None], None],
) -> Any:
    """Call it in a daemon thread and wait for its end, through every cancel.

    A thread cannot be ended. Once ``is_left()``, the next cancel ends the wait and not the thread;
    how that ends then is told ``late``.
    """
    async with _limiter():
        ended = _begin(function)
        with anyio.CancelScope(shield=True):  # or anyio would cancel us again and again
            while True:
                try:
                    await asyncio.wait({ended})  # which a cancel of ours does not cancel
                except asyncio.CancelledError:
                    if is_left() and not ended.done():
                        ended.add_done_callback(lambda ended: late(*ended.result()))
                        raise
                    continue
                result, error = ended.result()
                if error is not None:
                    raise error
                return result


def _begin(function: Callable[[], Any]) -> Ended:
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    ended: Ended = loop.create_future()

    def call() -> None:
        try:
            told: tuple[Any, BaseException | None] = (context.run(function), None)
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            told = (None, error)
        with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody waits any more
            loop.call_soon_threadsafe(_tell, ended, told)

    threading.Thread(target=call, name="midflight-tool", daemon=True).start()
    return ended


def _tell(ended: Ended, told: tuple[Any, BaseException | None]) -> None:
    if not ended.done():
        ended.set_result(told)


class Aborted(Struct, frozen=True):
    """The call was ended by us. How much of it happened is unknown, unless it had not even begun.

    ``proven``: the tool itself knows that nothing happened. ``left``: the call would not end, and
    was left behind; if it is ``at_work`` it may still act.
    """

    why: str
    began: bool = True
    proven: bool = False
    left: bool = False
    at_work: bool = False


class Returned(Struct, frozen=True):
    """The call came to its end."""

    value: Any
    left: ClassVar[bool] = False


class Raised(Struct, frozen=True):
    """The call failed by itself, or did not begin. ``left`` and ``at_work`` are as in Aborted."""

    error: BaseException
    began: bool = True
    left: bool = False
    at_work: bool = False


Ending = Aborted | Returned | Raised


class StillAtWork(Exception):
    """A blocking function has not ended in its time."""


class Nobody:
    """A listener that drops the words of an undo or a check."""

    def hear(self, text: str) -> None:
        """It is for nobody."""

    def pay(self, usage: Usage) -> None:
        """It is on the house."""


NOBODY: Final = Nobody()


async def _awaited(work: Awaitable[Any]) -> Any:
    """Await it, and what it returns for as long as that is to be awaited, too.

    Otherwise a forgotten ``await`` would pass for something that was done.
    """
    found = await work
    while _is_to_await(found):
        found = await found
    return found


def _is_to_await(value: Any) -> bool:
    """Return whether it has to be awaited. By its type: its class may raise when it is asked."""
    return issubclass(type(value), Awaitable)


def _close(work: Awaitable[Any]) -> None:
    """Say that it is not going to be awaited, or Python warns that somebody forgot to."""
    if isinstance(work, Coroutine):
        work.close()
