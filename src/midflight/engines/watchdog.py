"""Notices when code of a user keeps the event loop from turning, and names it.

A tool that is declared ``async`` and then blocks (``time.sleep``, a request without ``await``, a
long computation) stops everything in its process: other runs, timers, the page. Nothing on the loop
can say so, because nothing on the loop runs. So a thread asks the loop for an answer every second.
When none comes for some seconds the thread looks at what the loop is doing, and logs which tool it
is, in which run, and at which line. When the loop turns again that is logged too, and told to the
run.

The block began between the last answer of the loop and the question that it did not answer. The
middle of the two is taken for its beginning, so a duration that is told is wrong by half a second
at most, and is told as "about".

A step costs nothing for this: the call that is being made is found in the context of the code that
the loop is running.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import os
import sys
import threading
import time
import traceback
from asyncio.events import Handle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from msgspec import Struct

from midflight.runtime.steps.tool_call import Call, in_step

ASK_S: Final = 1.0  # between two questions to the loop
BLOCKED_S: Final = 5.0  # without an answer; a person has noticed long before that
OVERSLEPT_S: Final = 1.0  # this thread was not run either: then perhaps the whole process was not
HELPERS: Final = {"undo": "an undo", "check": "a check", "look": "a look before an undo"}
"""Calls that are not of a tool, by the names under which the runtime makes them."""
log: Final = logging.getLogger(__name__)

current_run: Final = contextvars.ContextVar("current_run", default="")
"""The run that a task works for. Set by the crew for everything that a driver begins."""


class Blocked(Struct, frozen=True):
    """The event loop does not turn. ``tool`` is empty where the agent's own code keeps it."""

    run: str
    tool: str
    step: str
    where: str
    stack: str

    @property
    def what(self) -> str:
        """The code that keeps the loop, in words for its run."""
        if self.tool:
            return HELPERS.get(self.tool, f"the tool {self.tool}")
        return "code outside the tools"

    @property
    def who(self) -> str:
        """The code that keeps the loop, in words for a log."""
        step = f" (step {self.step!r})" if self.step else ""
        return f"{self.what}{step} of run {self.run}" if self.run else "code of no run"

    @property
    def advice(self) -> str:
        """Advice for the author of that code."""
        if self.tool in HELPERS:
            thread = "Write it as a plain def, which runs in a thread"
        elif self.tool:
            thread = "Declare it with runs='thread' or runs='process'"
        else:
            thread = "Move it into a tool with runs='thread' or runs='process'"
        return f"{thread}, or await what it waits for."


NameStep = Callable[[str, Call], str]
Tell = Callable[[Blocked, float], None]


class Watchdog:
    """Watches the loop of the thread in which it was made. Made by ``watching``."""

    def __init__(self, name_step: NameStep, tell: Tell, blocked_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread_of_loop = threading.get_ident()
        self._name_step = name_step
        self._tell = tell
        self._blocked_s = blocked_s
        self._answered = self._since = time.monotonic()
        self._stopping = threading.Event()
        self._news = threading.Event()  # the loop has answered, or this is to end
        self._thread = threading.Thread(target=self._watch, name="midflight-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. It hears of it at once."""
        self._stopping.set()
        self._news.set()
        self._thread.join(ASK_S)

    # ── in its thread ────────────────────────────────────────────────────────────────────────

    def _watch(self) -> None:
        while not self._stopping.wait(min(ASK_S, self._blocked_s)):
            self._news.clear()
            self._since = (self._answered + time.monotonic()) / 2  # layer block-counted
            try:
                self._loop.call_soon_threadsafe(self._answer)
            except RuntimeError:
                return  # the loop was closed
            if not self._answers() and not self._stopping.is_set():
                self._report()

    def _answer(self) -> None:
        """Note that the loop turns. It is the loop that calls this."""
        self._answered = time.monotonic()
        self._news.set()

    def _answers(self) -> bool:
        """Wait for the answer of the loop; return False if it is blocked.

        Where this thread has overslept, the process was stopped and so was its loop, or a library
        has kept the interpreter to itself: only the second one takes time of the processor.
        """
        while True:
            asked, used = time.monotonic(), time.process_time()
            if self._news.wait(self._blocked_s):
                return True
            overslept = time.monotonic() - asked - self._blocked_s > OVERSLEPT_S
            # layer process-stopped-blames-no-tool
            if not overslept or time.process_time() - used > self._blocked_s:
                return False
            self._since = time.monotonic()  # before that the whole process was stopped

    def _report(self) -> None:
        found = self._look()
        seconds = time.monotonic() - self._since
        about = {
            "action": "loop_blocked",
            "run": found.run,
            "tool": found.tool,
            "step": found.step,
            "where": found.where,
            "stack": found.stack,
        }
        log.warning(
            "Nothing in this process has moved for about %.0f s: %s blocks the event loop at %s. "
            "What people ask for meanwhile is recorded, and done when it lets go. %s",
            seconds,
            found.who,
            found.where,
            found.advice,
            extra=about,
        )
        self._news.wait()  # it ends with the block, or with this watchdog
        if self._stopping.is_set():
            return
        seconds = self._answered - self._since
        free = {"action": "loop_free", "run": found.run, "tool": found.tool, "seconds": seconds}
        log.warning(
            "This process moves again: %s blocked it for about %.0f s",
            found.who,
            seconds,
            extra=free,
        )
        self._loop.call_soon_threadsafe(self._tell, found, seconds)

    def _look(self) -> Blocked:
        """Find out what the loop is doing now. It goes on meanwhile, so nothing here is sure."""
        frame = sys._current_frames().get(self._thread_of_loop)
        context = _context_of(frame, self._loop)
        call = context.get(in_step) if context is not None else None
        run = context.get(current_run, "") if context is not None else ""
        return Blocked(
            run=run,
            tool=call.tool.name if call is not None else "",
            step=self._name_step(run, call) if call is not None else "",
            where=_place(frame),
            stack="".join(traceback.format_stack(frame)) if frame is not None else "",
        )


@contextmanager
def watching(name_step: NameStep, tell: Tell, blocked_s: float = BLOCKED_S) -> Iterator[None]:
    """Watch the running loop for as long as the block runs.

    ``name_step`` is called in another thread, so it only looks. ``tell`` is called on the loop when
    it turns again, with how long it did not.
    """
    watchdog = Watchdog(name_step, tell, blocked_s)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


def _context_of(
    frame: FrameType | None, loop: asyncio.AbstractEventLoop
) -> contextvars.Context | None:
    """Return the context of the callback that the loop is running.

    It is that of a tool also in tasks which the tool has begun. There is no public way to it from
    another thread in Python 3.11, but the loop's own frame has it. uvloop has no such frame. There
    the task that runs now refers to its context.
    """
    while frame is not None and frame.f_code is not Handle._run.__code__:
        frame = frame.f_back
    if frame is not None:
        return getattr(frame.f_locals.get("self"), "_context", None)
    known = gc.get_referents(asyncio.current_task(loop))
    return next((found for found in known if isinstance(found, contextvars.Context)), None)


def _place(frame: FrameType | None) -> str:
    """Return the innermost line outside the standard library and this package, or the innermost."""
    innermost = frame
    while frame is not None and not _is_of_a_user(frame):
        frame = frame.f_back
    found = frame if frame is not None else innermost
    if found is None:
        return "an unknown place"
    return f"{found.f_code.co_filename}:{found.f_lineno} in {found.f_code.co_qualname}"


_LIBRARY: Final = os.path.dirname(os.__file__) + os.sep
_PACKAGE: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep


def _is_of_a_user(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    of_library = file.startswith(_LIBRARY) and "site-packages" not in file
    return not (of_library or file.startswith((_PACKAGE, "<frozen ")))
